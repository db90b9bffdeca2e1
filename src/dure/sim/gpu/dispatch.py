"""Who holds which SMs, and how fast that makes each running kernel: the physics of the virtual GPU.

Called by the event loop after every event. Leftover dispatch: kernels are served in order of (rank, start
order); each takes the SMs it can fill within its cap, the next gets what is left, and one that gets none
waits. Invariant: the SMs held never exceed the device's.
"""

from __future__ import annotations

from typing import Any

from dure.sim.gpu.state import Gpu, inlined


@inlined
def assign(g: Gpu) -> None:
    """Give out SMs and set every tenant's rate (1 = alone on the whole device)."""
    w = g.world[0]
    order, holders = g.order, g.holders
    running, claimed = _line_up(g)
    free = w.sms
    if claimed > 0:
        for at in range(running):
            own = g.tenants[order[at]]
            own.held = min(own.fills, own.claim, own.cap, free)
            free -= own.held
    found = 0
    for at in range(running):
        if free <= 0 and claimed == 0:
            # Nobody further down gets anything.
            break
        own = g.tenants[order[at]]
        if w.corun > 0 and found >= w.corun and own.held == 0:
            continue
        more = min(own.fills - own.held, own.cap - own.held, free)
        if more > 0:
            own.held += more
            free -= more
        if own.held > 0:
            holders[found] = order[at]
            found += 1
            own.rate = _speed(g, own)
    w.holders = found
    w.held = w.sms - free
    if found > 1:
        _slow_down(g, found)


@inlined
def _line_up(g: Gpu) -> tuple[int, int]:
    """Those who run in order of dispatch, with nothing in hand: how many they are, and what they claim together."""
    order = g.order
    running = 0
    claimed = 0
    wanted = 0
    for k in range(g.tenants.shape[0]):
        own = g.tenants[k]
        own.held = 0
        own.rate = 0.0
        if own.running:
            wanted += own.fills
            claimed += own.claim
            at = running
            while at > 0 and _before(own, g.tenants[order[at - 1]]):
                order[at] = order[at - 1]
                at -= 1
            order[at] = k
            running += 1
        elif own.live:
            wanted += min(g.kernels[own.first + own.kernel].sms, g.world[0].sms)
    g.world[0].wanted = wanted
    return running, claimed


@inlined
def _speed(g: Gpu, own: Any) -> float:
    """Rate of the running kernel on the SMs that it holds."""
    total = g.world[0].sms
    rate = 1.0
    if g.world[0].waves:
        need = g.kernels[own.first + own.kernel].sms
        rate = (-(-need // total)) / (-(-need // own.held))
    elif own.held < own.fills:
        rate = own.held / own.fills
    if own.cap < total:
        rate /= 1.0 + g.world[0].cap_drag
    return rate


@inlined
def _slow_down(g: Gpu, holders: int) -> None:
    """Equation 1 between all kernels that hold SMs at this moment."""
    loose = 0
    for at in range(holders):
        own = g.tenants[g.holders[at]]
        kernel = g.kernels[own.first + own.kernel]
        g.sides[0, at] = kernel.sense * g.phi[own.held]
        g.sides[1, at] = kernel.press * g.phi[own.held]
        loose += _loose(g, own)
    for at in range(holders):
        factor = 1.0
        for other in range(holders):
            if other != at:
                factor *= 1.0 - g.sides[0, at] * g.sides[1, other]
        own = g.tenants[g.holders[at]]
        drag = g.world[0].extra
        if loose > 1 and _loose(g, own):
            drag += g.world[0].free_drag
        own.rate *= max(factor, 0.05) / (1.0 + drag)


@inlined
def _loose(g: Gpu, own: Any) -> bool:
    """It runs on SMs that nobody set apart for it, so its blocks mix with others'."""
    return bool(own.cap >= g.world[0].sms and own.claim == 0)


@inlined
def _before(own: Any, other: Any) -> bool:
    if own.rank != other.rank:
        return bool(own.rank < other.rank)
    return bool(own.seq < other.seq)
