"""SLO: least slack first; a request at risk outranks every request that is safe.

Slack = target - time since arrival - work left, relative to the target. Requests whose promise can still be
kept come before those already lost, so one hopeless tenant cannot drag the others down; among the lost the
oldest goes first. Source: least-laxity-first scheduling. Cost O(K^2). Not for batch work: it waits.
"""

from __future__ import annotations

from numba import njit

from dure.share.policies.arrays import Flags, Places, Reals


@njit(cache=True)
def rank(waiting: Flags, left: Reals, need: Reals, age: Reals, target: Reals, weight: Reals, out: Places) -> None:
    """Write each waiting request's place into `out` (0 goes first); idle tenants keep the last places."""
    tenants = waiting.shape[0]
    for k in range(tenants):
        if not waiting[k]:
            out[k] = tenants
            continue
        place = 0
        own = _urgency(left[k], age[k], target[k])
        for j in range(tenants):
            if j != k and waiting[j]:
                other = _urgency(left[j], age[j], target[j])
                if other < own or (other == own and j < k):
                    place += 1
        out[k] = place


@njit(cache=True)
def _urgency(left: float, age: float, target: float) -> float:
    slack = (target - age - left) / target
    return slack if slack >= 0.0 else 1e6 - age / target
