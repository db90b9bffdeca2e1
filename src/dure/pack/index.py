"""The cheapest node for each shape of demand, kept up to date by the changes alone.

A row per shape holds the cost on every node; a log names the nodes that changed. Deciding for a shape re-prices only
the nodes changed since that shape was last decided, then reads the minimum of each block of nodes. With S live shapes
a decision costs O(S) prices plus O(nodes / 64) comparisons, so it hardly grows with the cluster. Called by `grid`.

Invariant: after `cheapest` for a shape, its row equals `node_cost` on every node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dure.pack.codes import (
    ASK_FIELDS,
    COUNT,
    CPU,
    EXCLUSIVE,
    H_GATES,
    H_KEY,
    H_LANE,
    H_RANK,
    H_TAG,
    LANES,
    MODE,
    NEVER,
    PART,
    TIER,
    TIERS,
    WIDE,
    Ints,
)
from dure.pack.kernels import level_of, node_cost
from dure.pack.links import Scalar

BLOCK = 64


class Index(NamedTuple):
    """Arrays in the order in which the kernels take them.

    `seen` (per shape) and `clock` count entries of `log`; a shape further behind than the log is long is priced anew.
    """

    cost: Ints
    best: Ints
    least: Ints
    log: Ints
    seen: Ints
    mark: Ints
    clock: Ints
    asks: Ints
    guard: Ints


def new_index(nodes: int, shapes: int) -> Index:
    """An empty index with room for `shapes` kinds of demand."""
    blocks = (nodes + BLOCK - 1) // BLOCK
    return Index(
        cost=np.zeros((shapes, nodes), np.int32),
        best=np.full((shapes, LANES, blocks), -1, np.int32),
        least=np.full((shapes, LANES, blocks), NEVER, np.int32),
        log=np.zeros(max(64, nodes), np.int32),
        seen=np.full(shapes, -1, np.int64),
        mark=np.zeros(nodes, np.int64),
        clock=np.zeros(2, np.int64),
        asks=np.zeros((shapes, ASK_FIELDS), np.int64),
        guard=np.zeros(LANES, np.int64),
    )


@njit(cache=True)
def rescan(cost: Ints, best: Ints, least: Ints, hosts: Ints, s: int, block: int) -> None:
    """Find the cheapest node of one block in each lane."""
    best[s, :, block] = -1
    least[s, :, block] = NEVER
    for n in range(block * BLOCK, min(hosts.shape[0], (block + 1) * BLOCK)):
        price = cost[s, n]
        if price == NEVER:
            continue
        lane = hosts[n, H_LANE]
        held = best[s, lane, block]
        if price < least[s, lane, block] or (price == least[s, lane, block] and hosts[n, H_TAG] < hosts[held, H_TAG]):
            best[s, lane, block] = n
            least[s, lane, block] = price


@njit(cache=True)
def price_all(
    cost: Ints, best: Ints, least: Ints, hosts: Ints, devs: Ints,
    levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints, s: int, ask: Ints,
) -> None:  # fmt: skip
    """Price shape s on every node. A node in the same state as the one before it has its price."""
    for n in range(hosts.shape[0]):
        if n > 0 and hosts[n, H_KEY] == hosts[n - 1, H_KEY] and hosts[n, H_GATES] == hosts[n - 1, H_GATES]:
            cost[s, n] = cost[s, n - 1]
        else:
            cost[s, n] = node_cost(hosts, devs, levels, value, rates, idles, step, scal, n, ask)
    for block in range(best.shape[2]):
        rescan(cost, best, least, hosts, s, block)


@njit(cache=True)
def catch_up(
    cost: Ints, best: Ints, least: Ints, log: Ints, seen: Ints, mark: Ints, clock: Ints, asks: Ints,
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints, s: int,
) -> None:  # fmt: skip
    """Re-price the nodes that changed since shape s was last looked at."""
    now, since, ask = clock[0], seen[s], asks[s]
    seen[s] = now
    if since < 0 or now - since >= log.shape[0]:
        price_all(cost, best, least, hosts, devs, levels, value, rates, idles, step, scal, s, ask)
        return
    clock[1] += 1
    for entry in range(since, now):
        n = log[entry % log.shape[0]]
        if mark[n] == clock[1]:
            continue
        mark[n] = clock[1]
        price = node_cost(hosts, devs, levels, value, rates, idles, step, scal, n, ask)
        cost[s, n] = price
        block, lane, stale = n // BLOCK, hosts[n, H_LANE], False
        for k in range(LANES):
            stale |= best[s, k, block] == n
        if stale:
            rescan(cost, best, least, hosts, s, block)
            continue
        held = least[s, lane, block]
        if price < held or (price == held != NEVER and hosts[n, H_TAG] < hosts[best[s, lane, block], H_TAG]):
            best[s, lane, block] = n
            least[s, lane, block] = price


@njit(cache=True)
def spared_lanes(scal: Ints, ask: Ints) -> Scalar:
    """Lanes that the guard keeps free for this very ask: those up to the host CPU a wide demand needs."""
    if ask[MODE] != EXCLUSIVE or ask[COUNT] < min(scal[PART], scal[WIDE]):
        return 0
    if ask[COUNT] < scal[WIDE]:
        return 1
    return min(level_of(scal[TIER:], ask[CPU] - 1) + 1, TIERS) + 1


@njit(cache=True)
def cheapest(
    cost: Ints, best: Ints, least: Ints, log: Ints, seen: Ints, mark: Ints, clock: Ints, asks: Ints, guard: Ints,
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints, s: int,
) -> Scalar:  # fmt: skip
    """The node where shape s costs least, guard included, or -1 when it fits nowhere. Ties: the smaller tag."""
    catch_up(
        cost, best, least, log, seen, mark, clock, asks, hosts, devs, levels, value, rates, idles, step, scal, s
    )  # fmt: skip
    spared = spared_lanes(scal, asks[s])
    lowest, chosen = 2 * NEVER, -1
    for lane in range(LANES):
        extra = max(0, guard[lane] - guard[spared])
        for block in range(best.shape[2]):
            price = least[s, lane, block]
            if price == NEVER or price + extra > lowest:
                continue
            n = best[s, lane, block]
            if price + extra < lowest or hosts[n, H_TAG] < hosts[chosen, H_TAG]:
                lowest, chosen = price + extra, n
    return chosen


@njit(cache=True)
def nearest(
    cost: Ints, best: Ints, least: Ints, log: Ints, seen: Ints, mark: Ints, clock: Ints, asks: Ints, guard: Ints,
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints, s: int,
    out: Ints,
) -> Scalar:  # fmt: skip
    """All nodes where shape s costs least, guard included, one for each state; how many, and what that is."""
    n = cheapest(
        cost, best, least, log, seen, mark, clock, asks, guard,
        hosts, devs, levels, value, rates, idles, step, scal, s,
    )  # fmt: skip
    if n < 0:
        return 0, 2 * NEVER
    spared = spared_lanes(scal, asks[s])
    lowest, found = cost[s, n] + max(0, guard[hosts[n, H_LANE]] - guard[spared]), 0
    for lane in range(LANES):
        price = lowest - max(0, guard[lane] - guard[spared])
        for block in range(best.shape[2]):
            if least[s, lane, block] != price:
                continue
            for m in range(block * BLOCK, min(hosts.shape[0], (block + 1) * BLOCK)):
                if cost[s, m] == price and hosts[m, H_LANE] == lane:
                    found = note(hosts, out, found, m)
    return found, lowest


@njit(cache=True)
def nearest_of(
    cost: Ints, best: Ints, least: Ints, log: Ints, seen: Ints, mark: Ints, clock: Ints, asks: Ints, guard: Ints,
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints, s: int,
    nodes: Ints, crowds: Ints, out: Ints,
) -> Scalar:  # fmt: skip
    """The same among some nodes, of which those with the smallest crowd come first; also how large that is."""
    catch_up(
        cost, best, least, log, seen, mark, clock, asks, hosts, devs, levels, value, rates, idles, step, scal, s
    )  # fmt: skip
    spared = spared_lanes(scal, asks[s])
    fewest, lowest, found = np.int64(0), 2 * NEVER, 0
    for i in range(nodes.shape[0]):
        n = nodes[i]
        if cost[s, n] == NEVER:
            continue
        price = cost[s, n] + max(0, guard[hosts[n, H_LANE]] - guard[spared])
        if found == 0 or crowds[n] < fewest or (crowds[n] == fewest and price < lowest):
            fewest, lowest, found = crowds[n], price, 0
        if crowds[n] == fewest and price == lowest:
            found = note(hosts, out, found, n)
    return found, lowest, fewest


@njit(cache=True)
def note(hosts: Ints, out: Ints, found: int, n: int) -> Scalar:
    """Write node n down, or in place of one in the same state that comes later by name."""
    for i in range(found):
        if hosts[out[i], H_KEY] == hosts[n, H_KEY]:
            if hosts[n, H_RANK] < hosts[out[i], H_RANK]:
                out[i] = n
            return found
    out[found] = n
    return found + 1
