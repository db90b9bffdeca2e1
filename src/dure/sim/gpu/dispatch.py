"""Who holds which SMs, and how fast that makes each running kernel: the physics of the virtual GPU.

Called by the event loop after every event. Leftover dispatch: kernels are served in order of (rank, start
order); each takes the SMs it can fill within its cap, the next gets what is left, and one that gets none
waits. Invariant: the SMs held never exceed the device's.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from dure.sim.gpu.state import Gpu


@njit(cache=True, forceinline=True)
def assign(g: Gpu) -> None:
    """Give out SMs and set every tenant's rate (1 = alone on the whole device)."""
    tenants = g.tenants.shape[0]
    order = g.order
    running = 0
    claimed = 0
    for k in range(tenants):
        own = g.tenants[k]
        own.held = 0
        own.rate = 0.0
        if own.running:
            at = running
            while at > 0 and _before(g, k, order[at - 1]):
                order[at] = order[at - 1]
                at -= 1
            order[at] = k
            running += 1
            claimed += own.claim
    free = g.world[0].sms
    if claimed > 0:
        for at in range(running):
            own = g.tenants[order[at]]
            own.held = min(_need(g, own), own.claim, own.cap, free)
            free -= own.held
    holders = 0
    for at in range(running):
        own = g.tenants[order[at]]
        if free <= 0 and claimed == 0:
            # Nobody further down gets anything.
            running = at
            break
        if g.world[0].corun > 0 and holders >= g.world[0].corun and own.held == 0:
            continue
        need = _need(g, own)
        more = min(need - own.held, own.cap - own.held, free)
        if more > 0:
            own.held += more
            free -= more
        if own.held > 0:
            holders += 1
            own.rate = speed(g, g.kernels[own.first + own.kernel].sms, own.held, own.cap)
    if holders > 1:
        _slow_down(g, running)


@njit(cache=True, forceinline=True)
def speed(g: Gpu, need: int, grant: int, cap: int) -> float:
    """Rate of a kernel that could fill `need` SMs on `grant` of them."""
    total = g.world[0].sms
    rate = 1.0
    if g.world[0].waves:
        rate = (-(-need // total)) / (-(-need // grant))
    elif grant < min(need, total):
        rate = grant / min(need, total)
    if cap < total:
        rate /= 1.0 + g.world[0].cap_drag
    return rate


@njit(cache=True, forceinline=True)
def _need(g: Gpu, own: Any) -> int:
    return int(min(g.kernels[own.first + own.kernel].sms, g.world[0].sms))


@njit(cache=True, forceinline=True)
def _slow_down(g: Gpu, running: int) -> None:
    """Equation 1 between all kernels that hold SMs at this moment."""
    loose = 0
    holders = 0
    for at in range(running):
        k = g.order[at]
        own = g.tenants[k]
        if own.held == 0:
            continue
        kernel = g.kernels[own.first + own.kernel]
        g.sides[0, holders] = kernel.sense * g.phi[own.held]
        g.sides[1, holders] = kernel.press * g.phi[own.held]
        g.order[holders] = k
        holders += 1
        loose += _loose(g, k)
    if holders < 2:
        return
    for at in range(holders):
        factor = 1.0
        for other in range(holders):
            if other != at:
                factor *= 1.0 - g.sides[0, at] * g.sides[1, other]
        drag = g.world[0].extra
        if loose > 1 and _loose(g, g.order[at]):
            drag += g.world[0].free_drag
        g.tenants[g.order[at]].rate *= max(factor, 0.05) / (1.0 + drag)


@njit(cache=True, forceinline=True)
def _loose(g: Gpu, k: int) -> bool:
    """It runs on SMs that nobody set apart for it, so its blocks mix with others'."""
    own = g.tenants[k]
    return bool(own.held > 0 and own.cap >= g.world[0].sms and own.claim == 0)


@njit(cache=True, forceinline=True)
def _before(g: Gpu, a: int, b: int) -> bool:
    if g.tenants[a].rank != g.tenants[b].rank:
        return bool(g.tenants[a].rank < g.tenants[b].rank)
    return bool(g.tenants[a].seq < g.tenants[b].seq)
