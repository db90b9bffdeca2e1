"""From the demand mix to prices: what each leftover of a node is worth, as integer tables for the kernels.

The potential of a node is the idle capacity that typical demand could not use (FGD, ATC'23), less what each device's
remainder is worth by the best packing of the mix, plus the host CPU and memory that will be missing beside its idle
devices, plus a price on the types that typed demand insists on. Every figure comes from the mix and the fleet's
hardware. Called by `grid` and `memory` when the mix moved.
Cost: O(types x cpu levels x codes), a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.model.accelerator import Geometry
from dure.pack.codes import (
    BACK,
    BACK_CPU,
    BINS,
    CODES,
    CUT0,
    ISOLATION_PRICE,
    NEVER,
    PART,
    RAM_PER_DEVICE,
    RAM_PRICE,
    RHO,
    SCALARS,
    SHIFT,
    SWITCH_PRICE,
    TIE_CPU,
    TIE_IDLE,
    TIER,
    TIERS,
    WHOLE,
    WIDE,
    WIDE_PRICE,
    Ints,
)
from dure.pack.mix import Shape

Floats = NDArray[np.float64]

MICRO = 1_000_000
RATE = (1 << SHIFT) / 1000


class WorthSettings(msgspec.Struct, frozen=True):
    """Weights of the terms of a node's potential, in devices."""

    remainder: float = 8.0
    ram_per_gib: float = 0.008
    broken_node: float = 0.2
    type_price: float = 16.0
    type_cap: float = 1.5
    tie: float = 0.2
    mode_switch: float = 2.0
    rho_cap: float = 30.0
    guard: float = 50.0
    guard_margin: float = 1.2
    guard_reserve: float = 1.0
    guard_spread: float = 3.0
    isolation: float = 1.0
    lesson: int = 500
    shapes: int = 192


USUAL = WorthSettings()


class Hardware(msgspec.Struct, frozen=True):
    """What the fleet is made of: devices per type, biggest node, largest host; the slot tables per type."""

    devices: tuple[int, ...]
    widest: int
    host_cpu: int
    wide_cpu: tuple[int, ...] = ()
    steps: tuple[tuple[tuple[int, ...], ...], ...] = ()
    slots: tuple[int, ...] = ()
    geometries: tuple[Geometry | None, ...] = ()


class Tables(NamedTuple):
    """The arrays in the order in which every kernel takes them."""

    levels: Ints
    value: Ints
    rates: Ints
    idles: Ints
    step: Ints
    scal: Ints


class Worth(msgspec.Struct, frozen=True):
    """Tables for the kernels, and what the guard of wide nodes needs: the nodes of each lane and the lanes above it
    that demand for one device asks for on average."""

    tables: Tables
    wide_nodes: tuple[float, ...]
    settings: WorthSettings

    def needs(self, lanes: int) -> Ints:
        """The figures of `commit.set_guard`: price, reserve, spread, then wanted nodes per idle device by lane."""
        figures = np.zeros(2 + lanes, np.int64)
        figures[0] = round(self.settings.guard * MICRO)
        figures[1] = round(self.settings.guard_reserve * 1000)
        figures[2] = round(self.settings.guard_spread * 1000)
        for lane, nodes in enumerate(self.wide_nodes, 1):
            figures[2 + lane] = round(self.settings.guard_margin * nodes * MICRO)
        return figures


Shares = list[tuple[Shape, float]]


