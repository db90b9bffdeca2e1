"""How far from the optimum on a few devices: an exact program over all legal MIG layouts, solved by HiGHS.

A device takes one of its legal layouts (as a multiset of profiles); the program maximises the slots held by a list
of slices that is known in full. Ours packs the same list as a batch (largest first), and one by one as it comes, as
the rivals do. On the fewest devices a search over every choice also says what somebody reaches who knows the list and
its order but, like a packer, refuses nothing that fits: the rest of that gap is the price of not knowing the future.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import highspy
import numpy as np

from dure.bench.pack_fleet import BEST_FIT, FGD, first_fit, geometry, lowest_steps
from dure.model.accelerator import Geometry
from dure.pack.ask import Ask, slice_ask
from dure.pack.codes import CUT
from dure.pack.grid import Grid, Host, Part
from dure.pack.mix import Mix
from dure.pack.slots import free_starts, layouts, steps
from dure.pack.worth import USUAL, Hardware

_GPU = "A100-SXM4-80GB"
_SIZES = (4, 8, 16)
_RIVALS = {"dure": USUAL, "fgd": FGD, "bestfit": BEST_FIT, "firstfit": BEST_FIT}
_WEIGHTS = {"1g.10gb": 0.35, "1g.20gb": 0.1, "2g.20gb": 0.25, "3g.40gb": 0.2, "4g.40gb": 0.07, "7g.80gb": 0.03}


def exact_gap(seeds: list[int]) -> dict[str, Any]:
    """Gap to the exact optimum in percent, mean over seeds, for 4, 8 and 16 devices."""
    table = geometry(_GPU)
    found: dict[str, Any] = {}
    for devices in _SIZES:
        wanted = [sample(table, devices, seed) for seed in seeds]
        best = [optimum(table, devices, Counter(one)) for one in wanted]
        ways: dict[str, Callable[[Sequence[int]], int]] = {
            "batch": partial(_batch, table, devices),
            **{f"one by one, {name}": partial(_one_by_one, table, devices, name) for name in _RIVALS},
        }
        if devices == min(_SIZES):
            ways["one by one, order known"] = partial(order_known, table, devices)
        for name, way in ways.items():
            gaps = [100.0 * (most - way(one)) / most for most, one in zip(best, wanted, strict=True)]
            found[f"gap to exact on {devices} devices, {name}, %"] = round(float(np.mean(gaps)), 3)
    return found


def sample(table: Geometry, devices: int, seed: int) -> list[int]:
    """Profiles drawn until their slots are as many as the devices have."""
    rng = np.random.default_rng(seed)
    weights = np.array([_WEIGHTS.get(profile.name, 0.0) for profile in table.profiles])
    wanted: list[int] = []
    while sum(table.profiles[index].slots for index in wanted) < 8 * devices:
        wanted.append(int(rng.choice(weights.size, p=weights / weights.sum())))
    return wanted


def _batch(table: Geometry, devices: int, wanted: Sequence[int]) -> int:
    """Slots held by ours: the whole list is known, so it is its own demand mix, and the largest come first."""
    order = sorted(wanted, key=lambda i: (-table.profiles[i].slots, -table.profiles[i].compute_slices, i))
    asks = [_ask(table, index) for index in order]
    seats = _grid(table, devices, "dure", _mix_of(asks)).seat_all(asks)
    return sum(table.profiles[i].slots for i, seat in zip(order, seats, strict=True) if seat is not None)


def _one_by_one(table: Geometry, devices: int, policy: str, wanted: Sequence[int]) -> int:
    """Slots held by a policy as the slices come. Ours learns the mix meanwhile, FGD knows it."""
    asks = [_ask(table, index) for index in wanted]
    grid = _grid(table, devices, policy, {"dure": None, "fgd": _mix_of(asks)}.get(policy, Mix()))
    held = 0
    for ask, index in zip(asks, wanted, strict=True):
        seat = first_fit(grid, ask) if policy == "firstfit" else grid.seat(ask)
        held += table.profiles[index].slots if seat is not None else 0
        if policy == "dure":
            grid.arrived([ask])
    return held


def _grid(table: Geometry, devices: int, policy: str, mix: Mix | None) -> Grid:
    part = Part(mem=80 * 1024, bw=1000, home=CUT, modes=1 << CUT)
    hosts = [Host(1 << 20, 1 << 20, 0, (part,))] * devices
    starts = lowest_steps(table) if policy in ("firstfit", "bestfit") else steps(table)
    hardware = Hardware((devices,), 1, 1 << 20, steps=(starts,), slots=(8,), geometries=(table,))
    return Grid(hosts, hardware, _RIVALS[policy], mix)


def _ask(table: Geometry, index: int) -> Ask:
    return slice_ask(0, 0, index, table.profiles[index].slots * 125, 1)


def _mix_of(asks: Sequence[Ask]) -> Mix:
    mix = Mix()
    for ask in asks:
        mix.add(ask.shape)
    return mix


def order_known(table: Geometry, devices: int, wanted: Sequence[int]) -> int:
    """Most slots held by anybody who seats the slices in this order and refuses none that fits: all states that any
    choices lead to, devices in any order being the same."""
    states = {(0,) * devices}
    for index in wanted:
        width, profile = (1 << table.profiles[index].slots) - 1, table.profiles[index]
        ahead: set[tuple[int, ...]] = set()
        for state in states:
            beside = {
                tuple(sorted((*state[:at], mask | width << start, *state[at + 1 :])))
                for at, mask in enumerate(state)
                for start in free_starts(profile, mask)
            }
            ahead |= beside or {state}
        states = ahead
    return max(sum(mask.bit_count() for mask in state) for state in states)


def optimum(table: Geometry, devices: int, demand: Counter[int]) -> int:
    """Most slots that these slices can hold: how many devices take each maximal multiset of profiles."""
    names = [profile.name for profile in table.profiles]
    patterns = {
        tuple(Counter(name for name, _ in layout).get(name, 0) for name in names) for layout in layouts(table)
    }
    ranked = sorted(patterns)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
    none = (np.array([], np.int32), np.array([], np.float64))
    highs.addRow(-highspy.kHighsInf, float(devices), 0, *none)
    for _ in names:
        highs.addRow(-highspy.kHighsInf, 0.0, 0, *none)
    for i, profile in enumerate(table.profiles):
        highs.addCol(float(profile.slots), 0.0, float(demand.get(i, 0)), 1, np.array([1 + i], np.int32), np.ones(1))
    for pattern in ranked:
        rows = [0, *(1 + i for i, count in enumerate(pattern) if count)]
        weights = [1.0, *(-float(count) for count in pattern if count)]
        highs.addCol(0.0, 0.0, float(devices), len(rows), np.array(rows, np.int32), np.array(weights))
    for column in range(highs.getNumCol()):
        highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    highs.run()
    best: float = highs.getObjectiveValue()
    return round(best)
