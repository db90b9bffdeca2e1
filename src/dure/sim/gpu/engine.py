"""The event loop of the virtual GPU: arrivals, kernel starts and ends, stalls; rates constant in between.

Called by `run.py` only. Deterministic: every random draw happened before, in the request times. Invariant: work
is conserved, each kernel of each request runs exactly once and in order. Nothing here or below makes an array, so the
loop is compiled without reference counts: counting a `Gpu`'s arrays at every call took four fifths of the time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.sim.gpu import ranked
from dure.sim.gpu.baselines import bless, orion, reef, temporal
from dure.sim.gpu.baselines.codes import BLESS, CAPPED, FORMED, ORION, RANKED, REEF, TEMPORAL, UNBOUND
from dure.sim.gpu.dispatch import assign
from dure.sim.gpu.state import Gpu, inlined

EPS = 1e-8
"""Milliseconds below which work counts as done; smaller values let rounding stop the clock."""


@njit(cache=True, _nrt=False)
def simulate(g: Gpu, system: int, policy: int, trace: np.ndarray, written: int) -> int:
    """Run every request to its end, or until somebody has to form a squad (`asks`); called again, it goes on.

    `written` rows of `trace` are there already; answers how many there are now.
    """
    # Under these nobody's SMs change unless a kernel starts or ends.
    steady = system in (RANKED, FORMED, UNBOUND, CAPPED)
    while True:
        _arrive(g, system)
        if g.world[0].asks:
            return written
        _step(g, system, policy)
        _start(g)
        if g.world[0].stale or not steady:
            assign(g)
            g.world[0].stale = False
        until = _next_event(g, system)
        if until == np.inf:
            return written
        if _advance(g, until):
            written = _finish(g, system, trace, written)
        if g.world[0].closed and g.world[0].ended and g.gap.shape[1] > 1:
            # A closed loop ends with its first client: the others would go on alone.
            g.world[0].asks = False
            return written


@inlined
def _arrive(g: Gpu, system: int) -> None:
    w = g.world[0]
    now = w.t
    if w.next_arrival > now + EPS:
        return
    w.next_arrival = np.inf
    for k in range(g.tenants.shape[0]):
        if g.tenants[k].live or g.tenants[k].request >= g.gap.shape[1]:
            continue
        if g.tenants[k].arrived > now + EPS:
            w.next_arrival = min(w.next_arrival, g.tenants[k].arrived)
            continue
        w.live += 1
        w.idle += 1
        w.stale = True
        g.tenants[k].live = True
        g.tenants[k].kernel = 0
        g.tenants[k].ready = now + w.launch
        if system == RANKED:
            ranked.admit(g, k)
        elif system == BLESS:
            g.tenants[k].limit = bless.NEWCOMER
        elif system == FORMED:
            ranked.admit(g, k)
            g.tenants[k].limit = 0
            w.asks = True


@inlined
def _step(g: Gpu, system: int, policy: int) -> None:
    if system in (RANKED, FORMED):
        ranked.step(g, policy)
    elif system == BLESS:
        bless.step(g)
    elif system == TEMPORAL:
        temporal.step(g)
    elif system == REEF:
        reef.step(g)
    elif system == ORION:
        orion.step(g)


@inlined
def _start(g: Gpu) -> None:
    w = g.world[0]
    if w.idle == 0 or w.stall > w.t + EPS:
        return
    for k in range(g.tenants.shape[0]):
        own = g.tenants[k]
        if not own.live or own.running or own.kernel >= own.limit or own.ready > w.t + EPS:
            continue
        kernel = g.kernels[own.first + own.kernel]
        own.running = True
        own.left = kernel.ms
        own.fills = min(kernel.sms, w.sms)
        w.seq += 1
        w.idle -= 1
        w.stale = True
        own.seq = int(w.seq)


@inlined
def _next_event(g: Gpu, system: int) -> float:
    w = g.world[0]
    now = w.t
    stalled = w.stall > now + EPS
    until = max(w.next_arrival, now)
    if stalled:
        until = min(until, w.stall)
    else:
        for at in range(w.holders):
            own = g.tenants[g.holders[at]]
            until = min(until, now + own.left / own.rate)
    if w.idle > 0:
        for k in range(g.tenants.shape[0]):
            own = g.tenants[k]
            if own.live and not own.running and own.kernel < own.limit and own.ready > now + EPS:
                until = min(until, own.ready)
    if w.open > 0:
        until = min(until, max(w.host_free, now))
    if system == TEMPORAL and w.live > 0:
        until = min(until, max(w.timer, now))
    return float(until)


@inlined
def _advance(g: Gpu, until: float) -> bool:
    """Let time pass: work is done, and SM time is accounted while a request is inside. Answers if a kernel ended."""
    w = g.world[0]
    span = until - w.t
    ended = False
    if w.live > 0 and span > 0.0:
        held = 0 if w.stall > w.t + EPS else w.held
        if held > 0:
            for at in range(w.holders):
                own = g.tenants[g.holders[at]]
                own.left -= span * own.rate
                ended = ended or own.left <= EPS
        w.busy += held * span
        w.idle_able += min(w.sms - held, w.wanted - held) * span
        w.inside += span
    w.t = until
    w.events += 1
    return ended


@inlined
def _finish(g: Gpu, system: int, trace: np.ndarray, written: int) -> int:
    w = g.world[0]
    now = w.t
    for k in range(g.tenants.shape[0]):
        if not g.tenants[k].running or g.tenants[k].left > EPS:
            continue
        if written < trace.shape[0]:
            trace[written, 0] = k
            trace[written, 1] = g.tenants[k].request
            trace[written, 2] = g.tenants[k].kernel
            trace[written, 3] = now
            trace[written, 4] = g.tenants[k].held
            written += 1
        g.tenants[k].running = False
        w.idle += 1
        w.stale = True
        g.tenants[k].kernel += 1
        g.tenants[k].ready = now + g.world[0].gap
        if g.tenants[k].kernel < g.tenants[k].count:
            if system in (RANKED, FORMED):
                ranked.advance(g, k)
                # The next squad is formed before the host has nothing left to issue.
                w.asks = w.asks or (
                    system == FORMED and g.tenants[k].issued >= g.tenants[k].limit < g.tenants[k].count
                )
            elif system == BLESS:
                g.tenants[k].ready = max(now, bless.issued(g, k))
            continue
        g.latency[k, g.tenants[k].request] = now - g.tenants[k].arrived
        g.tenants[k].live = False
        w.asks = w.asks or system == FORMED
        w.ranked_until = 0.0
        g.tenants[k].request += 1
        w.live -= 1
        w.idle -= 1
        if g.tenants[k].request < g.gap.shape[1]:
            following = g.gap[k, g.tenants[k].request]
            g.tenants[k].arrived = now + following if w.closed else following
            w.next_arrival = min(w.next_arrival, g.tenants[k].arrived)
        else:
            w.ended = True
    return written
