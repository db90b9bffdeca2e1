"""BLESS (EuroSys'25): squads of at most 50 kernels, paced by the promised share, split by prediction.

A squad is formed whenever the device has drained: repeatedly the next kernel of the request chosen by pace
= time the promise allows for its progress / time since arrival. The text of the paper can be read two ways;
both are here. Reading R serves the smallest pace (the request furthest behind), L the largest. Neither keeps the
tight targets of its QoS experiment; reading Q does, within five points: whoever's work left, on the profile of its
promised share, needs the largest part of the time to its target goes first, and a squad ends early when a request
arrives.

The squad then runs without caps, or with the strict split of 18 partitions whose predicted makespan is shortest
(each partition to the member that ends last, which is exact). A strict split binds only the first half of a
member's kernels (semi-spatial); after that it keeps first claim on its partitions and may use others that are
idle. Free competition in that half would contradict figure 17 of the paper.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.sim.gpu.state import ALL, Gpu

SMALLEST_PACE, LARGEST_PACE, NEEDED_RATE = range(3)
"""Who is served next: readings R, L and Q."""

NEWCOMER = -1
"""Kernel limit of a request that no squad has considered yet."""

NSP, SP, SEMI_SP, CHOOSE = range(4)
"""How a squad runs: no caps, strict split, split for the first half; or whatever is predicted shortest."""


@njit(cache=True)
def step(g: Gpu) -> None:
    """Form the next squad when nothing of the last one is left; lift caps at the half."""
    tenants = g.tenants.shape[0]
    waiting = False
    if g.world[0].reading == NEEDED_RATE:
        _cut_for_newcomers(g)
    for k in range(tenants):
        if g.tenants[k].running or (g.tenants[k].live and g.tenants[k].kernel < g.tenants[k].limit):
            _lift(g)
            return
        waiting = waiting or g.tenants[k].live
    if not waiting:
        return
    chosen = g.chosen
    chosen[:] = 0
    gather(g, chosen)
    w = g.world[0]
    w.squads += 1
    w.stall = w.t + g.world[0].switch + g.world[0].launch
    members = 0
    for k in range(tenants):
        g.tenants[k].limit = g.tenants[k].kernel + chosen[k]
        g.tenants[k].cap = g.world[0].sms
        g.tenants[k].claim = 0
        g.tenants[k].half = ALL
        g.tenants[k].ready = w.stall
        g.tenants[k].squad_at = w.stall
        g.tenants[k].squad_from = g.tenants[k].kernel
        members += chosen[k] > 0
    for k in range(tenants):
        g.tenants[k].squad_step = w.host * members
    if members > 1 and g.world[0].squad_mode > 0:
        partition(g, chosen, g.world[0].squad_mode)


@njit(cache=True)
def issued(g: Gpu, k: int) -> float:
    """When the host has launched a member's next kernel: it goes round the members, one kernel each."""
    own = g.tenants[k]
    return float(own.squad_at + (own.kernel - own.squad_from) * own.squad_step)


@njit(cache=True)
def gather(g: Gpu, chosen: np.ndarray) -> None:
    """Pick kernels of the most urgent until the squad is full or a request is complete."""
    spent = 0.0
    for _ in range(int(g.world[0].squad_max)):
        best = -1
        most = 0.0
        for k in range(g.tenants.shape[0]):
            if not g.tenants[k].live:
                continue
            urgency = _urgency(g, k, chosen[k], g.world[0].t - g.tenants[k].arrived + spent)
            if best < 0 or urgency > most:
                best = k
                most = urgency
        kernel = g.tenants[best].first + g.tenants[best].kernel + chosen[best]
        chosen[best] += 1
        spent += g.kernels[kernel].ms
        if g.tenants[best].kernel + chosen[best] == g.tenants[best].count:
            return


