"""The placement benchmarks: rows have the promised columns, ours beats first-come, nobody breaks a rule."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from dure.bench import gap, place
from dure.bench.data import data_dir
from dure.bench.demand import Shape, gap_instance
from dure.bench.replay import Fleet, Jobs, by_rule, jointly
from dure.model.errors import InvalidInput
from dure.place.instance import broken
from dure.place.solve import solve

pytestmark = pytest.mark.data
needs_data = pytest.mark.skipif(data_dir() is None, reason="needs the public data named by DURE_DATA")

COLUMNS = {
    "jobs",
    "regions",
    "hours",
    "gangs",
    "tight",
    "seed",
    "policy",
    "cost",
    "optimum",
    "bound",
    "gap_pct",
    "jobs_per_s",
}


@needs_data
def test_gap_prints_one_object_whose_rows_have_the_promised_columns() -> None:
    args = ["--jobs", "30", "--regions", "3", "--hours", "48", "--gangs", "--tight", "--seeds", "1..2"]
    run = CliRunner().invoke(gap.command, [*args, "--iterations", "50", "--bound-seconds", "1", "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found["bench"] == "gap"
    assert all(set(row) >= COLUMNS for row in found["rows"])
    by_policy = {row["policy"]: row["cost"] for row in found["rows"] if row["seed"] == 1 and row["prices"] == "owned"}
    assert by_policy["ruin"] <= by_policy["regret"]
    assert all(row["gap_pct"] >= -1e-6 for row in found["rows"])


@needs_data
def test_the_same_seed_makes_the_same_instance_and_a_legal_plan() -> None:
    shape = Shape(60, 4, 48, gangs=True, tight=True)
    one, two = gap_instance(shape, 7), gap_instance(shape, 7)
    assert np.array_equal(one.cost, two.cost)
    assert broken(one, solve(one, seed=7).choice) == ""


@pytest.mark.parametrize("text", ["", "x", "3..1", "-1"])
def test_a_list_of_seeds_that_names_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"Write 1\.\.5"):
        gap.seeds(text)


def test_seeds_are_read_in_all_three_ways() -> None:
    assert (gap.seeds("1..3"), gap.seeds("4"), gap.seeds("2,9")) == ([1, 2, 3], [4], [2, 9])


def small_world() -> tuple[Jobs, Fleet]:
    arrival = np.array([0, 0, 1, 2], np.int64)
    length = np.array([2, 2, 2, 2], np.int64)
    jobs = Jobs(arrival, length, np.ones(4, np.int64), arrival + 6)
    price = np.array([[4.0] * 4 + [1.0] * 40, [3.0] * 44])
    return jobs, Fleet(price, np.ones_like(price), 1)


def test_planning_jointly_waits_for_cheap_slots_and_keeps_every_deadline() -> None:
    jobs, fleet = small_world()
    ours = jointly(jobs, fleet, 0.0, 50, 1)
    rule = by_rule(jobs, fleet, lambda _, __, earliest, ___: int(np.argmin(earliest)))
    assert ours.missed == 0
    assert ours.money < rule.money


@needs_data
def test_place_prints_a_row_per_policy_and_the_floor_under_all_that_keep_their_deadlines() -> None:
    args = ["--trace", "pai", "--places", "six", "--prices", "spot", "--use", "0.3", "--jobs", "120", "--json"]
    run = CliRunner().invoke(place.command, args)
    assert run.exit_code == 0, run.output
    rows = json.loads(run.stdout)["rows"]
    floor = next(row["money"] for row in rows if row["policy"] == "floor")
    punctual = [row for row in rows if row["policy"] != "floor" and row["missed_pct"] == 0]
    assert punctual
    assert all(row["money"] >= floor * (1 - 1e-9) for row in punctual)


@needs_data
@pytest.mark.parametrize("prices", ["on-demand", "spot", "owned"])
def test_gap_knows_each_kind_of_prices_by_its_name(prices: str) -> None:
    args = ["--jobs", "10", "--regions", "2", "--hours", "24", "--seeds", "3", "--iterations", "5"]
    run = CliRunner().invoke(gap.command, [*args, "--bound-seconds", "0", "--prices", prices, "--json"])
    assert run.exit_code == 0, run.output
    assert {row["prices"] for row in json.loads(run.stdout)["rows"]} == {prices}
