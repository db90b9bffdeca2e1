"""The next squad on one device: who, in which order, with how many SMs, and for how long.

`form` puts the layers together: the policy ranks the waiting tenants, compatibility picks who runs together. On a
device whose lower ranks fill the SMs that higher ranks leave, the order is all there is to the division, except for
what is reserved: a split that ends all members together would undo the order that the policy made. Where members need
threads of their own, the split by bisection gives each its number. Where members together want more memory bandwidth
than there is, SMs that would only wait for memory go to the others. Kernels are taken until a count or a time is
full, since kernels of one model differ in length a thousandfold. The device daemon, the shared devices of a fleet and
the benchmark's virtual GPU execute what this answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from dure.share import bandwidth
from dure.share.compat import Candidate, companions, side_by_side, stacked
from dure.share.interference import App, Book
from dure.share.policies import Rank
from dure.share.split import split


class Waiting(msgspec.Struct, frozen=True):
    """A tenant with a request inside. `segments_ms` are the predicted times of its next schedulable units."""

    tenant: str
    app: App
    segments_ms: tuple[float, ...]
    left_ms: float
    age_ms: float
    target_ms: float
    weight: float = 1.0
    need: float = 1.0
    reserved_parts: int = 0
    most_parts: int = 0
    """More than these it never gets, also when others idle; 0 means no such limit."""
    bandwidth: float = 0.0
    """Part of the device's memory bandwidth that it draws at full speed."""


class Member(msgspec.Struct, frozen=True):
    """`parts` is what it gets: exactly where partitions are exclusive, else while all fill what they usually do."""

    tenant: str
    rank: int
    segments: int
    parts: int
    claim: int = 0
    """Partitions that are its own before anybody else's, whatever its rank."""
    most: int = 0
    """More than these it never holds; 0 means no limit."""


class Squad(msgspec.Struct, frozen=True):
    """Members in order of rank. `predicted_ms` is when the last of them ends."""

    members: tuple[Member, ...]
    policy: str
    predicted_ms: float


class SquadSettings(msgspec.Struct, frozen=True):
    """`exclusive`: a member's partitions are nobody else's until its part of the squad ends, like threads. Otherwise
    lower ranks fill at every moment what higher ranks leave, like SMs."""

    parts: int = 18
    most_segments: int = 50
    most_ms: float = 2.0
    """Of each member. Nothing drains between squads, so a short one costs little and the order can change in time."""
    exclusive: bool = False


def form(
    waiting: Sequence[Waiting], policy: str, rank: Rank, book: Book, settings: SquadSettings | None = None
) -> Squad:
    """The next squad; empty when nobody waits. Reserved partitions are its tenant's whenever it is a member."""
    s = settings or SquadSettings()
    if not waiting:
        return Squad((), policy, 0.0)
    if len(waiting) == 1:
        return _alone(waiting[0], policy, s)
    in_order = ordered(waiting, rank)
    gain = side_by_side if s.exclusive else stacked
    names = companions([Candidate(w.tenant, w.app, _can_fill(w, s.parts)) for w in in_order], book, gain)
    chosen = _fitting([w for w in in_order if w.tenant in names or w.reserved_parts > 0], s.parts)
    counts = _counts(chosen, s)
    chosen = [w for w in chosen if counts[w.tenant] > 0]
    stacks = [sum(w.segments_ms[: counts[w.tenant]]) for w in chosen]
    parts, most = _divided(chosen, stacks, s)
    members = tuple(
        Member(w.tenant, place, counts[w.tenant], n, min(w.reserved_parts, n), cap)
        for place, (w, n, cap) in enumerate(zip(chosen, parts, most, strict=True))
    )
    ends = [_stretched(ms, w.need, s.parts)(n) for ms, w, n in zip(stacks, chosen, parts, strict=True)]
    return Squad(members, policy, max(ends, default=0.0))


def _fitting(members: list[Waiting], parts: int) -> list[Waiting]:
    """As many as there are partitions, in order; one with a reservation stays, whatever its place."""
    kept = sorted(range(len(members)), key=lambda i: (members[i].reserved_parts <= 0, i))[:parts]
    return [members[i] for i in sorted(kept)]


def _divided(chosen: Sequence[Waiting], stacks: Sequence[float], s: SquadSettings) -> tuple[list[int], list[int]]:
    """Partitions of each member, and the most that it may hold."""
    if s.exclusive:
        times = [_stretched(ms, w.need, s.parts) for ms, w in zip(stacks, chosen, strict=True)]
        wanted = _with_reserved(chosen, split(times, s.parts))
    else:
        wanted = _in_order(chosen, s.parts)
    capped = [_capped(w, n) for w, n in zip(chosen, wanted, strict=True)]
    fed = _within_bandwidth(chosen, capped, s.parts)
    return fed, [n if n < before else w.most_parts for w, n, before in zip(chosen, fed, capped, strict=True)]


