"""The hot loops of packing: what a placement would cost on a node, and taking or giving back capacity.

Called through `index` and `grid`; `plain` is the readable twin that the tests hold these loops to. Invariant:
everything is integer arithmetic, so neither the order of nodes and devices nor the machine can change an answer.

Costs are in millionths of a device. A device is described by one number, its *code*: 0..1000 is the idle share in
thousandths of a device that is not cut into slots, 1001 + mask is a device cut by MIG or vNPU whose occupied memory
slots are the bits of mask. Kernels take bare arrays: reaching into a tuple of arrays costs more than the arithmetic.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.pack.codes import (
    BACK,
    BACK_CPU,
    BINS,
    CORE_PRICE,
    COUNT,
    CPU,
    CUT,
    CUT0,
    D_BW,
    D_CLIENTS,
    D_CODE,
    D_COMPUTE,
    D_ENGINE,
    D_LIMIT,
    D_LINK,
    D_MEM,
    D_MODE,
    D_MODES,
    D_OWNER,
    D_TOTAL,
    DBW,
    DMEM,
    ENGINE,
    EXCLUSIVE,
    FREE,
    GATE,
    H_CPU,
    H_FIRST,
    H_GATES,
    H_KEY,
    H_LANE,
    H_MEM,
    H_PHI,
    H_SIZE,
    H_TAG,
    H_TYPE,
    ISOLATION,
    ISOLATION_PRICE,
    MEM,
    MILLI,
    MODE,
    MODES,
    MPS,
    NEVER,
    PART,
    PART_CPU,
    PROFILE,
    RAM_PER_DEVICE,
    RAM_PRICE,
    RHO,
    SHIFT,
    SWITCH_PRICE,
    TENANT,
    TIE_CPU,
    TIE_IDLE,
    TIER,
    TIME,
    TYPES,
    WHOLE,
    WIDE,
    WIDE_PRICE,
    Ints,
)
from dure.pack.links import Scalar, is_whole, pick_whole, usable


@njit(cache=True, inline="always")
def level_of(levels: Ints, cpu: int) -> Scalar:
    """How many of the sorted host CPU figures this much CPU can meet."""
    low, high = 0, levels.shape[0]
    while low < high:
        mid = (low + high) >> 1
        if levels[mid] <= cpu:
            low = mid + 1
        else:
            high = mid
    return low


@njit(cache=True, inline="always")
def host_cost(
    rates: Ints, scal: Ints, typ: int, level: int, cpu: int, mem: int, idle: int, whole: int, size: int
) -> Scalar:
    """The part of a node's potential that hangs on the node, not on single devices.

    rates[type, level, w] is what w whole devices save; its last column is the price of idle capacity as such.
    """
    cost = (rates[typ, level, rates.shape[2] - 1] * idle >> SHIFT) - rates[typ, level, whole]
    short, back = 0, min(scal[BACK], size * WHOLE - idle)
    ahead, host = idle + back, cpu + (scal[BACK_CPU] * back >> SHIFT)
    for b in range(RHO, RHO + BINS):
        gap = (scal[b] * ahead >> SHIFT) - host
        if gap <= 0:
            break
        short += gap
    cost += short * CORE_PRICE
    ram = (scal[RAM_PER_DEVICE] * idle >> SHIFT) - mem
    if ram > 0:
        cost += ram * scal[RAM_PRICE] >> 10
    if size >= scal[WIDE] and whole < size:
        cost += scal[WIDE_PRICE]
    return cost


@njit(cache=True)
def refresh(
    hosts: Ints, devs: Ints, levels: Ints, value: Ints, rates: Ints, idles: Ints, scal: Ints, n: int
) -> Scalar:
    """Recompute what is remembered about node n; answers its idle thousandths.

    PHI is its potential. TAG is equal for nodes in equal states whatever they are called and however their devices
    are ordered. KEY is equal only where everything that prices hang on is equal, device by device. LANE is 0, 1 if it
    has room for the widest demand below a whole wide node, or 1 + the highest tier of host CPU it could still give a
    demand for a whole one.
    """
    cpu, mem, typ, size = hosts[n, H_CPU], hosts[n, H_MEM], hosts[n, H_TYPE], hosts[n, H_SIZE]
    level = level_of(levels, cpu)
    idle, whole, total = 0, 0, 0
    tag, key = np.int64(0), np.int64(size)
    for d in range(hosts[n, H_FIRST], hosts[n, H_FIRST] + size):
        code = np.int64(devs[d, D_CODE])
        idle += idles[typ, code]
        whole += is_whole(code)
        total += value[typ, level, code]
        one = code * 2654435761 + devs[d, D_MEM] * 40503 + devs[d, D_BW] * 65599 + devs[d, D_MODE] * 11
        one += devs[d, D_MODES] * 131 + devs[d, D_OWNER] * 31337
        tag += one * one * np.int64(6364136223846793005) + one
        rest = one + (devs[d, D_COMPUTE] * 8191 + devs[d, D_TOTAL] * 127 + devs[d, D_CLIENTS]) * np.int64(1000000007)
        rest += ((devs[d, D_LIMIT] * 257 + devs[d, D_LINK]) * 3 + devs[d, D_ENGINE]) * np.int64(998244353)
        key = (key ^ (rest * np.int64(-7046029254386353131))) * np.int64(6364136223846793005) + 1442695040888963407
    hosts[n, H_PHI] = total + host_cost(rates, scal, typ, level, cpu, mem, idle, whole, size)
    host = (cpu * 1099511628211 + mem) * np.int64(6364136223846793005) + typ
    hosts[n, H_TAG] = (tag + host) & np.int64(0x7FFFFFFFFFFFFFFF)
    hosts[n, H_KEY] = key ^ host
    tier = level_of(scal[TIER:], cpu) if size >= scal[WIDE] and whole == size else 0
    hosts[n, H_LANE] = 1 + tier if tier > 0 else whole >= scal[PART] and cpu >= scal[PART_CPU]
    return idle


@njit(cache=True, inline="always")
def mode_on(devs: Ints, d: int, ask: Ints) -> Scalar:
    """The mode in which device d would take a part: its own if that is offered and wanted, else, while nobody is on
    it, the first that is; -1 where modes, clients or isolation forbid it."""
    modes = (ask[MODES] if ask[MODES] > 0 else np.int64(1) << ask[MODE]) & devs[d, D_MODES]
    mode = np.int64(devs[d, D_MODE])
    if devs[d, D_CLIENTS] == 0:
        if mode != FREE and (modes >> mode) & 1 == 1:
            return mode
        if (modes >> CUT) & 1 == 1:
            return CUT
        if (modes >> MPS) & 1 == 1:
            return MPS
        if (modes >> TIME) & 1 == 1:
            return TIME
        return EXCLUSIVE if (modes >> EXCLUSIVE) & 1 == 1 else -1
    if (modes >> mode) & 1 == 0 or devs[d, D_CLIENTS] >= devs[d, D_LIMIT]:
        return -1
    # owner > 0: one tenant so far, by chance; < 0: that tenant asked to be alone; 0: several.
    if (devs[d, D_OWNER] < 0 or ask[ISOLATION] > 0) and abs(devs[d, D_OWNER]) != ask[TENANT]:
        return -1
    return mode


@njit(cache=True, inline="always")
def device_after(devs: Ints, step: Ints, typ: int, d: int, ask: Ints, mode: int) -> Scalar:
    """The code of device d after it took a part in this mode, or -1 if it cannot."""
    code = np.int64(devs[d, D_CODE])
    if mode == CUT:
        if code < WHOLE or (ask[ENGINE] > 0 and devs[d, D_ENGINE] > 0):
            return -1
        after = np.int64(step[typ, ask[PROFILE], 0 if code == WHOLE else code - CUT0])
        return -1 if after < 0 else CUT0 + after
    if devs[d, D_MEM] < ask[DMEM] or devs[d, D_BW] < ask[DBW] or devs[d, D_COMPUTE] < ask[MILLI]:
        return -1
    if mode == EXCLUSIVE:
        return 0
    return share_left(devs, d, devs[d, D_COMPUTE] - ask[MILLI], devs[d, D_MEM] - ask[DMEM])


@njit(cache=True, inline="always")
def share_left(devs: Ints, d: int, compute: int, mem: int) -> Scalar:
    """The idle share of a device that is shared freely: what is left of compute or of memory, whichever is less."""
    left = np.int64(compute)
    if devs[d, D_TOTAL] > 0:
        left = min(left, np.int64(mem) * WHOLE // devs[d, D_TOTAL])
    return max(np.int64(0), left)


@njit(cache=True, inline="always")
def node_fits(hosts: Ints, n: int, ask: Ints) -> Scalar:
    """Host CPU, host memory, type, gate and number of devices."""
    if hosts[n, H_CPU] < ask[CPU] or hosts[n, H_MEM] < ask[MEM] or (ask[TYPES] >> hosts[n, H_TYPE]) & 1 == 0:
        return False
    return ask[COUNT] <= hosts[n, H_SIZE] and (hosts[n, H_GATES] >> ask[GATE]) & 1 == 1


@njit(cache=True, inline="always")
def other_mode(devs: Ints, d: int) -> Scalar:
    """Whether a device has to be switched before somebody has all of it."""
    return devs[d, D_MODE] != FREE and devs[d, D_MODE] != EXCLUSIVE


@njit(cache=True, inline="always")
def whole_cost(
    hosts: Ints,
    devs: Ints,
    levels: Ints,
    value: Ints,
    rates: Ints,
    idles: Ints,
    scal: Ints,
    n: int,
    ask: Ints,
) -> Scalar:
    """Cost of whole devices, or of host capacity alone, on node n."""
    typ, start, size = hosts[n, H_TYPE], hosts[n, H_FIRST], hosts[n, H_SIZE]
    cpu, mem = hosts[n, H_CPU] - ask[CPU], hosts[n, H_MEM] - ask[MEM]
    level = level_of(levels, cpu)
    idle, whole, total, missing, switches, free, other = 0, 0, 0, ask[COUNT], 0, 0, 0
    for d in range(start, start + size):
        code = devs[d, D_CODE]
        if ask[COUNT] > 0 and usable(devs, d, ask):
            free += 1
            other += other_mode(devs, d)
            if missing > 0:
                missing -= 1
                total += value[typ, level, 0]
                switches += other_mode(devs, d)
                continue
        idle += idles[typ, code]
        whole += is_whole(code)
        total += value[typ, level, code]
    if missing > 0:
        return NEVER
    if 0 < other < free and ask[COUNT] < free:
        # Which of them it gets decides how many have to be switched.
        picked = np.empty(ask[COUNT], np.int64)
        pick_whole(hosts, devs, n, ask, picked)
        switches = 0
        for d in picked:
            switches += other_mode(devs, d)
    ties = (scal[TIE_CPU] * cpu >> SHIFT) + (scal[TIE_IDLE] * idle >> SHIFT) + switches * (scal[SWITCH_PRICE] // 4)
    if ask[ISOLATION] > 0:
        ties += ask[COUNT] * scal[ISOLATION_PRICE]
    return total + host_cost(rates, scal, typ, level, cpu, mem, idle, whole, size) - hosts[n, H_PHI] + ties


@njit(cache=True, inline="always")
def upkeep(devs: Ints, scal: Ints, d: int, ask: Ints, mode: int) -> Scalar:
    """What the device must be changed for: another mode (less when it is from or to no sharing at all), or a fence
    around one tenant."""
    cost = 0
    if devs[d, D_MODE] != mode and devs[d, D_MODE] != FREE:
        easy = mode == EXCLUSIVE or devs[d, D_MODE] == EXCLUSIVE
        cost += scal[SWITCH_PRICE] // 4 if easy else scal[SWITCH_PRICE]
    if ask[ISOLATION] > 0 and devs[d, D_CLIENTS] == 0:
        cost += scal[ISOLATION_PRICE]
    return cost


@njit(cache=True)
def part_cost(
    hosts: Ints,
    devs: Ints,
    levels: Ints,
    value: Ints,
    rates: Ints,
    idles: Ints,
    step: Ints,
    scal: Ints,
    n: int,
    ask: Ints,
) -> Scalar:
    """Cost of a part of one device on node n, and the device where it is least."""
    typ, start, size = hosts[n, H_TYPE], hosts[n, H_FIRST], hosts[n, H_SIZE]
    cpu, mem = hosts[n, H_CPU] - ask[CPU], hosts[n, H_MEM] - ask[MEM]
    level = level_of(levels, cpu)
    idle, whole, total = 0, 0, 0
    for d in range(start, start + size):
        code = devs[d, D_CODE]
        idle += idles[typ, code]
        whole += is_whole(code)
        total += value[typ, level, code]
    base = total - hosts[n, H_PHI] + (scal[TIE_CPU] * cpu >> SHIFT)
    best, chosen = NEVER, -1
    seen_idle, seen_whole, host, empty = -1, -1, 0, -1
    for d in range(start, start + size):
        code = devs[d, D_CODE]
        if devs[d, D_CLIENTS] == 0:
            if empty >= 0 and devs[d, D_MODE] == devs[empty, D_MODE] and devs[d, D_MODES] == devs[empty, D_MODES]:
                continue
            empty = d
        mode = mode_on(devs, d, ask)
        after = device_after(devs, step, typ, d, ask, mode) if mode > 0 else -1
        if after < 0:
            continue
        left, still = idle - idles[typ, code] + idles[typ, after], whole - is_whole(code) + is_whole(after)
        if left != seen_idle or still != seen_whole:
            host = host_cost(rates, scal, typ, level, cpu, mem, left, still, size)
            seen_idle, seen_whole = left, still
        cost = base - value[typ, level, code] + value[typ, level, after] + host + upkeep(devs, scal, d, ask, mode)
        cost += scal[TIE_IDLE] * left >> SHIFT
        if cost < best or (cost == best and code < devs[chosen, D_CODE]):
            best, chosen = cost, d
    return best, chosen


@njit(cache=True)
def node_cost(
    hosts: Ints,
    devs: Ints,
    levels: Ints,
    value: Ints,
    rates: Ints,
    idles: Ints,
    step: Ints,
    scal: Ints,
    n: int,
    ask: Ints,
) -> Scalar:
    """Cost of the ask on node n; NEVER when it does not fit."""
    if not node_fits(hosts, n, ask):
        return NEVER
    if ask[COUNT] == 0 or ask[MODE] == EXCLUSIVE:
        return whole_cost(hosts, devs, levels, value, rates, idles, scal, n, ask)
    return part_cost(hosts, devs, levels, value, rates, idles, step, scal, n, ask)[0]
