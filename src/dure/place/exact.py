"""The exact time-indexed MILP on HiGHS: one binary per option, one row per job and per pool and hour.

Same instance, same constraints as the heuristics. Used for small batches that `few` gives up, by the rolling horizon,
and by the gap benchmark for its proven bounds. Deterministic while the work limit, not the clock, ends it. Not for
thousands of gangs under a short limit: branch and bound then only proves the bound.
"""

from __future__ import annotations

import highspy
import msgspec
import numpy as np

from dure.place.instance import HELD, LENGTH, NEED, QUOTA, ROW, START, Floats, Instance, Longs, total
from dure.place.solver import Limits

DEFAULT = Limits()


class Proof(msgspec.Struct, frozen=True):
    """The best plan found, the proven lower bound on any plan, and whether the two met."""

    choice: Longs
    cost: float
    bound: float
    optimal: bool


def solve_exact(inst: Instance, limits: Limits = DEFAULT, start: Longs | None = None) -> Proof:
    """Branch and bound from `start` (if given); the answer is never dearer than `start`."""
    if inst.jobs == 0:
        return Proof(np.empty(0, np.int64), 0.0, 0.0, True)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", limits.threads)
    solver.setOptionValue("time_limit", float(limits.seconds))
    solver.setOptionValue("mip_max_nodes", int(limits.nodes))
    solver.setOptionValue("mip_rel_gap", limits.gap)
    solver.passModel(_model(inst))
    if start is not None:
        solver.setSolution(_as_solution(inst, start))
    solver.run()
    info = solver.getInfo()
    choice = _as_choice(inst, np.asarray(solver.getSolution().col_value))
    cost = total(inst, choice)
    if start is not None and total(inst, start) < cost:
        choice, cost = start, total(inst, start)
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    bound = min(float(info.mip_dual_bound), cost)
    return Proof(choice, cost, bound, optimal)


def linear_prices(inst: Instance, seconds: float) -> Floats:
    """Congestion prices from the linear relaxation by interior points: what the subgradient ascent climbs towards.

    Whatever comes out, stopped early or not, `prices.bound_at` makes a proof of it.
    """
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", float(seconds))
    solver.setOptionValue("solver", "ipm")
    solver.setOptionValue("run_crossover", "off")
    solver.passModel(_model(inst))
    solver.setOptionValue("solve_relaxation", True)
    solver.run()
    dual = np.asarray(solver.getSolution().row_dual)[inst.jobs :]
    price = np.zeros(inst.capacity.size)
    named = capacity_entries(inst)[4]
    price[named] = np.maximum(0.0, -dual[: len(named)]) if len(dual) else 0.0
    return price.reshape(inst.capacity.shape)


def _model(inst: Instance) -> highspy.HighsLp:
    column, row, value, capacity, _ = capacity_entries(inst)
    ledger_column, ledger_row, ledger_value = ledger_entries(inst)
    jobs, options, rows = inst.jobs, inst.options, len(capacity)
    owner = np.repeat(np.arange(jobs), np.diff(inst.first))
    # Columns: options, then one "held" column per job. Rows: jobs, capacity, ledgers.
    columns = np.concatenate([np.arange(options), options + np.arange(jobs), column, ledger_column])
    lines = np.concatenate([owner, np.arange(jobs), jobs + row, jobs + rows + ledger_row])
    values = np.concatenate([np.ones(options + jobs), value, ledger_value])
    lp = highspy.HighsLp()
    lp.num_col_ = options + jobs
    lp.num_row_ = jobs + rows + 2 * len(inst.left)
    lp.col_cost_ = np.concatenate([inst.cost, inst.hold])
    lp.col_lower_ = np.zeros(lp.num_col_)
    lp.col_upper_ = np.ones(lp.num_col_)
    infinite = np.full(rows + 2 * len(inst.left), -highspy.kHighsInf)
    lp.row_lower_ = np.concatenate([np.ones(jobs), infinite])
    lp.row_upper_ = np.concatenate([np.ones(jobs), capacity, inst.left.ravel()])
    by = np.lexsort((lines, columns))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(columns[by], np.arange(lp.num_col_ + 1))
    lp.a_matrix_.index_ = lines[by]
    lp.a_matrix_.value_ = values[by]
    lp.integrality_ = [highspy.HighsVarType.kInteger] * options + [highspy.HighsVarType.kContinuous] * jobs
    return lp


def capacity_entries(inst: Instance) -> tuple[Longs, Longs, Floats, Floats, Longs]:
    """(column, row, units) of the capacity rows that can bind at all, their right-hand sides, their flat places."""
    rows, hours, resources = inst.capacity.shape
    opt = inst.option.astype(np.int64)
    length = opt[:, LENGTH]
    column = np.repeat(np.arange(inst.options), length)
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    hour = opt[column, START] + within
    parts_column, parts_line, parts_value = [], [], []
    for axis in (ROW, QUOTA):
        drawn = opt[column, axis] >= 0
        for k in range(resources):
            units = inst.need[opt[column, NEED], k].astype(np.float64)
            use = drawn & (units > 0)
            parts_column.append(column[use])
            parts_line.append((opt[column[use], axis] * hours + hour[use]) * resources + k)
            parts_value.append(units[use])
    columns, lines, values = (np.concatenate(p) for p in (parts_column, parts_line, parts_value))
    wanted = np.bincount(lines, weights=values, minlength=rows * hours * resources)
    limit = inst.capacity.ravel().astype(np.float64)
    tight = wanted > limit
    number = np.cumsum(tight) - 1
    kept = tight[lines]
    return columns[kept], number[lines[kept]], values[kept], limit[tight], np.flatnonzero(tight)


def ledger_entries(inst: Instance) -> tuple[Longs, Longs, Floats]:
    owner = np.repeat(inst.ledger, np.diff(inst.first)).astype(np.int64)
    booked = np.flatnonzero(owner >= 0)
    columns = np.concatenate([booked, booked])
    lines = np.concatenate([2 * owner[booked], 2 * owner[booked] + 1])
    return columns, lines, np.concatenate([inst.drain[booked, 0], inst.drain[booked, 1]])


def _as_solution(inst: Instance, choice: Longs) -> highspy.HighsSolution:
    value = np.zeros(inst.options + inst.jobs)
    value[choice[choice >= 0]] = 1.0
    value[inst.options + np.flatnonzero(choice < 0)] = 1.0
    solution = highspy.HighsSolution()
    solution.col_value = value.tolist()
    return solution


def _as_choice(inst: Instance, value: Floats) -> Longs:
    choice = np.full(inst.jobs, HELD, np.int64)
    if len(value):
        owner = np.repeat(np.arange(inst.jobs), np.diff(inst.first))
        taken = np.flatnonzero(value[: inst.options] > 0.5)
        choice[owner[taken]] = taken
    return choice
