"""What the executor learns while it runs: corrections of predictions, rho, weights, targets, the policy in force.

Pure parts come from `share`; this keeps their state. `tick` closes a window about once a second; the time-series
database stays out of the squad loop. Only the executor's thread writes, except for what people say: that may come
from any thread and is handed to `keep` at once, so that it survives the process.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from dure.device.config import AUTO, DeviceConfig, app_of
from dure.device.record import Record, WeightPoint
from dure.model.errors import InvalidInput
from dure.share import feedback, predict, weights
from dure.share.choose import Choice, Mood, choose
from dure.share.interference import App, Observation, empty_book
from dure.share.promise import Attainment, attainment, worst

WINDOW_MS = 1000.0
SPAN_MS = 10_000.0
BATCH = 32
"""Observations that are learnt together: one solve for all of them."""
NO_TARGET_MS = 1e6
REMEMBERED = 256
"""Predictions under sharing that are kept with what came of them."""


def wall_ms() -> float:
    return time.time() * 1000.0


class Spoken:
    """What people said, on a clock that outlives the process. `keep` stores it; the default forgets it at the end."""

    def __init__(
        self,
        clock_ms: Callable[[], float] = wall_ms,
        said: Sequence[feedback.Said] = (),
        keep: Callable[[tuple[feedback.Said, ...]], None] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._clock_ms = clock_ms
        self._said = tuple(said)
        self._keep = keep

    def target_ms(self, base_ms: float, tenant: str) -> float:
        """The promised latency, moved by what was said within the last hour."""
        return feedback.target_ms(base_ms, self._said, tenant, self._clock_ms()) if self._said else base_ms

    def now_ms(self) -> float:
        return self._clock_ms()

    def say(self, tenant: str, word: feedback.Word) -> None:
        now_ms = self._clock_ms()
        with self._lock:
            self._said = feedback.kept((*self._said, feedback.Said(tenant, word, now_ms)), now_ms)
            if self._keep is not None:
                self._keep(self._said)


class Foretold(NamedTuple):
    """How long one member's part of a squad should have taken beside its neighbours (equation 1), and took."""

    at_ms: float
    model: str
    predicted_ms: float
    spent_ms: float


class Tuner:
    """State of one device's learning."""

    def __init__(self, config: DeviceConfig, record: Record, spoken: Spoken | None = None) -> None:
        self._config = {t.name: t for t in config.tenants}
        self._goals = config.goals
        self._record = record
        self.spoken = spoken or Spoken()
        self._corrections = {name: predict.Correction() for name in self._config}
        self._apps = {name: app_of(t) for name, t in self._config.items()}
        self._seen: list[Observation] = []
        self.foretold: deque[Foretold] = deque(maxlen=REMEMBERED)
        self._closed_ms = 0.0
        self._fixed = None if config.policy == AUTO else config.policy
        self._choice = Choice(config.goals.otherwise)
        self.book = empty_book()
        self.weights = {name: t.weight for name, t in self._config.items()}
        self.standing: dict[str, Attainment] = {}
        self.foresees = True
        """False lets equation 3 see only what has happened, as a measure of what foresight is worth."""

    @property
    def policy(self) -> str:
        """The policy for the next squad."""
        return self._fixed or self._choice.policy

    @property
    def automatic(self) -> bool:
        return self._fixed is None

    def set_policy(self, name: str, known: Collection[str]) -> None:
        """Fix a policy, or let the goals choose (`auto`)."""
        if name != AUTO and name not in known:
            raise InvalidInput(
                f"no sharing policy '{name[:80]}'", remedy=f"Known: {AUTO}, {', '.join(sorted(known))}."
            )
        self._fixed = None if name == AUTO else name

    def app(self, tenant: str) -> App:
        return self._apps[tenant]

    def predicted(self, tenant: str, segments_ms: Sequence[float]) -> list[float]:
        factor = self._corrections[tenant].factor
        return [ms * factor for ms in segments_ms]

    def target_ms(self, tenant: str) -> float:
        """The latency promised now, moved by what people said."""
        base = self._config[tenant].promise.latency_ms
        return NO_TARGET_MS if base is None else self.spoken.target_ms(base, tenant)

    def say(self, tenant: str, word: feedback.Word) -> None:
        self.spoken.say(tenant, word)

    def inherit(self, before: Tuner) -> None:
        """Go on with what another tuner of this device has learnt of those tenants that are still here."""
        self.book, self._fixed, self._choice = before.book, before._fixed, before._choice
        self.foretold = before.foretold
        for name in self._config.keys() & before._config.keys():
            self.weights[name] = before.weights[name]
            self._corrections[name] = before._corrections[name]

    def learn(
        self, tenant: str, beside: Sequence[tuple[str, float]], share: float, alone_ms: float, spent_ms: float
    ) -> None:
        """One member's part of a squad has ended; `beside` names its neighbours and their parts of the device.

        `alone_ms` is what it would have taken undisturbed with that share. What several neighbours did together is
        put down to each in equal parts.
        """
        if alone_ms <= 0.0 or spent_ms <= 0.0:
            return
        if not beside:
            self._corrections[tenant] = predict.observe(self._corrections[tenant], alone_ms, spent_ms)
            return
        expected = predict.corrected_ms(alone_ms, self._corrections[tenant])
        own = self.app(tenant)
        slowed_ms = expected / self.book.speed(own, share, [(self.app(other), theirs) for other, theirs in beside])
        self.foretold.append(Foretold(self.spoken.now_ms(), self._config[tenant].model, slowed_ms, spent_ms))
        speed = min(expected / spent_ms, 1.0) ** (1.0 / len(beside))
        for other, theirs in beside:
            self._seen.append(Observation(own, self.app(other), share, theirs, speed))
        if len(self._seen) >= BATCH:
            self.book = self.book.learn(self._seen)
            self._seen = []

    def due(self, now_ms: float) -> bool:
        return now_ms - self._closed_ms >= WINDOW_MS

    def tick(self, now_ms: float, waiting: Mapping[str, int]) -> None:
        """Once in a window: attainment, equation 3, and the policy that the goals ask for."""
        if not self.due(now_ms):
            return
        self._closed_ms = now_ms
        found: dict[str, Attainment] = {}
        standings = {}
        for name, tenant in self._config.items():
            standing = worst(attainment(tenant.promise, self._record.answers(name, now_ms - SPAN_MS), SPAN_MS))
            if standing is not None:
                found[name] = standing
            target, actual = (standing.target, self._reckoned(standing)) if standing else (1.0, 1.0)
            standings[name] = weights.Standing(tenant.weight, self.weights[name], target, actual)
        self.standing = found
        self.weights = weights.update(standings)
        self._choice = choose(self._choice, self._mood(waiting), self._goals)
        self._record.add_weights(WeightPoint(now_ms, dict(self.weights), self.policy))

    def _reckoned(self, standing: Attainment) -> float:
        return standing.foreseen if self.foresees else standing.actual

    def _mood(self, waiting: Mapping[str, int]) -> Mood:
        tenants = max(1, len(self._config))
        return Mood(
            risk=max((a.risk for a in self.standing.values()), default=0.0),
            load=sum(waiting.values()) / tenants,
            late=sum(a.actual < a.target for a in self.standing.values()) / tenants,
            batch=sum(t.batch for t in self._config.values()) / tenants,
            queue=sum(waiting.values()) / tenants,
        )
