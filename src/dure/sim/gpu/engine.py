"""The event loop of the virtual GPU: arrivals, kernel starts and ends, stalls; rates constant in between.

Called by `run.py` only. Deterministic: every random draw happened before, in the request times. Invariant: work
is conserved, each kernel of each request runs exactly once and in order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.sim.gpu import ranked
from dure.sim.gpu.baselines import bless, orion, reef, temporal
from dure.sim.gpu.baselines.codes import BLESS, ORION, RANKED, REEF, TEMPORAL
from dure.sim.gpu.dispatch import assign
from dure.sim.gpu.state import Gpu

EPS = 1e-8
"""Milliseconds below which work counts as done; smaller values let rounding stop the clock."""


@njit(cache=True)
def simulate(g: Gpu, system: int, policy: int, trace: np.ndarray) -> int:
    """Run every request to its end. Returns how many rows of `trace` were written."""
    written: int = 0
    while True:
        _arrive(g, system)
        _step(g, system, policy)
        _start(g)
        assign(g)
        until = _next_event(g, system)
        if until == np.inf:
            return written
        _account(g, until)
        _advance(g, until)
        written = _finish(g, system, trace, written)
        if g.world[0].closed and _exhausted(g):
            return written


@njit(cache=True)
def _arrive(g: Gpu, system: int) -> None:
    now = g.world[0].t
    for k in range(g.tenants.shape[0]):
        if g.tenants[k].live or g.tenants[k].request >= g.gap.shape[1] or g.tenants[k].arrived > now + EPS:
            continue
        g.tenants[k].live = True
        g.tenants[k].kernel = 0
        g.tenants[k].ready = now + g.world[0].launch
        if system == RANKED:
            ranked.admit(g, k)
        elif system == BLESS:
            g.tenants[k].limit = 0


@njit(cache=True)
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


@njit(cache=True)
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
        g.tenants[k].seq = int(w.seq)


@njit(cache=True)
def _next_event(g: Gpu, system: int) -> float:
    w = g.world[0]
    now = w.t
    stalled = w.stall > now + EPS
    until = np.inf
    for k in range(g.tenants.shape[0]):
        if g.tenants[k].live:
            if g.tenants[k].running:
                if not stalled and g.tenants[k].rate > 0.0:
                    until = min(until, now + g.tenants[k].left / g.tenants[k].rate)
            elif g.tenants[k].kernel < g.tenants[k].limit and g.tenants[k].ready > now + EPS:
                until = min(until, g.tenants[k].ready)
        elif g.tenants[k].request < g.gap.shape[1]:
            until = min(until, max(g.tenants[k].arrived, now))
    if stalled:
        until = min(until, w.stall)
    if system == RANKED and ranked.wants(g):
        until = min(until, max(w.host_free, now))
    if system == TEMPORAL and _inside(g):
        until = min(until, max(w.timer, now))
    return until


@njit(cache=True)
def _account(g: Gpu, until: float) -> None:
    w = g.world[0]
    span = until - w.t
    if span <= 0.0 or not _inside(g):
        return
    stalled = w.stall > w.t + EPS
    held = 0
    unmet = 0
    for k in range(g.tenants.shape[0]):
        if not g.tenants[k].live:
            continue
        want = min(g.kernels[g.tenants[k].first + g.tenants[k].kernel].sms, g.world[0].sms)
        got = 0 if stalled else g.tenants[k].held
        held += got
        unmet += want - got
    idle = g.world[0].sms - held
    w.busy += held * span
    w.idle_able += min(idle, unmet) * span
    w.inside += span


@njit(cache=True)
def _advance(g: Gpu, until: float) -> None:
    w = g.world[0]
    span = until - w.t
    if w.stall <= w.t + EPS:
        for k in range(g.tenants.shape[0]):
            if g.tenants[k].running:
                g.tenants[k].left -= span * g.tenants[k].rate
    w.t = until
    w.events += 1


@njit(cache=True)
def _finish(g: Gpu, system: int, trace: np.ndarray, written: int) -> int:
    now = g.world[0].t
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
        g.tenants[k].request += 1
        if g.tenants[k].request < g.gap.shape[1]:
            following = g.gap[k, g.tenants[k].request]
            g.tenants[k].arrived = now + following if g.world[0].closed else following
    return written


@njit(cache=True)
def _exhausted(g: Gpu) -> bool:
    """A closed loop ends with its first client: the others would go on alone."""
    requests = g.gap.shape[1]
    if requests == 1:
        return False
    ended = 0
    for k in range(g.tenants.shape[0]):
        ended += g.tenants[k].request >= requests
    return ended > 0


@njit(cache=True)
def _inside(g: Gpu) -> bool:
    inside = 0
    for k in range(g.tenants.shape[0]):
        inside += g.tenants[k].live
    return inside > 0
