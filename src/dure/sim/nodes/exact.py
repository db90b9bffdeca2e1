"""The provisioning problem as an integer programme on HiGHS: the yardstick for small cases.

Variables: how many pods of a group sit on the k-th node of an offer, and whether that node is bought. Only the
benchmark calls it; with more than about twenty pods it is slow. Symmetric nodes are ordered to help the solver.
"""

from __future__ import annotations

import highspy
import msgspec
import numpy as np

from dure.scale.nodes.state import Pod, Pool, accepts, usable


class Exact(msgspec.Struct, frozen=True):
    """The price found, the proven lower bound, and whether both meet."""

    price: float
    bound: float
    proven: bool


def cheapest_cover(pods: tuple[Pod, ...], pools: tuple[Pool, ...], seconds: float) -> Exact:
    """Minimise the hourly price of new nodes that hold all pods."""
    shapes: dict[tuple[object, ...], list[Pod]] = {}
    for pod in pods:
        shapes.setdefault((pod.size, pod.classes, pod.zones, pod.spot_ok), []).append(pod)
    groups = list(shapes.values())
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", seconds)
    solver.setOptionValue("threads", 1)
    columns = _columns(solver, groups, pools)
    _rows(solver, groups, columns)
    solver.run()
    info = solver.getInfo()
    proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Exact(float(info.objective_function_value), float(info.mip_dual_bound), proven)


class _Slot(msgspec.Struct):
    """One node that may be bought: its column, the groups' columns, its room."""

    bought: int
    counts: dict[int, int]
    room: tuple[int, int, int]
    twin: int


def _columns(solver: highspy.Highs, groups: list[list[Pod]], pools: tuple[Pool, ...]) -> list[_Slot]:
    slots: list[_Slot] = []
    column = 0
    for pool in pools:
        for offer in pool.offers:
            room = usable(offer, pool)
            fitting = [
                index
                for index, group in enumerate(groups)
                if accepts(group[0], offer) and all(p <= r for p, r in zip(group[0].size, room, strict=True))
            ]
            if not fitting:
                continue
            twin = -1
            for _ in range(_most(groups, fitting, room)):
                solver.addVar(0.0, 1.0)
                solver.changeColCost(column, float(offer.price))
                slot = _Slot(column, {}, room, twin)
                twin = column
                column += 1
                for index in fitting:
                    solver.addVar(0.0, float(len(groups[index])))
                    slot.counts[index] = column
                    column += 1
                slots.append(slot)
    kinds = np.full(column, highspy.HighsVarType.kInteger)
    solver.changeColsIntegrality(column, np.arange(column, dtype=np.int32), kinds)
    return slots


def _most(groups: list[list[Pod]], fitting: list[int], room: tuple[int, int, int]) -> int:
    """Enough nodes of one offer: twice what the largest resource demands, at most one for each pod."""
    pods = sum(len(groups[index]) for index in fitting)
    shares = [
        sum(len(groups[index]) * groups[index][0].size[axis] for index in fitting) / room[axis]
        for axis in range(3)
        if room[axis] > 0
    ]
    return max(1, min(pods, int(2 * max(shares)) + 1))


def _rows(solver: highspy.Highs, groups: list[list[Pod]], slots: list[_Slot]) -> None:
    for index, group in enumerate(groups):
        on = [slot.counts[index] for slot in slots if index in slot.counts]
        _row(solver, float(len(group)), float(len(group)), [(column, 1.0) for column in on])
    for slot in slots:
        for axis in range(3):
            terms = [(column, float(groups[index][0].size[axis])) for index, column in slot.counts.items()]
            _row(solver, -highspy.kHighsInf, 0.0, [*terms, (slot.bought, -float(slot.room[axis]))])
        if slot.twin >= 0:
            _row(solver, -highspy.kHighsInf, 0.0, [(slot.bought, 1.0), (slot.twin, -1.0)])


def _row(solver: highspy.Highs, low: float, high: float, terms: list[tuple[int, float]]) -> None:
    index = np.array([column for column, _ in terms], dtype=np.int32)
    value = np.array([factor for _, factor in terms])
    solver.addRow(low, high, len(terms), index, value)
