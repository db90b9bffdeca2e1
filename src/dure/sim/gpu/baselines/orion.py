"""Orion: one tenant has priority, the others run only kernels that will not hurt it.

The tenant of the largest weight is served at once. A best-effort kernel goes when the priority tenant is
idle, or when it needs few SMs and is of the other class (compute beside memory) or of unknown class; the
best-effort work outstanding beside one priority request is capped to a share of its solo time.
"""

from __future__ import annotations

from numba import njit

from dure.sim.gpu.state import ALL, Gpu

SM_SHARE = 0.5
"""A best-effort kernel that needs more than this part of the device never runs beside a priority kernel."""


@njit(cache=True)
def step(g: Gpu) -> None:
    """Gate the best-effort tenants by what the priority tenant does."""
    tenants = g.tenants.shape[0]
    top = 0
    for k in range(1, tenants):
        if g.tenants[k].weight > g.tenants[top].weight:
            top = k
    g.tenants[top].rank = 0.0
    g.tenants[top].limit = ALL
    outstanding = 0.0
    for k in range(tenants):
        if k != top and g.tenants[k].running:
            outstanding += g.tenants[k].left
    for k in range(tenants):
        if k == top or not g.tenants[k].live or g.tenants[k].running:
            continue
        g.tenants[k].rank = 1.0
        kernel = g.tenants[k].first + g.tenants[k].kernel
        if not g.tenants[top].live:
            g.tenants[k].limit = g.tenants[k].kernel + 1
        elif (
            g.kernels[kernel].sms <= SM_SHARE * g.world[0].sms
            and _differs(g, top, kernel)
            and outstanding + g.kernels[kernel].ms <= g.world[0].best_effort * g.tenants[top].solo
        ):
            g.tenants[k].limit = g.tenants[k].kernel + 1
            outstanding += g.kernels[kernel].ms
        else:
            g.tenants[k].limit = g.tenants[k].kernel


@njit(cache=True)
def _differs(g: Gpu, top: int, kernel: int) -> bool:
    own = g.kernels[g.tenants[top].first + g.tenants[top].kernel].memory
    other = g.kernels[kernel].memory
    return bool(own < 0 or other < 0 or own != other)