@njit(cache=True)
def _urgency(g: Gpu, k: int, chosen: int, elapsed: float) -> float:
    """How much a request should be the next served, when this many of its kernels are in the squad already."""
    own = g.tenants[k]
    parts = g.tau.shape[1]
    at = own.kernel + chosen
    share = min(max(round(own.quota * parts), 1), parts) - 1
    whole = g.tau[own.first + own.count - 1, share]
    tau = g.tau[own.first + at - 1, share] if at > 0 else 0.0
    if g.world[0].reading == NEEDED_RATE:
        return float((whole - tau) / max(own.target - elapsed, 1e-3))
    if own.target > 0.0:
        tau *= own.target / whole
    pace = tau / (elapsed + 1e-6)
    return float(pace if g.world[0].reading == LARGEST_PACE else -pace)


@njit(cache=True)
def partition(g: Gpu, chosen: np.ndarray, mode: int) -> None:
    """Set caps (and the kernel that lifts them) if a strict split is predicted to beat free sharing."""
    tenants = g.tenants.shape[0]
    parts = g.tau.shape[1]
    split = g.split
    strict = best_split(g, chosen, split)
    if mode == CHOOSE and strict >= free_time(g, chosen):
        return
    for k in range(tenants):
        if chosen[k] == 0:
            continue
        g.tenants[k].cap = max(1, split[k] * g.world[0].sms // parts)
        g.tenants[k].claim = g.tenants[k].cap
        if mode != SP:
            g.tenants[k].half = g.tenants[k].kernel + (chosen[k] + 1) // 2


@njit(cache=True)
def stack(g: Gpu, k: int, count: int, parts: int) -> float:
    """Predicted time of a member's next kernels on `parts` partitions, undisturbed."""
    start = g.tenants[k].first + g.tenants[k].kernel
    before = g.tau[start - 1, parts - 1] if g.tenants[k].kernel > 0 else 0.0
    return float(g.tau[start + count - 1, parts - 1] - before)


@njit(cache=True)
def best_split(g: Gpu, chosen: np.ndarray, split: np.ndarray) -> float:
    """The strict split of least makespan: the member that ends last gets the next partition."""
    tenants = g.tenants.shape[0]
    parts = g.tau.shape[1]
    left = parts
    for k in range(tenants):
        split[k] = 1 if chosen[k] > 0 else 0
        left -= split[k]
    while True:
        slowest = -1
        longest = -1.0
        for k in range(tenants):
            if chosen[k] > 0:
                time = stack(g, k, chosen[k], split[k])
                if time > longest:
                    longest = time
                    slowest = k
        if left <= 0:
            return longest
        split[slowest] += 1
        left -= 1


@njit(cache=True)
def free_time(g: Gpu, chosen: np.ndarray) -> float:
    """Workload equivalence: i-th kernels of all members overlap on the SMs they want together."""
    tenants = g.tenants.shape[0]
    total = 0.0
    row = 0
    while True:
        wanted = 0
        present = 0
        for k in range(tenants):
            if row < chosen[k]:
                wanted += g.kernels[g.tenants[k].first + g.tenants[k].kernel + row].sms
                present += 1
        if present == 0:
            return total
        width = min(wanted, g.world[0].sms)
        for k in range(tenants):
            if row < chosen[k]:
                kernel = g.tenants[k].first + g.tenants[k].kernel + row
                total += g.kernels[kernel].ms * min(g.kernels[kernel].sms, g.world[0].sms) / width
        row += 1


@njit(cache=True)
def _lift(g: Gpu) -> None:
    """A member past the middle of its kernels leaves its cap, after a context switch."""
    for k in range(g.tenants.shape[0]):
        if not g.tenants[k].running and g.tenants[k].kernel >= g.tenants[k].half:
            g.tenants[k].half = ALL
            g.tenants[k].cap = g.world[0].sms
            g.tenants[k].ready = g.world[0].t + g.world[0].context


@njit(cache=True)
def _cut_for_newcomers(g: Gpu) -> None:
    """End the squad with the kernels that run now, if somebody came whom it did not consider."""
    for k in range(g.tenants.shape[0]):
        if g.tenants[k].live and g.tenants[k].limit == NEWCOMER:
            break
    else:
        return
    for k in range(g.tenants.shape[0]):
        own = g.tenants[k]
        if own.live and own.limit > own.kernel:
            own.limit = own.kernel + own.running
