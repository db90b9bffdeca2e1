"""The event loop of the virtual GPU: arrivals, kernel starts and ends, stalls; rates constant in between.

Called by `run.py` only. Deterministic: every random draw happened before, in the request times. Invariant: work
is conserved, each kernel of each request runs exactly once and in order. What is called at every event is inlined:
a `Gpu` is thirteen arrays, and handing them over at each call took as long as the work itself.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.sim.gpu import ranked
from dure.sim.gpu.baselines import bless, orion, reef, temporal
from dure.sim.gpu.baselines.codes import BLESS, CAPPED, ORION, RANKED, REEF, TEMPORAL, UNBOUND
from dure.sim.gpu.dispatch import assign
from dure.sim.gpu.state import Gpu

EPS = 1e-8
"""Milliseconds below which work counts as done; smaller values let rounding stop the clock."""


@njit(cache=True)
def simulate(g: Gpu, system: int, policy: int, trace: np.ndarray) -> int:
    """Run every request to its end. Returns how many rows of `trace` were written."""
    written: int = 0
    # Under these nobody's SMs change unless a kernel starts or ends.
    steady = system in (RANKED, UNBOUND, CAPPED)
    while True:
        _arrive(g, system)
        _step(g, system, policy)
        _start(g)
        if g.world[0].stale or not steady:
            assign(g)
            g.world[0].stale = False
        until = _next_event(g, system)
        if until == np.inf:
            return written
        _advance(g, until)
        written = _finish(g, system, trace, written)
        if g.world[0].closed and g.world[0].ended and g.gap.shape[1] > 1:
            # A closed loop ends with its first client: the others would go on alone.
            return written


@njit(cache=True, forceinline=True)
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
        g.tenants[k].live = True
        g.tenants[k].kernel = 0
        g.tenants[k].ready = now + w.launch
        if system == RANKED:
            ranked.admit(g, k)
        elif system == BLESS:
            g.tenants[k].limit = bless.NEWCOMER


@njit(cache=True, forceinline=True)
def _step(g: Gpu, system: int, policy: int) -> None:
    if system == RANKED:
        ranked.step(g, policy)
    elif system == BLESS:
        bless.step(g)
    elif system == TEMPORAL:
        temporal.step(g)
    elif system == REEF:
        reef.step(g)
    elif system == ORION:
        orion.step(g)


@njit(cache=True, forceinline=True)
def _start(g: Gpu) -> None:
    w = g.world[0]
    if w.stall > w.t + EPS:
        return
    for k in range(g.tenants.shape[0]):
        if not g.tenants[k].live or g.tenants[k].running or g.tenants[k].kernel >= g.tenants[k].limit:
            continue
        if g.tenants[k].ready > w.t + EPS:
            continue
        g.tenants[k].running = True
        g.tenants[k].left = g.kernels[g.tenants[k].first + g.tenants[k].kernel].ms
        w.seq += 1
        w.stale = True
        g.tenants[k].seq = int(w.seq)


@njit(cache=True, forceinline=True)
def _next_event(g: Gpu, system: int) -> float:
    w = g.world[0]
    now = w.t
    stalled = w.stall > now + EPS
    until = max(w.next_arrival, now)
    wanting = False
    for k in range(g.tenants.shape[0]):
        if system == RANKED:
            wanting = wanting or ranked.wants(g, k)
        if g.tenants[k].running:
            if not stalled and g.tenants[k].rate > 0.0:
                until = min(until, now + g.tenants[k].left / g.tenants[k].rate)
        elif g.tenants[k].live and g.tenants[k].kernel < g.tenants[k].limit and g.tenants[k].ready > now + EPS:
            until = min(until, g.tenants[k].ready)
    if stalled:
        until = min(until, w.stall)
    if wanting:
        until = min(until, max(w.host_free, now))
    if system == TEMPORAL and w.live > 0:
        until = min(until, max(w.timer, now))
    return float(until)


@njit(cache=True, forceinline=True)
def _advance(g: Gpu, until: float) -> None:
    """Let time pass: work is done, and SM time is accounted while a request is inside."""
    w = g.world[0]
    span = until - w.t
    if w.live > 0 and span > 0.0:
        stalled = w.stall > w.t + EPS
        held = 0
        unmet = 0
        for k in range(g.tenants.shape[0]):
            if not g.tenants[k].live:
                continue
            want = min(g.kernels[g.tenants[k].first + g.tenants[k].kernel].sms, w.sms)
            got = 0 if stalled else g.tenants[k].held
            held += got
            unmet += want - got
            if g.tenants[k].running and not stalled:
                g.tenants[k].left -= span * g.tenants[k].rate
        w.busy += held * span
        w.idle_able += min(w.sms - held, unmet) * span
        w.inside += span
    w.t = until
    w.events += 1


@njit(cache=True, forceinline=True)
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
        w.stale = True
        g.tenants[k].kernel += 1
        g.tenants[k].ready = now + g.world[0].gap
        if g.tenants[k].kernel < g.tenants[k].count:
            if system == RANKED:
                ranked.advance(g, k)
            elif system == BLESS:
                g.tenants[k].ready = max(now, bless.issued(g, k))
            continue
        g.latency[k, g.tenants[k].request] = now - g.tenants[k].arrived
        g.tenants[k].live = False
        w.ranked_until = 0.0
        g.tenants[k].request += 1
        w.live -= 1
        if g.tenants[k].request < g.gap.shape[1]:
            following = g.gap[k, g.tenants[k].request]
            g.tenants[k].arrived = now + following if w.closed else following
            w.next_arrival = min(w.next_arrival, g.tenants[k].arrived)
        else:
            w.ended = True
    return written