def worth(
    shares: Shares, typical: Shares, hw: Hardware, settings: WorthSettings = USUAL, idle_now: Sequence[float] = (),
    turnover: float = 0.0,
) -> Worth:  # fmt: skip
    """Price everything by the mix: `shares` is all of it, `typical` its frequent part without memory.

    `idle_now` is how many devices of each type are idle; without it the whole fleet counts as idle. `turnover` is how
    many leave for each that arrives: where room comes back, a host must have CPU for the next user of a device too.
    """
    types = len(hw.devices)
    levels = np.array(sorted({s.cpu for s, _ in typical}), np.int64)
    idle = _idle(hw)
    value, slope, bonus = _fragments(typical, levels, hw, idle)
    # The solver and the compiler behind them take a second to load: not before the first prices are needed.
    from dure.pack.carving import mask_values
    from dure.pack.cutting import remainder_values

    remainders = remainder_values(*_fraction_demand(shares, levels))
    for typ in range(types):
        value[typ, :, : WHOLE + 1] -= settings.remainder * remainders
        geometry = hw.geometries[typ] if hw.geometries else None
        if geometry is not None:
            kept = mask_values(geometry, *_slice_demand(shares, levels, typ, len(geometry.profiles)))
            value[typ, :, CUT0 : CUT0 + kept.shape[1]] -= settings.remainder * kept
    slope -= settings.type_price * type_prices(shares, idle_now or hw.devices, settings)[:, None]
    tiers, wide_nodes = _wide_tiers(shares, hw)
    part, part_nodes = _partial(shares, hw, int(tiers[0]))
    scal = np.zeros(SCALARS, np.int64)
    scal[RAM_PER_DEVICE] = round(_ram_per_device(shares) * RATE)
    scal[RAM_PRICE] = round(settings.ram_per_gib * MICRO)
    scal[WIDE] = hw.widest if hw.widest > 1 else NEVER
    scal[WIDE_PRICE] = round(settings.broken_node * MICRO)
    scal[TIE_CPU] = round((1.0 - turnover) * settings.tie * 0.5 * MICRO * 1000 * RATE / max(1, hw.host_cpu))
    scal[TIE_IDLE] = round(settings.tie * 0.5 * MICRO * RATE / max(1, hw.widest))
    scal[SWITCH_PRICE] = round(settings.mode_switch * MICRO)
    scal[ISOLATION_PRICE] = round(settings.isolation * MICRO)
    scal[RHO:TIER] = _host_ratios(shares, settings)
    scal[PART:BACK] = part
    scal[BACK] = round(turnover * WHOLE)
    scal[BACK_CPU] = scal[RHO:TIER].sum() // BINS
    scal[TIER:] = tiers
    tables = Tables(
        levels=levels,
        value=np.rint(value * MICRO).astype(np.int32),
        rates=np.rint(np.concatenate([bonus, slope[:, :, None] * RATE], axis=2) * MICRO).astype(np.int64),
        idles=idle,
        step=_steps(hw),
        scal=scal,
    )
    every = part_nodes + (wide_nodes[0] if wide_nodes else 0.0) if part_nodes else 0.0
    return Worth(tables=tables, wide_nodes=(every, *wide_nodes), settings=settings)


def _idle(hw: Hardware) -> NDArray[np.int32]:
    """Idle thousandths by type and code; a MIG device counts its free memory slots."""
    idle = np.zeros((len(hw.devices), CODES), np.int32)
    idle[:, : WHOLE + 1] = np.arange(WHOLE + 1)
    for typ in range(len(hw.devices)):
        slots = hw.slots[typ] if hw.slots else 0
        for mask in range(1 << slots if slots else 0):
            idle[typ, CUT0 + mask] = (slots - mask.bit_count()) * WHOLE // slots
    return idle


def _fragments(
    typical: Shares, levels: NDArray[np.int64], hw: Hardware, idle: NDArray[np.int32]
) -> tuple[Floats, Floats, Floats]:
    """Expected fragmentation split into parts: per device, per idle device of the node, per number of whole ones."""
    types = len(hw.devices)
    value = np.zeros((types, levels.size + 1, CODES))
    slope = np.zeros((types, levels.size + 1))
    bonus = np.zeros((types, levels.size + 1, hw.widest + 1))
    codes = np.arange(WHOLE + 1)
    for shape, share in typical:
        need = int(np.searchsorted(levels, shape.cpu)) + 1
        for typ in range(types):
            if shape.pieces == 0 or not shape.types >> typ & 1:
                slope[typ] += share
                continue
            slope[typ, :need] += share
            if shape.profile >= 0:
                step = hw.steps[typ][shape.profile] if hw.steps and shape.profile < len(hw.steps[typ]) else ()
                stuck = np.array([after < 0 for after in step], bool)
                value[typ, need:, CUT0 : CUT0 + stuck.size] += (
                    share * stuck * idle[typ, CUT0 : CUT0 + stuck.size] / 1000
                )
                value[typ, need:, :WHOLE] += share * codes[:WHOLE] / 1000
            elif shape.pieces == 1 and shape.milli < WHOLE:
                value[typ, need:, : WHOLE + 1] += share * np.where(codes < shape.milli, codes, 0) / 1000
                value[typ, need:, CUT0 + 1 :] += share * idle[typ, CUT0 + 1 :] / 1000
            else:
                slope[typ, need:] += share
                for whole in range(shape.pieces, hw.widest + 1):
                    bonus[typ, need:, whole] += share * whole
    return value, slope, bonus


