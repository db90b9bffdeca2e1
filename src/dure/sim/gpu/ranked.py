"""How the pure policies of `share` drive the virtual GPU: squads that never drain.

A tenant's next two kernels are always queued behind the running one, each with the rank the policy gave at
its issue; lower ranks fill the SMs that higher ranks leave free, so SMs freed inside a squad go at once to
the rest and there is no barrier between squads. A change of policy or rank reaches the device after those
two kernels. Called by the event loop; the host's time for each decision is charged here.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.share.policies import hybrid, jct, slack_guarded, slo
from dure.sim.gpu.baselines.codes import HYBRID, JCT, SLO
from dure.sim.gpu.state import Gpu


@njit(cache=True)
def admit(g: Gpu, policy: int, k: int) -> None:
    """Issue the first kernels of a request that just came in."""
    own = g.tenants[k]
    place = _place(g, policy, k)
    own.rank = place
    own.rank1 = place
    own.rank2 = place
    own.ready = _issue(g)
    own.ready1 = _issue(g)
    own.ready2 = _issue(g)


@njit(cache=True)
def advance(g: Gpu, policy: int, k: int) -> None:
    """One kernel ended: the next queued one takes its place, one more is issued at today's rank."""
    own = g.tenants[k]
    own.rank = own.rank1
    own.ready = own.ready1
    own.rank1 = own.rank2
    own.ready1 = own.ready2
    own.rank2 = _place(g, policy, k)
    own.ready2 = _issue(g)


@njit(cache=True)
def _issue(g: Gpu) -> float:
    w = g.world[0]
    w.host_free = max(w.host_free, w.t) + w.host
    return float(w.host_free + w.launch)


@njit(cache=True)
def _place(g: Gpu, policy: int, k: int) -> float:
    tenants = g.tenants.shape[0]
    waiting = np.empty(tenants, np.bool_)
    view = np.empty((5, tenants))
    left, need, age, target, weight = view[0], view[1], view[2], view[3], view[4]
    out = np.empty(tenants, np.int64)
    for j in range(tenants):
        other = g.tenants[j]
        waiting[j] = other.live
        need[j] = other.need
        age[j] = g.world[0].t - other.arrived
        target[j] = other.target
        weight[j] = other.weight
        left[j] = other.solo
        if other.live and other.kernel < other.count:
            kernel = g.kernels[other.first + other.kernel]
            left[j] -= kernel.done
            if other.running:
                left[j] -= kernel.ms - other.left
    if policy == JCT:
        jct.rank(waiting, left, need, age, target, weight, out)
    elif policy == SLO:
        slo.rank(waiting, left, need, age, target, weight, out)
    elif policy == HYBRID:
        hybrid.rank(waiting, left, need, age, target, weight, out)
    else:
        slack_guarded.rank(waiting, left, need, age, target, weight, out)
    return float(out[k])
