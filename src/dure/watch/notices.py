"""What a person should be told, as values: notices out of a status, grouped, and put into words.

The notifier calls `notices_of` at every look at the fleet and `grouped` before it sends. A notice is the same as an
earlier one when its key is; its words may change while it lasts. Pure.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

import msgspec

from dure.model.answer import FleetStatus
from dure.model.units import Instant

# A risk below this is not worth anybody's evening.
TELL_RISK = 0.8


class Risky(msgspec.Struct, frozen=True):
    """A serving whose promise will probably be broken."""

    tenant: str
    workload: str
    late: float
    risk: float


class Notice(msgspec.Struct, frozen=True):
    """`key` tells it from others; `group` is what it is told together with (a cluster, or a tenant)."""

    key: str
    group: str
    sentence: str
    remedy: str = ""
    over: bool = False


class Silence(msgspec.Struct, frozen=True):
    """Notices whose key matches the pattern (`*` stands for anything) are not told until then."""

    pattern: str
    until_s: Instant
    why: str = ""

    def covers(self, notice: Notice, now_s: Instant) -> bool:
        return now_s < self.until_s and fnmatch.fnmatchcase(notice.key, self.pattern)


class Letter(msgspec.Struct, frozen=True):
    """One message: all that is new in a group. `id` is the same in every try, so that a reader can drop a second."""

    id: str
    fleet: str
    group: str
    at_s: Instant
    notices: tuple[Notice, ...]

    @property
    def title(self) -> str:
        begun = sum(not one.over for one in self.notices)
        over = len(self.notices) - begun
        told = [f"{begun} to look at"] * bool(begun) + [f"{over} over"] * bool(over)
        return f"[{self.fleet}] {self.group}: {', '.join(told)}"

    def lines(self) -> list[str]:
        return [
            f"{'Over' if one.over else 'Now'}: {one.sentence}" + (f"\n  {one.remedy}" if one.remedy else "")
            for one in self.notices
        ]


def notices_of(status: FleetStatus, risks: Iterable[Risky] = ()) -> tuple[Notice, ...]:
    """Everything that stands now, sorted by key."""
    found = {}
    for trouble in status.troubles:
        where = trouble.workload or trouble.cluster or "fleet"
        kind = "workload" if trouble.workload else "cluster" if trouble.cluster else "fleet"
        group = trouble.cluster or trouble.workload or "fleet"
        found[f"{kind}/{where}"] = Notice(f"{kind}/{where}", group, trouble.sentence, trouble.remedy)
    for one in risks:
        if one.risk >= TELL_RISK:
            key = f"risk/{one.workload}"
            told = f"{one.workload} of {one.tenant}: {one.late:.0%} of requests will be late (risk {one.risk:.0%})"
            found[key] = Notice(key, one.tenant, told, f"dure why {one.workload}")
    return tuple(notice for _, notice in sorted(found.items()))


def grouped(notices: Iterable[Notice]) -> dict[str, tuple[Notice, ...]]:
    groups: dict[str, list[Notice]] = {}
    for notice in sorted(notices, key=lambda one: (one.group, one.over, one.key)):
        groups.setdefault(notice.group, []).append(notice)
    return {group: tuple(some) for group, some in groups.items()}