def _fraction_demand(shares: Shares, levels: Ints) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Sizes of the fractions asked for, how much of each, and which part of that each level of host CPU can serve."""
    asked = [(s, p) for s, p in shares if s.pieces == 1 and s.profile < 0 and 0 < s.milli < WHOLE]
    sizes = np.array(sorted({shape.milli for shape, _ in asked}), np.int64)
    columns = [(shape.cpu, int(np.searchsorted(sizes, shape.milli)), share) for shape, share in asked]
    return sizes, *_served(columns, levels, sizes.size)


def _slice_demand(shares: Shares, levels: Ints, typ: int, profiles: int) -> tuple[Floats, Floats]:
    """The same for the slot profiles of one type."""
    asked = [(s, p) for s, p in shares if 0 <= s.profile < profiles and s.types >> typ & 1]
    return _served([(shape.cpu, shape.profile, share) for shape, share in asked], levels, profiles)


def _served(asked: Sequence[tuple[int, int, float]], levels: Ints, kinds: int) -> tuple[Floats, Floats]:
    """From (host CPU, kind, share): the demand by kind, and the part of it that each level can serve."""
    by_level = np.zeros((levels.size + 1, kinds))
    for cpu, kind, share in asked:
        by_level[min(int(np.searchsorted(levels, cpu)) + 1, levels.size), kind] += share
    served = np.cumsum(by_level, axis=0)
    return served[-1], served / np.maximum(served[-1], 1e-12)


def _host_ratios(shares: Shares, settings: WorthSettings) -> NDArray[np.int64]:
    """Host millicores per device at `BINS` equally heavy points of the device demand, largest first."""
    points = sorted(
        (min(s.cpu / 1000 / s.devices, settings.rho_cap), s.devices * p) for s, p in shares if s.devices > 0
    )
    total = sum(weight for _, weight in points)
    if total <= 0:
        return np.zeros(BINS, np.int64)
    ratios: list[float] = []
    passed = 0.0
    for ratio, weight in points:
        passed += weight
        while len(ratios) < BINS and passed >= (len(ratios) + 0.5) / BINS * total:
            ratios.append(ratio)
    return np.array([round(r * 1000 * RATE) for r in reversed(ratios)], np.int64)


def _ram_per_device(shares: Shares) -> int:
    """Host memory in MiB that a device's worth of demand brings along: its weighted mean."""
    devices = sum(s.devices * p for s, p in shares)
    return round(sum(s.mem * p for s, p in shares if s.devices > 0) / devices) if devices > 0 else 0


def type_prices(shares: Shares, idle: Sequence[float], settings: WorthSettings) -> Floats:
    """How sought after each type is by demand that names types: what will come of it until the fleet is full, spread
    over the idle devices it accepts, for each idle device of the type."""
    types = len(idle)
    every = (1 << types) - 1
    total = max(sum(s.devices * p for s, p in shares), 1e-9)
    sought = np.zeros(types)
    for shape, share in shares:
        if shape.types & every == every:
            continue
        allowed = [t for t in range(types) if shape.types >> t & 1]
        sought[allowed] += shape.devices * share / total * sum(idle) / max(sum(idle[t] for t in allowed), 1.0)
    return np.minimum(settings.type_cap, sought)


def _wide_tiers(shares: Shares, hw: Hardware) -> tuple[Ints, tuple[float, ...]]:
    """Host CPU steps of the demand for whole widest nodes, and how many nodes at or above each step one device of
    demand asks for."""
    wide: dict[int, float] = {}
    total = sum(s.devices * p for s, p in shares)
    for shape, share in shares:
        if shape.pieces == hw.widest and shape.pieces > 1:
            wide[shape.cpu] = wide.get(shape.cpu, 0.0) + share / total
    # Needs that the same hosts can meet form one tier, named by the largest of them.
    hosts = sorted(hw.wide_cpu)
    largest: dict[int, int] = {}
    for cpu in wide:
        host = next((size for size in hosts if size >= cpu), cpu)
        largest[host] = max(largest.get(host, 0), cpu)
    heaviest = sorted(largest.values(), key=lambda top: (-wide[top], top))[:TIERS]
    steps = sorted(heaviest)
    # No node has so much host CPU: unused tiers are never reached.
    tiers = np.full(TIERS, NEVER, np.int64)
    tiers[: len(steps)] = steps
    below = [0, *steps]
    return tiers, tuple(sum(w for cpu, w in wide.items() if cpu > under) for under in below[: len(steps)])


def _partial(shares: Shares, hw: Hardware, lowest_tier: int) -> tuple[tuple[int, int], float]:
    """Devices and host CPU of the widest demand below a whole widest node, and how many such rooms a device of demand
    asks for.

    A whole node of any tier must have such a room too, so whoever needs more host CPU than the lowest does not count.
    """
    total = sum(s.devices * p for s, p in shares)
    below = [(s, p) for s, p in shares if 1 < s.pieces < hw.widest and s.cpu <= lowest_tier]
    if not below:
        return (int(NEVER), 0), 0.0
    pieces = max(s.pieces for s, _ in below)
    widest = [(s, p) for s, p in below if s.pieces == pieces]
    return (pieces, max(s.cpu for s, _ in widest)), sum(p for _, p in widest) / total


def _steps(hw: Hardware) -> Ints:
    """Slot steps as an array [type, profile, occupied mask] -> mask after, -1 where the profile has no place."""
    profiles = max((len(step) for step in hw.steps), default=0)
    table = np.full((len(hw.devices), max(1, profiles), 256), -1, np.int16)
    for typ, by_profile in enumerate(hw.steps):
        for profile, after in enumerate(by_profile):
            table[typ, profile, : len(after)] = after
    return table
