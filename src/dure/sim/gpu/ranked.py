"""How the pure policies of `share` drive the virtual GPU: squads that never drain.

A tenant's next few kernels are always queued behind the running one, each with the rank the policy gave at
its issue; lower ranks fill the SMs that higher ranks leave free, so SMs freed inside a squad go at once to
the rest and there is no barrier between squads. A change of policy or rank reaches the device after those.
The host issues one kernel at a time, that of the best rank first: when it cannot keep up, the order
still holds. The order is made anew when a request comes or ends and a few times within a squad, not at every
kernel, since it hardly changes in between. Called by the event loop; the host's time for each kernel is charged here.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.share.policies import hybrid, jct, slack_guarded, slo
from dure.sim.gpu.baselines.codes import HYBRID, JCT, SLO
from dure.sim.gpu.state import Gpu, inlined

NOBODY = -1
"""No tenant has room for a kernel."""


@inlined
def admit(g: Gpu, k: int) -> None:
    """A request just came in: nothing of it is issued yet."""
    own = g.tenants[k]
    own.issued = 0
    own.ready = np.inf
    g.world[0].ranked_until = 0.0
    g.world[0].open += wants(g, k)


@inlined
def advance(g: Gpu, k: int) -> None:
    """One kernel ended: the next takes its place, with the rank it was issued with, if it was issued."""
    own = g.tenants[k]
    own.ready = np.inf
    # The one that ended makes room for one, unless the part or the request ends before it.
    g.world[0].open += own.issued == own.kernel - 1 + g.ahead.shape[1] and wants(g, k)
    if own.kernel < own.issued:
        slot = own.kernel % g.ahead.shape[1]
        own.rank = g.ahead[k, slot].rank
        own.ready = g.ahead[k, slot].ready


@inlined
def step(g: Gpu, policy: int) -> None:
    """While the host is free, issue the next kernel of the tenant that the policy ranks first."""
    w = g.world[0]
    while w.open > 0 and w.host_free <= w.t:
        best = NOBODY
        for k in range(g.tenants.shape[0]):
            if wants(g, k) and (best == NOBODY or g.places[k] < g.places[best]):
                best = k
        if w.t >= w.ranked_until:
            _rank(g, policy)
            w.ranked_until = w.t + w.rank_ms
            continue
        w.host_free = w.t + w.host
        _issue(g, best, float(g.places[best]), w.host_free + w.launch)


@inlined
def wants(g: Gpu, k: int) -> bool:
    """There is room for one more kernel behind its running one."""
    own = g.tenants[k]
    return bool(own.live and own.issued < min(own.kernel + g.ahead.shape[1], own.count, own.limit))


@inlined
def _issue(g: Gpu, k: int, place: float, ready: float) -> None:
    own = g.tenants[k]
    slot = own.issued % g.ahead.shape[1]
    g.ahead[k, slot].rank = place
    g.ahead[k, slot].ready = ready
    if own.issued == own.kernel:
        own.rank = place
        own.ready = ready
    own.issued += 1
    g.world[0].open -= not wants(g, k)


@njit(cache=True)
def _rank(g: Gpu, policy: int) -> None:
    """Have the policy order all tenants, in arrays that are used again and again."""
    waiting, out = g.waiting, g.places
    left, need, age, target, weight = g.seen[0], g.seen[1], g.seen[2], g.seen[3], g.seen[4]
    for k in range(g.tenants.shape[0]):
        own = g.tenants[k]
        waiting[k] = own.live
        need[k] = own.need
        age[k] = g.world[0].t - own.arrived
        target[k] = own.target
        weight[k] = own.weight
        left[k] = own.work
        if own.live and own.kernel < own.count:
            kernel = g.kernels[own.first + own.kernel]
            left[k] -= kernel.done
            if own.running:
                left[k] -= kernel.ms - own.left
    if policy == JCT:
        jct.rank(waiting, left, need, age, target, weight, out)
    elif policy == SLO:
        slo.rank(waiting, left, need, age, target, weight, out)
    elif policy == HYBRID:
        hybrid.rank(waiting, left, need, age, target, weight, out)
    else:
        slack_guarded.rank(waiting, left, need, age, target, weight, out)
