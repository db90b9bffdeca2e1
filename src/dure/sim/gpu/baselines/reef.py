"""REEF+: the older request is real-time and always goes first; the younger only pads it.

A younger request's kernel joins only when it fits into the SMs the older one leaves free and ends no
later (dynamic kernel padding, OSDI'22). Alone, a request has the whole device. The preemption check that
is injected into every kernel is charged between kernels.
"""

from __future__ import annotations

from numba import njit

from dure.sim.gpu.state import ALL, Gpu


@njit(cache=True)
def step(g: Gpu) -> None:
    """Let the oldest run; let others only pad it."""
    tenants = g.tenants.shape[0]
    oldest = -1
    for k in range(tenants):
        if g.tenants[k].live and (oldest < 0 or g.tenants[k].arrived < g.tenants[oldest].arrived):
            oldest = k
    if oldest < 0:
        return
    g.tenants[oldest].rank = 0.0
    g.tenants[oldest].limit = ALL
    free = g.world[0].sms
    room = 0.0
    if g.tenants[oldest].running:
        free -= min(g.kernels[g.tenants[oldest].first + g.tenants[oldest].kernel].sms, g.world[0].sms)
        room = g.tenants[oldest].left
    for k in range(tenants):
        if k == oldest or not g.tenants[k].live:
            continue
        g.tenants[k].rank = 1.0
        kernel = g.tenants[k].first + g.tenants[k].kernel
        if g.tenants[k].running:
            free -= g.tenants[k].held
        elif g.kernels[kernel].sms <= free and g.kernels[kernel].ms <= room:
            g.tenants[k].limit = g.tenants[k].kernel + 1
            free -= g.kernels[kernel].sms
        else:
            g.tenants[k].limit = g.tenants[k].kernel
