"""Hybrid: the order that earns the most weighted goodput (equation 2) per millisecond of device time.

A request earns weight x Q(SLO) when it ends: all of it on time, (target / latency)^2 of it when late. Its
index is what it still earns, plus what waiting one more service time would cost it, over the work left.
Source: the c-mu rule on equation 2. Cost O(K^2). Not when a tenant's promise must hold at any price: use `slo`.
"""

from __future__ import annotations

from numba import njit

from dure.share.policies.arrays import Flags, Places, Reals

LEAST = 0.05
"""What ending a request is worth at least, however late it is: those behind it in its tenant's queue wait for it.
With nothing to gain from it a tenant that was overloaded once would stay behind its backlog for ever."""


@njit(cache=True)
def rank(waiting: Flags, left: Reals, need: Reals, age: Reals, target: Reals, weight: Reals, out: Places) -> None:
    """Write each waiting request's place into `out` (0 goes first); idle tenants keep the last places."""
    tenants = waiting.shape[0]
    queue = 0.0
    for k in range(tenants):
        if waiting[k]:
            queue += left[k]
    for k in range(tenants):
        if not waiting[k]:
            out[k] = tenants
            continue
        place = 0
        own = _index(left[k], age[k], target[k], weight[k], queue)
        for j in range(tenants):
            if j != k and waiting[j]:
                other = _index(left[j], age[j], target[j], weight[j], queue)
                if other > own or (other == own and j < k):
                    place += 1
        out[k] = place


@njit(cache=True)
def worth(latency: float, target: float) -> float:
    """Q of equation 2: one on time, falling with lateness."""
    if latency <= target:
        return 1.0
    lateness: float = target / latency
    return lateness * lateness


@njit(cache=True)
def _index(left: float, age: float, target: float, weight: float, queue: float) -> float:
    now = max(LEAST, worth(age + left, target))
    last = max(LEAST, worth(age + queue, target))
    return float(weight * (0.1 * now + (now - last)) / max(left, 1e-6))
