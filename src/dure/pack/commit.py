"""Taking and giving back capacity, O(devices of one node) each; and the loop that decides for a stream of demands.

Called by `grid`. Invariant: giving back what was taken restores every entry, and `totals` always equals a recount:
idle thousandths of the cluster first, then the number of nodes in each lane.
"""

from __future__ import annotations

import math

from numba import njit

from dure.pack.codes import (
    COUNT,
    CPU,
    CUT,
    CUT0,
    D_BLANK,
    D_BW,
    D_CLIENTS,
    D_CODE,
    D_COMPUTE,
    D_ENGINE,
    D_HOME,
    D_MEM,
    D_MODE,
    D_OWNER,
    DBW,
    DMEM,
    ENGINE,
    EXCLUSIVE,
    H_CPU,
    H_FIRST,
    H_LANE,
    H_MEM,
    H_SIZE,
    H_TYPE,
    ISOLATION,
    LANES,
    MEM,
    MILLI,
    MODE,
    TENANT,
    WHOLE,
    Ints,
)
from dure.pack.index import cheapest
from dure.pack.kernels import device_after, mode_on, part_cost, refresh, share_left
from dure.pack.links import Scalar, pick_whole


@njit(cache=True)
def recount(
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, scal: Ints, totals: Ints
) -> None:
    """Refresh every node and count the totals from nothing; needed when the tables change."""
    totals[:] = 0
    for n in range(hosts.shape[0]):
        totals[0] += refresh(hosts, devs, levels, value, rates, idles, scal, n)
        totals[1 + hosts[n, H_LANE]] += 1


@njit(cache=True)
def take(
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints,
    totals: Ints, n: int, ask: Ints, out: Ints,
) -> Scalar:  # fmt: skip
    """Take the ask on node n at its cheapest device; `out` receives the devices. Answers the slot bits taken."""
    bits = 0
    if ask[COUNT] > 0 and ask[MODE] == EXCLUSIVE:
        pick_whole(hosts, devs, n, ask, out)
    elif ask[COUNT] > 0:
        out[0] = part_cost(hosts, devs, levels, value, rates, idles, step, scal, n, ask)[1]
        if mode_on(devs, out[0], ask) == CUT:
            before = max(devs[out[0], D_CODE] - CUT0, 0)
            bits = device_after(devs, step, hosts[n, H_TYPE], out[0], ask, CUT) - CUT0 - before
    change(hosts, devs, levels, value, rates, idles, scal, totals, n, ask, out, bits, 1)
    return bits


@njit(cache=True)
def change(
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, scal: Ints,
    totals: Ints, n: int, ask: Ints, devices: Ints, bits: int, sign: int,
) -> None:  # fmt: skip
    """Take (sign 1) or give back (sign -1) the ask on named devices of node n."""
    lift(hosts, devs, idles, totals, n)
    hosts[n, H_CPU] -= sign * ask[CPU]
    hosts[n, H_MEM] -= sign * ask[MEM]
    for i in range(ask[COUNT]):
        d = devices[i]
        if sign > 0:
            enter(devs, d, ask)
        devs[d, D_CLIENTS] += sign
        devs[d, D_ENGINE] += sign * ask[ENGINE]
        # Of a cut device the slots say all, and who has the whole of one need not be told what is left.
        if devs[d, D_MODE] == CUT:
            devs[d, D_CODE] += sign * bits
        elif devs[d, D_MODE] == EXCLUSIVE:
            devs[d, D_CODE] = 0
        else:
            devs[d, D_MEM] -= sign * ask[DMEM]
            devs[d, D_BW] -= sign * ask[DBW]
            devs[d, D_COMPUTE] -= sign * ask[MILLI]
            devs[d, D_CODE] = share_left(devs, d, devs[d, D_COMPUTE], devs[d, D_MEM])
        if devs[d, D_CLIENTS] == 0:
            devs[d, D_MODE] = devs[d, D_HOME]
            devs[d, D_OWNER] = 0
            devs[d, D_CODE] = devs[d, D_BLANK]
    settle(hosts, devs, levels, value, rates, idles, scal, totals, n)


