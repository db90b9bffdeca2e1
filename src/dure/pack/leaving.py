"""Who would have to leave a node so that a demand fits there, and what of the potential that costs: the hot loops.

Called by `relocate` with the arrays of its holders. Both loops take holders off, ask the price of the demand, and put
them back: the arrays are afterwards as before. O(holders) for one who leaves, O(pairs on one node) for two.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.pack.codes import COUNT, CPU, H_CPU, H_MEM, H_PHI, H_SIZE, H_TYPE, MEM, NEVER, TYPES, Ints
from dure.pack.commit import change
from dure.pack.kernels import node_cost
from dure.pack.links import Scalar


@njit(cache=True, inline="always")
def hopeless(hosts: Ints, n: int, ask: Ints, cpu: int, mem: int) -> Scalar:
    """Whether the demand does not fit on node n whatever its devices, with so much more host CPU and memory."""
    if hosts[n, H_CPU] + cpu < ask[CPU] or hosts[n, H_MEM] + mem < ask[MEM]:
        return True
    return ask[COUNT] > hosts[n, H_SIZE] or (ask[TYPES] >> hosts[n, H_TYPE]) & 1 == 0


@njit(cache=True)
def price_one(
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints,
    totals: Ints, node: Ints, kind: Ints, devices: Ints, bits: Ints, asks: Ints, elsewhere: Ints, ask: Ints,
    out: Ints,
) -> None:  # fmt: skip
    """out[h]: the potential after holder h left its node for the seat it has `elsewhere` and the demand took its
    place, less that before; NEVER where the demand would not fit or h has no other seat."""
    for h in range(out.shape[0]):
        out[h] = NEVER
        n, k = node[h], kind[h]
        if n < 0 or elsewhere[k] >= NEVER or hopeless(hosts, n, ask, asks[k, CPU], asks[k, MEM]):
            continue
        before = hosts[n, H_PHI]
        change(hosts, devs, levels, value, rates, idles, scal, totals, n, asks[k], devices[h], bits[h], -1)
        price = node_cost(hosts, devs, levels, value, rates, idles, step, scal, n, ask)
        if price != NEVER:
            out[h] = hosts[n, H_PHI] - before + price + elsewhere[k]
        change(hosts, devs, levels, value, rates, idles, scal, totals, n, asks[k], devices[h], bits[h], 1)


@njit(cache=True)
def price_pairs(
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, step: Ints, scal: Ints,
    totals: Ints, first: Ints, here: Ints, kind: Ints, devices: Ints, bits: Ints, asks: Ints, elsewhere: Ints,
    ask: Ints, out: Ints, who: Ints,
) -> Scalar:  # fmt: skip
    """The same for two that leave one node together; `here[first[n]:first[n + 1]]` are the holders of node n.

    Keeps the cheapest pairs that `out` has room for, unsorted, and answers how many there are.
    """
    found = 0
    for n in range(hosts.shape[0]):
        if hopeless(hosts, n, ask, ask[CPU], ask[MEM]):
            continue
        before = hosts[n, H_PHI]
        for i in range(first[n], first[n + 1]):
            a = here[i]
            one = asks[kind[a]]
            if elsewhere[kind[a]] >= NEVER:
                continue
            change(hosts, devs, levels, value, rates, idles, scal, totals, n, one, devices[a], bits[a], -1)
            for j in range(i + 1, first[n + 1]):
                b = here[j]
                two = asks[kind[b]]
                if elsewhere[kind[b]] >= NEVER or hopeless(hosts, n, ask, two[CPU], two[MEM]):
                    continue
                change(hosts, devs, levels, value, rates, idles, scal, totals, n, two, devices[b], bits[b], -1)
                price = node_cost(hosts, devs, levels, value, rates, idles, step, scal, n, ask)
                if price != NEVER:
                    price += hosts[n, H_PHI] - before + elsewhere[kind[a]] + elsewhere[kind[b]]
                    at = found if found < out.shape[0] else np.argmax(out)
                    if found < out.shape[0] or price < out[at]:
                        out[at], who[at, 0], who[at, 1] = price, a, b
                    found = min(found + 1, out.shape[0])
                change(hosts, devs, levels, value, rates, idles, scal, totals, n, two, devices[b], bits[b], 1)
            change(hosts, devs, levels, value, rates, idles, scal, totals, n, one, devices[a], bits[a], 1)
    return found
