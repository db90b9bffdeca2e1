"""How far from the optimum on a few devices: an exact program over all legal MIG layouts, solved by HiGHS.

A device takes one of its legal layouts (as a multiset of profiles); the program maximises the slots held by a list
of slices that is known in full. Ours packs the same list as a batch (largest first), and one by one as it comes: the
second gap is mostly the price of not knowing the future.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import highspy
import numpy as np

from dure.bench.pack_fleet import geometry
from dure.model.accelerator import Geometry
from dure.pack.ask import slice_ask
from dure.pack.codes import CUT
from dure.pack.grid import Grid, Host, Part
from dure.pack.mix import Mix
from dure.pack.slots import layouts, steps
from dure.pack.worth import Hardware

_GPU = "A100-SXM4-80GB"
_SIZES = (4, 8, 16)
_WEIGHTS = {"1g.10gb": 0.35, "1g.20gb": 0.1, "2g.20gb": 0.25, "3g.40gb": 0.2, "4g.40gb": 0.07, "7g.80gb": 0.03}


def exact_gap(seeds: list[int]) -> dict[str, Any]:
    """Gap to the exact optimum in percent, mean over seeds, for 4, 8 and 16 devices."""
    table = geometry(_GPU)
    found: dict[str, Any] = {}
    for devices in _SIZES:
        for name, batch in (("batch", True), ("one by one", False)):
            gaps = [_gap(table, devices, seed, batch) for seed in seeds]
            found[f"gap to exact on {devices} devices, {name}, %"] = round(float(np.mean(gaps)), 3)
    return found


def _gap(table: Geometry, devices: int, seed: int, batch: bool) -> float:
    wanted = sample(table, devices, seed)
    best = optimum(table, devices, Counter(wanted))
    return 100.0 * (best - _ours(table, devices, wanted, batch)) / best


def sample(table: Geometry, devices: int, seed: int) -> list[int]:
    """Profiles drawn until their slots are as many as the devices have."""
    rng = np.random.default_rng(seed)
    weights = np.array([_WEIGHTS.get(profile.name, 0.0) for profile in table.profiles])
    wanted: list[int] = []
    while sum(table.profiles[index].slots for index in wanted) < 8 * devices:
        wanted.append(int(rng.choice(weights.size, p=weights / weights.sum())))
    return wanted


def _ours(table: Geometry, devices: int, wanted: list[int], batch: bool) -> int:
    """A batch is known in full, so it is its own demand mix; one by one the mix is learned as slices come."""
    part = Part(mem=80 * 1024, bw=1000, home=CUT, modes=1 << CUT)
    hosts = [Host(1 << 20, 1 << 20, 0, (part,))] * devices
    hardware = Hardware((devices,), 1, 1 << 20, steps=(steps(table),), slots=(8,), geometries=(table,))
    largest = sorted(wanted, key=lambda i: (-table.profiles[i].slots, -table.profiles[i].compute_slices, i))
    order = largest if batch else wanted
    asks = [slice_ask(0, 0, index, table.profiles[index].slots * 125, 1) for index in order]
    if batch:
        mix = Mix()
        for ask in asks:
            mix.add(ask.shape)
        seats = Grid(hosts, hardware, mix=mix).seat_all(asks)
    else:
        grid = Grid(hosts, hardware)
        seats = []
        for ask in asks:
            seats.append(grid.seat(ask))
            grid.arrived([ask])
    return sum(table.profiles[i].slots for i, seat in zip(order, seats, strict=True) if seat is not None)


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
