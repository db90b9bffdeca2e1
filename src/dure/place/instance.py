"""The numeric form of one placement problem: jobs, their options, and what the options draw on.

Built by `options` from a Snapshot and by the gap benchmark from synthetic demand; read by every solver.
An *option* is one way to run a job (rows it draws on, start hour, length, cost). A *row* is anything with a
capacity per hour: a pool, or a tenant's quota in a class. A *ledger* is a budget that only shrinks: money or
grams of a tenant and month. Invariant: the options of a job are contiguous and the arrays are never written
to after construction.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.model.errors import InvalidInput

# Columns of `Instance.option`.
ROW, QUOTA, START, LENGTH, NEED = range(5)
NONE = -1
HELD = -1

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Instance(msgspec.Struct, frozen=True):
    """Jobs x options over rows x hours x resources.

    `first[j] : first[j + 1]` are the options of job j. `option[o]` is (row, quota row or -1, start hour, hours,
    index into `need`); `need[n]` the units taken of each resource; `capacity[row, hour, resource]` what there is.
    `cost[o]` steers the choice; `hold[j]` is the cost of not placing j now. `ledger[j]` is the budget pair of j's
    tenant or -1, `drain[o]` what the option takes of (money, grams), `left[ledger]` what is left of them.
    """

    first: Longs
    option: Ints
    cost: Floats
    hold: Floats
    need: Ints
    capacity: Ints
    ledger: Ints
    drain: Floats
    left: Floats

    @property
    def jobs(self) -> int:
        return len(self.hold)

    @property
    def options(self) -> int:
        return len(self.cost)

    @property
    def hours(self) -> int:
        return int(self.capacity.shape[1])


def instance(
    first: Longs,
    option: Ints,
    cost: Floats,
    hold: Floats,
    need: Ints,
    capacity: Ints,
    ledger: Ints | None = None,
    drain: Floats | None = None,
    left: Floats | None = None,
) -> Instance:
    """Checked constructor: shapes agree, indices are in range, costs are finite."""
    jobs, options = len(hold), len(cost)
    if ledger is None or drain is None or left is None:
        ledger = np.full(jobs, NONE, np.int32)
        drain = np.zeros((options, 2))
        left = np.zeros((0, 2))
    made = Instance(
        np.ascontiguousarray(first, np.int64),
        np.ascontiguousarray(option, np.int32).reshape(options, 5),
        np.ascontiguousarray(cost, np.float64),
        np.ascontiguousarray(hold, np.float64),
        np.ascontiguousarray(need, np.int32),
        np.ascontiguousarray(capacity, np.int32),
        np.ascontiguousarray(ledger, np.int32),
        np.ascontiguousarray(drain, np.float64).reshape(options, 2),
        np.ascontiguousarray(left, np.float64).reshape(-1, 2),
    )
    _check(made)
    return made


def _check(inst: Instance) -> None:
    if len(inst.first) != inst.jobs + 1 or inst.first[0] != 0 or inst.first[-1] != inst.options:
        raise InvalidInput("placement instance: `first` must run from 0 to the number of options")
    if np.any(np.diff(inst.first) < 0):
        raise InvalidInput("placement instance: `first` must not decrease")
    if not (np.isfinite(inst.cost).all() and np.isfinite(inst.hold).all()):
        raise InvalidInput("placement instance: costs must be finite; leave an impossible option out instead")
    if inst.options == 0:
        return
    rows, hours, resources = inst.capacity.shape
    opt = inst.option
    if opt[:, ROW].min() < 0 or opt[:, ROW].max() >= rows or opt[:, QUOTA].max() >= rows:
        raise InvalidInput(f"placement instance: an option names a row outside 0..{rows - 1}")
    ends = opt[:, START].astype(np.int64) + opt[:, LENGTH]
    if opt[:, START].min() < 0 or opt[:, LENGTH].min() < 1 or ends.max() > hours:
        raise InvalidInput(f"placement instance: an option leaves the horizon of {hours} hours")
    if inst.need.ndim != 2 or inst.need.shape[1] != resources:
        raise InvalidInput("placement instance: needs and capacity disagree on the number of resources")


def spread(inst: Instance, choice: Longs) -> Ints:
    """Units in use per row, hour and resource under `choice` (option index per job, -1 for held)."""
    used = np.zeros_like(inst.capacity)
    for o in choice[choice >= 0]:
        row, quota, start, length, need = inst.option[o]
        used[row, start : start + length] += inst.need[need]
        if quota >= 0:
            used[quota, start : start + length] += inst.need[need]
    return used


def alone(inst: Instance) -> Bools:
    """For each option whether it would fit if nobody else were placed. O(needs x rows x hours + options)."""
    option = inst.option
    end = option[:, START] + option[:, LENGTH]
    fits = np.ones(inst.options, bool)
    for number in np.flatnonzero(np.bincount(option[:, NEED])):
        short = (inst.capacity < inst.need[number]).any(axis=2)
        before = np.zeros((short.shape[0], short.shape[1] + 1), np.int64)
        np.cumsum(short, axis=1, out=before[:, 1:])
        mine = option[:, NEED] == number
        for axis in (ROW, QUOTA):
            drawn = mine & (option[:, axis] >= 0)
            row = option[drawn, axis]
            fits[drawn] &= before[row, end[drawn]] == before[row, option[drawn, START]]
    booked = np.repeat(inst.ledger, np.diff(inst.first))
    limited = booked >= 0
    fits[limited] &= (inst.drain[limited] <= inst.left[booked[limited]]).all(axis=1)
    return fits


def total(inst: Instance, choice: Longs) -> float:
    """Cost of `choice`, held jobs included at their hold cost."""
    placed = choice >= 0
    return float(inst.cost[choice[placed]].sum() + inst.hold[~placed].sum())


def broken(inst: Instance, choice: Longs) -> str:
    """Why `choice` is not a solution, or an empty string. The plain twin of what the kernels keep by increments."""
    for j, o in enumerate(choice):
        if o != HELD and not inst.first[j] <= o < inst.first[j + 1]:
            return f"job {j} was given option {o}, which is not its own"
    over = spread(inst, choice) > inst.capacity
    if over.any():
        row, hour, resource = (int(x) for x in np.argwhere(over)[0])
        return f"row {row} is over capacity at hour {hour} in resource {resource}"
    spent = np.zeros_like(inst.left)
    for j, o in enumerate(choice):
        if o >= 0 and inst.ledger[j] >= 0:
            spent[inst.ledger[j]] += inst.drain[o]
    # Sums taken in another order differ in the last bits; one part in 1e9 is far under one unit of any currency.
    if np.any(spent > inst.left * (1 + 1e-9) + 1e-9):
        return f"ledger {int(np.argwhere(spent > inst.left)[0][0])} is overspent"
    return ""
