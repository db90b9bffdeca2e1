"""TEMPORAL: strict turns on the whole device, each tenant's turn as long as its quota.

Not work conserving: an idle tenant's turn passes unused, so latency is solo / quota whatever the load
(figure 15 of the BLESS paper is exactly that line). Every change of turn costs a context switch.
"""

from __future__ import annotations

from numba import njit

from dure.sim.gpu.state import Gpu


@njit(cache=True)
def step(g: Gpu) -> None:
    """Pass the device on when the turn is over."""
    w = g.world[0]
    if w.t < w.timer and w.timer > 0.0:
        return
    tenants = g.tenants.shape[0]
    owner = 0 if w.timer == 0.0 else (int(w.owner) + 1) % tenants
    w.owner = owner
    w.timer = w.t + g.tenants[owner].quota * g.world[0].slice_ms
    if tenants > 1:
        w.stall = w.t + g.world[0].context
    for k in range(tenants):
        g.tenants[k].cap = g.world[0].sms if k == owner else 0