def _in_order(chosen: Sequence[Waiting], total: int) -> list[int]:
    """What is reserved first, one for everybody else, then what each can fill, down the order."""
    held = [max(1, w.reserved_parts) for w in chosen]
    while sum(held) > total:
        held[max(range(len(held)), key=lambda i: (held[i], i))] -= 1
    free = total - sum(held)
    for i, w in enumerate(chosen):
        more = max(0, min(_capped(w, math.ceil(_fills(w, total))) - held[i], free))
        held[i] += more
        free -= more
    return held


def _alone(only: Waiting, policy: str, settings: SquadSettings) -> Squad:
    """Nobody to share with: the whole device, no ranking."""
    count = _counts((only,), settings)[only.tenant]
    parts = _capped(only, settings.parts)
    member = Member(only.tenant, 0, count, parts, min(only.reserved_parts, parts), only.most_parts)
    return Squad((member,) if count else (), policy, sum(only.segments_ms[:count]))


def _can_fill(waiting: Waiting, parts: int) -> float:
    return min(waiting.need, waiting.most_parts / parts) if waiting.most_parts else waiting.need


def _capped(waiting: Waiting, parts: int) -> int:
    return min(parts, waiting.most_parts) if waiting.most_parts else parts


def ordered(waiting: Sequence[Waiting], rank: Rank) -> list[Waiting]:
    """By the policy, the first one first."""
    size = len(waiting)
    if size == 1:
        return [waiting[0]]
    places = np.zeros(size, np.int64)
    rank(
        np.ones(size, np.bool_),
        np.array([w.left_ms for w in waiting], np.float64),
        np.array([w.need for w in waiting], np.float64),
        np.array([w.age_ms for w in waiting], np.float64),
        np.array([max(w.target_ms, 1e-6) for w in waiting], np.float64),
        np.array([w.weight for w in waiting], np.float64),
        places,
    )
    return [waiting[i] for i in sorted(range(size), key=lambda i: (int(places[i]), waiting[i].tenant))]


def _counts(chosen: Sequence[Waiting], settings: SquadSettings) -> dict[str, int]:
    """Units of each member: round robin in rank order until the squad is full or a request is complete."""
    counts = {w.tenant: 0 for w in chosen}
    used = {w.tenant: 0.0 for w in chosen}
    total = 0
    while total < settings.most_segments:
        progressed = False
        for w in chosen:
            at = counts[w.tenant]
            if at >= len(w.segments_ms) or total >= settings.most_segments:
                continue
            if at > 0 and used[w.tenant] + w.segments_ms[at] > settings.most_ms:
                continue
            counts[w.tenant] += 1
            used[w.tenant] += w.segments_ms[at]
            total += 1
            progressed = True
        if not progressed:
            break
    return counts


def _stretched(ms: float, need: float, parts: int) -> Stretch:
    return Stretch(ms, max(need, 1e-6), parts)


class Stretch:
    """Time of a member's work on `n` partitions: it grows once they are fewer than the work can fill."""

    def __init__(self, ms: float, need: float, parts: int) -> None:
        self._ms = ms
        self._need = need
        self._parts = parts

    def __call__(self, n: int) -> float:
        return self._ms * max(1.0, self._need * self._parts / n)


def _with_reserved(chosen: Sequence[Waiting], parts: Sequence[int]) -> list[int]:
    """Raise critical members to their reservation at the expense of the largest others."""
    shares = list(parts)
    for i, w in enumerate(chosen):
        while shares[i] < w.reserved_parts:
            donors = [
                j for j, other in enumerate(chosen) if j != i and shares[j] > 1 and shares[j] > other.reserved_parts
            ]
            if not donors:
                break
            donor = max(donors, key=lambda j: (shares[j], -j))
            shares[donor] -= 1
            shares[i] += 1
    return shares


def _within_bandwidth(chosen: Sequence[Waiting], parts: list[int], total: int) -> list[int]:
    """Nobody holds SMs that its share of the bandwidth cannot feed; those go to the slowest who are fed."""
    draws = {w.tenant: w.bandwidth * min(1.0, n / _fills(w, total)) for w, n in zip(chosen, parts, strict=True)}
    if sum(draws.values()) <= 1.0:
        return parts
    shares = bandwidth.divide(draws, {w.tenant: w.weight for w in chosen})
    starved = {w.tenant for w in chosen if shares[w.tenant] < draws[w.tenant]}
    held = [_fed(w, n, shares, total) if w.tenant in starved else n for w, n in zip(chosen, parts, strict=True)]
    for _ in range(sum(parts) - sum(held)):
        hungry = [
            i
            for i, w in enumerate(chosen)
            if w.tenant not in starved and held[i] < min(_fills(w, total), w.most_parts or total)
        ]
        if not hungry:
            break
        slowest = max(hungry, key=lambda i: (_fills(chosen[i], total) / held[i], -i))
        held[slowest] += 1
    return held


def _fed(waiting: Waiting, parts: int, shares: Mapping[str, float], total: int) -> int:
    enough = math.ceil(shares[waiting.tenant] / waiting.bandwidth * _fills(waiting, total))
    return min(parts, max(enough, waiting.reserved_parts, 1))


def _fills(waiting: Waiting, total: int) -> float:
    """How many partitions its work can fill."""
    return max(waiting.need * total, 1e-6)
