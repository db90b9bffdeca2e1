"""JCT: shortest remaining processing time first, sharing taken into account.

Time left is the work left divided by the speed the request would have beside those placed before it, so a
request that shares badly counts as longer. Source: Schrage's rule, with equation 1 for the speed. Cost
O(K^2). Not for tenants with a latency promise and long requests: those can wait for ever; use `slack-guarded`.
"""

from __future__ import annotations

from numba import njit

from dure.share.policies.arrays import Flags, Places, Reals


@njit(cache=True)
def rank(
    waiting: Flags, left: Reals, need: Reals, age: Reals, target: Reals, weight: Reals, out: Places
) -> None:
    """Write each waiting request's place into `out` (0 goes first); idle tenants keep the last places."""
    tenants = waiting.shape[0]
    for k in range(tenants):
        if not waiting[k]:
            out[k] = tenants
            continue
        place = 0
        for j in range(tenants):
            if j != k and waiting[j] and (left[j] < left[k] or (left[j] == left[k] and j < k)):
                place += 1
        out[k] = place
