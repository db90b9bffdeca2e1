"""Slack-guarded shortest remaining first: finish somebody soon, unless that would break a promise.

The request with the least work left goes first as long as serving it and then all others in deadline order
still meets every promise that can still be met; otherwise the earliest deadline goes first. It is the JCT policy
while there is slack and the SLO policy when there is none. A late request ages, so it cannot starve.
Source: ours. Cost O(K^2) for K waiting requests. Not for tenants without a latency promise: use `jct`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.share.policies.arrays import Flags, Places, Reals

AGEING = 4.0
"""A request late by its whole target counts as having 1 / (1 + AGEING) of its work left."""

GRACE = 1.15
"""A request counts as lost only past this multiple of its target: neighbours slow it by about as much, and work
that is almost done on time must not be dropped at the last moment."""


@njit(cache=True)
def rank(waiting: Flags, left: Reals, need: Reals, age: Reals, target: Reals, weight: Reals, out: Places) -> None:
    """Write each waiting request's place into `out` (0 goes first); idle tenants keep the last places."""
    tenants = waiting.shape[0]
    due = np.empty(tenants, np.int64)
    waiting_count = 0
    for k in range(tenants):
        out[k] = tenants
        if waiting[k]:
            at = waiting_count
            while at > 0 and target[k] - age[k] < target[due[at - 1]] - age[due[at - 1]]:
                due[at] = due[at - 1]
                at -= 1
            due[at] = k
            waiting_count += 1
    ahead = 0.0
    for place in range(waiting_count):
        best = _shortest(out, due, waiting_count, tenants, left, age, target)
        if not _kept(best, ahead, out, due, waiting_count, tenants, left, age, target):
            for at in range(waiting_count):
                k = due[at]
                if out[k] == tenants and age[k] + left[k] <= GRACE * target[k]:
                    best = k
                    break
        out[best] = place
        ahead += left[best]


@njit(cache=True)
def _shortest(out: Places, due: Places, count: int, none: int, left: Reals, age: Reals, target: Reals) -> int:
    best = -1
    least = 0.0
    for at in range(count):
        k = due[at]
        if out[k] != none:
            continue
        late = max(0.0, age[k] + left[k] - target[k])
        work = left[k] / (1.0 + AGEING * late / target[k])
        if best < 0 or work < least:
            best = k
            least = work
    return best


@njit(cache=True)
def _kept(
    first: int,
    ahead: float,
    out: Places,
    due: Places,
    count: int,
    none: int,
    left: Reals,
    age: Reals,
    target: Reals,
) -> bool:
    """Would everyone who is not already late still be on time behind `first`?"""
    passed = ahead + left[first]
    for at in range(count):
        k = due[at]
        if k == first or out[k] != none:
            continue
        if age[k] + left[k] > GRACE * target[k]:
            continue
        passed += left[k]
        if age[k] + passed > target[k]:
            return False
    return True
