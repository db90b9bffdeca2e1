"""The opponents, re-implemented from their papers and checked against their published figures: FGD, best fit, random.

FGD (ATC'23) places a pod where the expected idle capacity that typical pods cannot use grows least; the score is cut
to a whole number of 0..100 and ties go to the smallest node name, both as in the authors' simulator. One loop serves
all three: it keeps a score per shape and node and recomputes a node's column when it changes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dure.bench.pack_trace import Fleet, TracePod
from dure.pack.codes import WHOLE

Ints = NDArray[Any]
Scalar = Any  # numba infers machine numbers
FGD, BESTFIT, RANDOM = 0, 1, 2
CODES = {"fgd": FGD, "bestfit": BESTFIT, "random": RANDOM}
_NO = -(1 << 40)


def typical_pods(pods: Sequence[TracePod], fleet: Fleet, part: float = 0.95) -> tuple[Ints, NDArray[np.float64]]:
    """The most frequent shapes (cpu, devices, milli, types) that cover `part` of the list, and their frequencies."""
    counts = Counter((a.cpu, a.pieces, a.milli, a.types) for a in map(fleet.ask, pods))
    kept: list[tuple[int, int, int, int]] = []
    covered = 0
    for shape, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= part * len(pods):
            break
        kept.append(shape)
        covered += count
    return np.array(kept, np.int64), np.array([counts[shape] / covered for shape in kept])


def state_of(fleet: Fleet) -> tuple[Ints, Ints]:
    """Free host figures (cpu, memory, type, devices) and free thousandths per device, node by node."""
    hosts = np.array([(host.cpu, host.mem, host.typ, len(host.parts)) for host in fleet.hosts], np.int64)
    left = np.zeros((len(fleet.hosts), fleet.hardware.widest), np.int64)
    for n, host in enumerate(fleet.hosts):
        left[n, : len(host.parts)] = WHOLE
    return hosts, left


@njit(cache=True)
def fragments(cpu: int, typ: int, left: Ints, size: int, typical: Ints, shares: NDArray[np.float64]) -> Scalar:
    """Expected idle thousandths of one node that a typical pod could not use."""
    idle, total = 0, 0.0
    for d in range(size):
        idle += left[d]
    for k in range(typical.shape[0]):
        count, milli = typical[k, 1], typical[k, 2]
        fitting, waste = 0, 0
        for d in range(size):
            if left[d] >= milli:
                fitting += 1
            else:
                waste += left[d]
        lost = count == 0 or cpu < typical[k, 0] or fitting < count or (typical[k, 3] >> typ) & 1 == 0
        total += shares[k] * (idle if lost else waste)
    return total


@njit(cache=True)
def fgd_score(hosts: Ints, left: Ints, n: int, ask: Ints, typical: Ints, shares: NDArray[np.float64]) -> Scalar:
    """Whole-number score of FGD and the device it would take (-1 for whole devices or none)."""
    size = hosts[n, 3]
    before = fragments(hosts[n, 0], hosts[n, 2], left[n], size, typical, shares)
    trial = left[n].copy()
    cpu = hosts[n, 0] - ask[0]
    if ask[2] == 0 or ask[3] == WHOLE:
        missing = ask[2]
        for d in range(size):
            if missing > 0 and trial[d] == WHOLE:
                trial[d] = 0
                missing -= 1
        return cut_score(before - fragments(cpu, hosts[n, 2], trial, size, typical, shares)), -1
    best, chosen = -1, -1
    for d in range(size):
        if left[n, d] < ask[3]:
            continue
        trial[d] -= ask[3]
        score = cut_score(before - fragments(cpu, hosts[n, 2], trial, size, typical, shares))
        trial[d] += ask[3]
        if score > best:
            best, chosen = score, d
    return best, chosen


@njit(cache=True)
def cut_score(drop: float) -> Scalar:
    return int(100.0 / (1.0 + math.exp(-drop / 1000.0)))


@njit(cache=True)
def fits(hosts: Ints, left: Ints, n: int, ask: Ints) -> Scalar:
    if hosts[n, 0] < ask[0] or hosts[n, 1] < ask[1] or (ask[4] >> hosts[n, 2]) & 1 == 0:
        return False
    fitting = 0
    for d in range(hosts[n, 3]):
        fitting += left[n, d] >= ask[3]
    return fitting >= ask[2]


@njit(cache=True)
def rate(
    policy: int, hosts: Ints, left: Ints, n: int, ask: Ints, typical: Ints, shares: NDArray[np.float64]
) -> Scalar:
    """Score (higher is better) and device of the ask on node n under a policy."""
    if not fits(hosts, left, n, ask):
        return _NO, -1
    if policy == FGD:
        return fgd_score(hosts, left, n, ask, typical, shares)
    idle, tight, chosen = 0, 1 << 30, -1
    for d in range(hosts[n, 3]):
        idle += left[n, d]
        if ask[2] == 1 and ask[3] < WHOLE and ask[3] <= left[n, d] < tight and (policy == BESTFIT or chosen < 0):
            tight, chosen = left[n, d], d
    if policy == RANDOM:
        return 0, chosen
    # 0.5 x free CPU / 128,000 + 0.5 x free GPU / 8,000 after placement, on one denominator.
    return -((hosts[n, 0] - ask[0]) + 16 * (idle - ask[2] * ask[3])), chosen


@njit(cache=True)
def settle(hosts: Ints, left: Ints, n: int, ask: Ints, device: int) -> None:
    hosts[n, 0] -= ask[0]
    hosts[n, 1] -= ask[1]
    if device >= 0:
        left[n, device] -= ask[3]
        return
    missing = ask[2]
    for d in range(hosts[n, 3]):
        if missing > 0 and left[n, d] == WHOLE:
            left[n, d] = 0
            missing -= 1


@njit(cache=True)
def replay(
    policy: int, hosts: Ints, left: Ints, asks: Ints, shapes: Ints, typical: Ints, shares: NDArray[np.float64],
    chance: NDArray[np.float64], nodes: Ints,
) -> None:  # fmt: skip
    """Place a stream of shapes; nodes[i] is -1 or the node. Scores are kept per shape and recomputed where stale."""
    count = hosts.shape[0]
    score = np.zeros((asks.shape[0], count), np.int64)
    device = np.zeros((asks.shape[0], count), np.int16)
    fresh = np.full((asks.shape[0], count), -1, np.int64)
    version = np.zeros(count, np.int64)
    for i in range(shapes.shape[0]):
        s = shapes[i]
        best, chosen, ties = _NO, -1, 0
        for n in range(count):
            if fresh[s, n] != version[n]:
                score[s, n], device[s, n] = rate(policy, hosts, left, n, asks[s], typical, shares)
                fresh[s, n] = version[n]
            if score[s, n] == _NO:
                continue
            ties += 1
            if score[s, n] > best:
                best, chosen = score[s, n], n
        if policy == RANDOM and ties > 0:
            wanted = int(chance[i] * ties)
            for n in range(count):
                if score[s, n] != _NO:
                    if wanted == 0:
                        chosen = n
                        break
                    wanted -= 1
        nodes[i] = chosen
        if chosen >= 0:
            settle(hosts, left, chosen, asks[s], device[s, chosen])
            version[chosen] += 1
