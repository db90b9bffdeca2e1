"""What the virtual GPU's event loop reads and writes: three record arrays and four plain ones.

The loop, the dispatcher and every baseline are compiled functions over one `Gpu`; only `run.py` builds it.
`kernels`, `tau`, `gap` and `phi` are never written. Times are in ms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

inlined = njit(cache=True, inline="always")
"""For what is called at every event."""

ALL = 1 << 40
"""A kernel limit nobody reaches: the tenant may run to the end of its request."""

KERNEL = np.dtype(
    [
        ("sms", np.int64),  # SMs it can fill; more than the device has means several waves
        ("ms", np.float64),  # alone on the whole device
        ("done", np.float64),  # time of all earlier kernels of the request, as the scheduler expects it
        ("sense", np.float64),  # how much a neighbour slows it: rho of equation 1
        ("press", np.float64),  # how hard it presses on a neighbour, 1 on average
        ("memory", np.int64),  # 1 memory bound, 0 compute bound, -1 unknown
    ],
    align=True,
)

TENANT = np.dtype(
    [
        # What is read at every event stands first and together.
        ("live", np.bool_),  # a request is inside
        ("running", np.bool_),  # its current kernel has started
        ("left", np.float64),  # work of the running kernel, in ms alone
        ("rate", np.float64),
        ("rank", np.float64),  # dispatch order, smaller first
        ("seq", np.int64),  # start order, breaks ties of rank
        ("fills", np.int64),  # SMs that the running kernel can fill
        ("held", np.int64),  # SMs it holds now
        ("cap", np.int64),  # SMs it may hold
        ("claim", np.int64),  # SMs it is served before anybody else
        ("kernel", np.int64),  # next or running kernel of the request
        ("limit", np.int64),  # kernels from here on wait for the policy
        ("ready", np.float64),  # the next kernel may not start before
        ("issued", np.int64),  # kernels of the request that the host has issued
        ("first", np.int64),  # its first kernel in `kernels`
        ("count", np.int64),
        ("arrived", np.float64),  # arrival of the current, or else the next, request
        ("request", np.int64),
        ("quota", np.float64),
        ("target", np.float64),  # promised latency
        ("weight", np.float64),
        ("solo", np.float64),  # a whole request alone
        ("work", np.float64),  # the same as the scheduler expects it
        ("need", np.float64),  # part of the device it fills on average
        ("half", np.int64),  # kernel at which a squad member leaves its cap
        ("squad_from", np.int64),  # first kernel of its squad
        ("squad_step", np.float64),  # host time between two of its kernels in the squad
        ("squad_at", np.float64),  # when the first kernel of its squad may start
    ],
    align=True,
)

AHEAD = np.dtype([("rank", np.float64), ("ready", np.float64)], align=True)
"""A kernel that was issued before it can start."""

WORLD = np.dtype(
    [
        ("sms", np.int64),
        ("closed", np.bool_),  # gaps are think times, not arrival times
        ("waves", np.bool_),
        ("launch", np.float64),
        ("switch", np.float64),  # between squads
        ("context", np.float64),  # between contexts
        ("host", np.float64),  # host time to issue one kernel
        ("gap", np.float64),  # idle time a system puts between two kernels of a request
        ("free_drag", np.float64),  # slowdown of uncapped kernels beside each other
        ("extra", np.float64),  # further slowdown of every kernel that has a neighbour
        ("cap_drag", np.float64),  # slowdown of a kernel in a capped context
        ("squad_max", np.int64),
        ("squad_mode", np.int64),
        ("reading", np.int64),  # of the published rule
        ("corun", np.int64),  # tenants that may hold SMs at once; 0 for all
        ("slice_ms", np.float64),
        ("best_effort", np.float64),
        ("t", np.float64),
        ("live", np.int64),  # tenants with a request inside
        ("idle", np.int64),  # of them those with no kernel started
        ("open", np.int64),  # of them those with room for one more kernel at the device
        ("holders", np.int64),  # tenants that hold SMs
        ("held", np.int64),  # SMs they hold together
        ("wanted", np.int64),  # SMs that the next or running kernels of all requests inside could fill
        ("next_arrival", np.float64),
        ("ended", np.bool_),  # some tenant has no request left
        ("stall", np.float64),  # nothing runs before
        ("timer", np.float64),
        ("owner", np.int64),
        ("host_free", np.float64),
        ("rank_ms", np.float64),  # how long an order of the tenants holds
        ("ranked_until", np.float64),
        ("stale", np.bool_),  # a kernel has started or ended since SMs were last given out
        ("asks", np.bool_),  # a request came, or a member's part of its squad ended: the squads are formed outside
        ("seq", np.int64),
        ("events", np.int64),
        ("squads", np.int64),
        ("busy", np.float64),  # SM ms in use
        ("idle_able", np.float64),  # SM ms idle though a kernel inside could have used them
        ("inside", np.float64),  # ms with at least one request inside
    ],
    align=True,
)


class Gpu(NamedTuple):
    """The whole state of one run."""

    kernels: Any  # KERNEL[M]
    tenants: Any  # TENANT[K]
    world: Any  # WORLD[1]
    tau: Any  # float64[M, P]: time to the END of a kernel with (p + 1) / P of the device
    ahead: Any  # AHEAD[K, D]: the kernels at the device, by number modulo D
    gap: Any  # float64[K, R]: think times or arrival times
    phi: Any  # float64[sms + 1]: one side's factor of phi in equation 1
    latency: Any  # float64[K, R]
    order: Any  # int64[K]: scratch of the dispatcher
    holders: Any  # int64[K]: who holds SMs, in order of dispatch
    sides: Any  # float64[2, K]: scratch, what each holder suffers and does
    chosen: Any  # int64[K]: scratch, kernels of each in the next squad
    split: Any  # int64[K]: scratch, partitions of each in it
    waiting: Any  # bool[K]: scratch of the policies, who has a request inside
    seen: Any  # float64[5, K]: scratch, work left, need, age, target and weight
    places: Any  # int64[K]: each tenant's place in the order that holds