@njit(cache=True)
def enter(devs: Ints, d: int, ask: Ints) -> None:
    """Note mode and owner of a device that gets one more client."""
    if devs[d, D_CLIENTS] == 0:
        devs[d, D_MODE] = EXCLUSIVE if ask[MODE] == EXCLUSIVE else mode_on(devs, d, ask)
        devs[d, D_OWNER] = -ask[TENANT] if ask[ISOLATION] > 0 else ask[TENANT]
        devs[d, D_CODE] = CUT0 if devs[d, D_MODE] == CUT else WHOLE
    elif abs(devs[d, D_OWNER]) != ask[TENANT]:
        devs[d, D_OWNER] = 0
    elif ask[ISOLATION] > 0:
        devs[d, D_OWNER] = -ask[TENANT]


@njit(cache=True)
def lift(hosts: Ints, devs: Ints, idles: Ints, totals: Ints, n: int) -> None:
    """Take node n out of the totals before it is written anew."""
    for d in range(hosts[n, H_FIRST], hosts[n, H_FIRST] + hosts[n, H_SIZE]):
        totals[0] -= idles[hosts[n, H_TYPE], devs[d, D_CODE]]
    totals[1 + hosts[n, H_LANE]] -= 1


@njit(cache=True)
def settle(
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, scal: Ints, totals: Ints, n: int
) -> None:
    """Count node n as it is written now."""
    totals[0] += refresh(hosts, devs, levels, value, rates, idles, scal, n)
    totals[1 + hosts[n, H_LANE]] += 1


@njit(cache=True)
def set_guard(guard: Ints, totals: Ints, needs: Ints) -> None:
    """Price the lanes whose stock of still-whole wide nodes is no more than the wide demand still to come needs.

    `needs` holds the price, a reserve and the spread in thousandths, then per lane the nodes wanted per idle device
    in millionths. Arrivals to come are Poisson, so the stock should exceed their mean by some of its square roots.
    A node of a higher lane serves the lower ones too, so their guards add up.
    """
    stock = 0
    for lane in range(LANES - 1, 0, -1):
        stock += totals[1 + lane]
        wanted = needs[2 + lane] * totals[0] / 1_000_000_000
        short = stock <= wanted + (needs[2] * math.sqrt(wanted) + needs[1]) / 1000
        guard[lane] = needs[0] if needs[2 + lane] > 0 and short else 0
    for lane in range(2, LANES):
        guard[lane] += guard[lane - 1]


@njit(cache=True)
def least_costs(
    cost: Ints, best: Ints, least: Ints, log: Ints, seen: Ints, mark: Ints, clock: Ints, asks: Ints, guard: Ints,
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints,
    totals: Ints, needs: Ints, shapes: Ints, out: Ints,
) -> None:  # fmt: skip
    """For each shape what the node that would be chosen costs, guards aside; untouched where it fits nowhere."""
    set_guard(guard, totals, needs)
    for i in range(shapes.shape[0]):
        n = cheapest(
            cost, best, least, log, seen, mark, clock, asks, guard,
            hosts, devs, levels, value, rates, idles, step, scal, shapes[i],
        )  # fmt: skip
        if n >= 0:
            out[i] = cost[shapes[i], n]


@njit(cache=True)
def run(
    cost: Ints, best: Ints, least: Ints, log: Ints, seen: Ints, mark: Ints, clock: Ints, asks: Ints, guard: Ints,
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints,
    totals: Ints, needs: Ints, shapes: Ints, nodes: Ints, devices: Ints, bits: Ints, patient: bool,
) -> Scalar:  # fmt: skip
    """Decide and take a stream of demands: nodes[i] becomes -1 or the node. Answers how many were decided.

    Without patience the first refusal ends the stream.
    """
    for i in range(shapes.shape[0]):
        s = shapes[i]
        set_guard(guard, totals, needs)
        n = cheapest(
            cost, best, least, log, seen, mark, clock, asks, guard,
            hosts, devs, levels, value, rates, idles, step, scal, s,
        )  # fmt: skip
        nodes[i] = n
        if n < 0:
            if not patient:
                return i + 1
            continue
        bits[i] = take(hosts, devs, levels, value, rates, idles, step, scal, totals, n, asks[s], devices[i])
        log[clock[0] % log.shape[0]] = n
        clock[0] += 1
    return shapes.shape[0]
