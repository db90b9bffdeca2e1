"""Slack-guarded shortest remaining first: finish somebody soon, unless that would break a promise.

The request with the least work left goes first as long as serving it and then all others in deadline order
still meets every promise that can still be met; otherwise the earliest deadline goes first. Where even that order,
one after the other, makes somebody late, requests that overlap may all be on time yet: then one whose work needs a
much larger part of the time it has left goes before an earlier deadline. It is the JCT policy while there is slack
and the SLO policy when there is none. A late request ages, so it cannot starve.
Source: ours. Cost O(K^2) for K waiting requests. Not for tenants without a latency promise: use `jct`.
"""

from __future__ import annotations

from numba import njit

from dure.share.policies.arrays import Flags, Places, Reals

AGEING = 4.0
"""A request late by its whole target counts as having 1 / (1 + AGEING) of its work left."""

GRACE = 1.15
"""A request counts as lost only past this multiple of its target: neighbours slow it by about as much, and work
that is almost done on time must not be dropped at the last moment."""

LATE = 1.03
"""Somebody is late behind the others past this multiple of its target: they overlap, so one after the other is a
little pessimistic."""

TOGETHER = 1.5
"""Parts of the device that requests may need in all to be on time together: what overlapping gains at most. Beyond it
somebody will be late, and sharing the delay would make all of them late."""

HARDER = 1.5
"""So many times the part that the earliest deadline needs: among equals one after the other is better for all."""


DUE = 32
PLACE = (1 << DUE) - 1
"""While places are given, the upper half of `out` holds the tenants in the order of their deadlines: the benchmark's
loop calls this where no array can be made."""


@njit(cache=True)
def rank(waiting: Flags, left: Reals, need: Reals, age: Reals, target: Reals, weight: Reals, out: Places) -> None:
    """Write each waiting request's place into `out` (0 goes first); idle tenants keep the last places."""
    tenants = waiting.shape[0]
    count = 0
    for k in range(tenants):
        out[k] = tenants
    for k in range(tenants):
        if waiting[k]:
            at = count
            while at > 0 and target[k] - age[k] < target[_due(out, at - 1)] - age[_due(out, at - 1)]:
                _set_due(out, at, _due(out, at - 1))
                at -= 1
            _set_due(out, at, k)
            count += 1
    ahead = 0.0
    for place in range(count):
        best = _shortest(out, count, left, age, target)
        if not _kept(best, ahead, out, count, left, age, target):
            best = _pressed(best, out, count, left, age, target)
        out[best] += place - tenants
        ahead += left[best]
    for k in range(tenants):
        out[k] &= PLACE


@njit(cache=True)
def _due(out: Places, at: int) -> int:
    """Who has the deadline of this place in their order."""
    return int(out[at] >> DUE)


@njit(cache=True)
def _set_due(out: Places, at: int, k: int) -> None:
    out[at] = (out[at] & PLACE) | (k << DUE)


@njit(cache=True)
def _placed(out: Places, k: int) -> bool:
    return bool((out[k] & PLACE) < out.shape[0])


@njit(cache=True)
def _pressed(otherwise: int, out: Places, count: int, left: Reals, age: Reals, target: Reals) -> int:
    """The earliest deadline of those who can still be on time; or whoever is much harder pressed, if one after the
    other they would not all be on time but together they may."""
    first = otherwise
    hardest = otherwise
    firsts = 0.0
    most = 0.0
    together = 0.0
    passed = 0.0
    late = False
    for at in range(count):
        k = _due(out, at)
        if _placed(out, k) or age[k] + left[k] > GRACE * target[k]:
            continue
        passed += left[k]
        late = late or age[k] + passed > LATE * target[k]
        pressed = left[k] / max(target[k] - age[k], 1e-3)
        if together == 0.0:
            first = k
            firsts = pressed
        together += pressed
        if pressed > most:
            most = pressed
            hardest = k
    return hardest if late and together <= TOGETHER and most > HARDER * firsts else first


@njit(cache=True)
def _shortest(out: Places, count: int, left: Reals, age: Reals, target: Reals) -> int:
    best = -1
    least = 0.0
    for at in range(count):
        k = _due(out, at)
        if _placed(out, k):
            continue
        late = max(0.0, age[k] + left[k] - target[k])
        work = left[k] / (1.0 + AGEING * late / target[k])
        if best < 0 or work < least:
            best = k
            least = work
    return best


@njit(cache=True)
def _kept(first: int, ahead: float, out: Places, count: int, left: Reals, age: Reals, target: Reals) -> bool:
    """Would everyone who is not already late still be on time behind `first`?"""
    passed = ahead + left[first]
    for at in range(count):
        k = _due(out, at)
        if k == first or _placed(out, k):
            continue
        if age[k] + left[k] > GRACE * target[k]:
            continue
        passed += left[k]
        if age[k] + passed > target[k]:
            return False
    return True
