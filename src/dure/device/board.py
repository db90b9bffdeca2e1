"""What a shared device tells and is told: status, squads, timeline, policy, feedback; real and virtual devices alike.

The daemon's door, the fleet's API and the command line speak in these structs. Importing it compiles nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, get_args

import msgspec

from dure.device.record import Bubble, Record, Span, SquadRun, WeightPoint
from dure.model.errors import InvalidInput, NotFound
from dure.share.compat import Candidate, matrix, side_by_side, stacked
from dure.share.feedback import Word

if TYPE_CHECKING:
    from dure.device.config import DeviceConfig
    from dure.device.tuning import Tuner

RECENT_MS = 10_000.0
WORDS: tuple[str, ...] = get_args(Word)


class Shared(Protocol):
    """One device that runs squads. `parts` is what shares are counted in: threads, or partitions of SMs. `exclusive`
    is whether they are one member's until its part of a squad ends, as threads are."""

    @property
    def config(self) -> DeviceConfig: ...
    @property
    def tuner(self) -> Tuner: ...
    @property
    def record(self) -> Record: ...
    @property
    def parts(self) -> int: ...
    @property
    def unit(self) -> str: ...
    @property
    def exclusive(self) -> bool: ...

    def now_ms(self) -> float: ...
    def waiting(self) -> dict[str, int]: ...
    def ready(self) -> bool: ...
    def starts(self, tenant: str) -> int: ...
    def need(self, tenant: str) -> float: ...
    def refused(self) -> dict[str, str]: ...
    def scheduler_us(self) -> float: ...
    def set_policy(self, name: str) -> None: ...
    def set_aside(self) -> dict[str, str]:
        """Policies of other packages that failed, and why."""
        ...


class ShareTenant(msgspec.Struct, frozen=True):
    """`attained` and `risk` of the promise that is most at risk; None while nothing was measured."""

    name: str
    waiting: int
    weight: float
    target_ms: float
    attained: float | None = None
    risk: float | None = None
    answered: int = 0
    starts: int = 1
    model: str = ""
    refused: str = ""


class SharePair(msgspec.Struct, frozen=True):
    """What is known of `tenant` beside `other`: rho of equation 1 and its standard deviation, and what both get done
    together when `tenant` goes first (`together`, 1 is taking turns: below it they are kept apart)."""

    tenant: str
    other: str
    rho: float
    sd: float
    together: float


class ShareStatus(msgspec.Struct, frozen=True):
    """`scheduler_us_per_segment` is processor time of the scheduler itself."""

    device: str
    policy: str
    automatic: bool
    ready: bool
    parts: int
    unit: str
    scheduler_us_per_segment: float
    tenants: tuple[ShareTenant, ...]
    pairs: tuple[SharePair, ...] = ()
    set_aside: dict[str, str] = {}
    """Policies of other packages that failed, and why; the default orders in their place."""


class Timeline(msgspec.Struct, frozen=True):
    """What ran in the last window, in ms of the device's own clock."""

    device: str
    now_ms: float
    spans: tuple[Span, ...]
    bubbles: tuple[Bubble, ...]
    squads: tuple[SquadRun, ...]
    weights: tuple[WeightPoint, ...]


class ShareView(msgspec.Struct, frozen=True):
    """What a page shows: names of all shared devices, and one of them in full if there is any."""

    devices: tuple[str, ...] = ()
    status: ShareStatus | None = None
    timeline: Timeline | None = None


class Squads(msgspec.Struct, frozen=True):
    squads: tuple[SquadRun, ...]


class PolicyChange(msgspec.Struct, frozen=True):
    policy: str


class Feedback(msgspec.Struct, frozen=True):
    """`word` is too-slow, fine or batch."""

    tenant: str
    word: str


class Moved(msgspec.Struct, frozen=True):
    """A latency target before and after a word was taken."""

    tenant: str
    before_ms: float
    target_ms: float


def status(shared: Shared, *, pairs: bool = False) -> ShareStatus:
    """The device at a glance; with what is known of its pairs if asked for, which takes longer."""
    tuner, waiting, refused = shared.tuner, shared.waiting(), shared.refused()
    since_ms = shared.now_ms() - RECENT_MS
    models = {tenant.name: tenant.model for tenant in shared.config.tenants}
    return ShareStatus(
        device=shared.config.name,
        policy=tuner.policy,
        automatic=tuner.automatic,
        ready=shared.ready(),
        parts=shared.parts,
        unit=shared.unit,
        scheduler_us_per_segment=round(shared.scheduler_us(), 2),
        tenants=tuple(
            ShareTenant(
                name=name,
                waiting=waiting[name],
                weight=round(tuner.weights[name], 4),
                target_ms=round(tuner.target_ms(name), 3),
                attained=round(tuner.standing[name].actual, 4) if name in tuner.standing else None,
                risk=round(tuner.standing[name].risk, 3) if name in tuner.standing else None,
                answered=len(shared.record.answers(name, since_ms)),
                starts=shared.starts(name),
                model=models[name],
                refused=refused.get(name, ""),
            )
            for name in waiting
            if name in models
        ),
        pairs=_pairs(shared) if pairs else (),
        set_aside=shared.set_aside(),
    )


def _pairs(shared: Shared) -> tuple[SharePair, ...]:
    """Every ordered pair, as the engine of `share` sees it when it chooses who runs together."""
    tuner = shared.tuner
    names = [name for name in shared.waiting() if name not in shared.refused()]
    candidates = [Candidate(name, tuner.app(name), shared.need(name)) for name in names]
    gains = matrix(candidates, tuner.book, side_by_side if shared.exclusive else stacked)
    found = []
    for i, first in enumerate(candidates):
        for j, second in enumerate(candidates):
            if i != j:
                rho = tuner.book.rho(first.app, second.app)
                found.append(
                    SharePair(
                        first.name, second.name, round(rho.mean, 4), round(rho.sd, 4), round(float(gains[i, j]), 4)
                    )
                )
    return tuple(found)


def squads(shared: Shared, after: int = 0) -> Squads:
    """Those with a number above `after`, as far as they are still kept."""
    return Squads(tuple(shared.record.squads(after)))


def timeline(shared: Shared, window_ms: float) -> Timeline:
    now_ms = shared.now_ms()
    seen = shared.record.timeline(now_ms - window_ms)
    return Timeline(shared.config.name, now_ms, *seen)


def say(shared: Shared, given: Feedback) -> Moved:
    """Take a tenant's word about its speed."""
    if given.tenant not in shared.waiting():
        known = ", ".join(sorted(shared.waiting()))
        raise NotFound(f"no tenant '{given.tenant}' on this device", remedy=f"Tenants: {known}.")
    before_ms = shared.tuner.target_ms(given.tenant)
    shared.tuner.say(given.tenant, word_of(given.word))
    return Moved(given.tenant, before_ms, shared.tuner.target_ms(given.tenant))


def word_of(text: str) -> Word:
    if text not in WORDS:
        raise InvalidInput(f"'{text[:40]}' is not feedback", remedy=f"Say one of: {', '.join(WORDS)}.")
    return text  # type: ignore[return-value]  # it is one of them
