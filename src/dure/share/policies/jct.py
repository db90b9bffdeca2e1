"""JCT: shortest remaining processing time first, sharing taken into account.

A request that leaves part of the device to others holds them up less than its time alone says, so time left is
counted by what it takes from the rest: full for one that fills the device, down to half for one that hardly
does. Source: Schrage's rule. Cost O(K^2). Not for tenants with a latency promise and long requests: those can
wait for ever; use `slack-guarded`.
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
        own = _taken(left[k], need[k])
        for j in range(tenants):
            if j != k and waiting[j]:
                other = _taken(left[j], need[j])
                if other < own or (other == own and j < k):
                    place += 1
        out[k] = place


@njit(cache=True)
def _taken(left: float, need: float) -> float:
    return left * (1.0 + need) / 2.0
