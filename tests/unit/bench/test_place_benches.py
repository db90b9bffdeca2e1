"""The placement benchmarks: rows have the promised columns, ours beats first-come, nobody breaks a rule."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dure.bench import gap, place
from dure.bench.data import data_dir
from dure.bench.demand import Shape, gap_instance
from dure.bench.place_floor import Bound, in_time, least_grams
from dure.bench.place_ours import jointly
from dure.bench.place_summary import figures, summary
from dure.bench.place_world import World
from dure.bench.replay import Fleet, Jobs, Outcome, by_rule, outcome
from dure.bench.result import Row
from dure.model.errors import InvalidInput
from dure.place.instance import broken
from dure.place.settings import PlaceSettings
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
    ours = jointly(jobs, fleet, 0.0, PlaceSettings(), 1)
    rule = by_rule(jobs, fleet, lambda _, __, earliest, ___: int(np.argmin(earliest)))
    assert ours.missed == 0
    assert ours.money < rule.money


@needs_data
def test_place_prints_a_row_per_policy_and_the_floor_under_all_that_keep_their_deadlines() -> None:
    args = [
        "--trace",
        "pai",
        "--places",
        "six",
        "--prices",
        "spot",
        "--use",
        "0.3",
        "--jobs",
        "120",
        "--seeds",
        "1",
        "--json",
    ]
    run = CliRunner().invoke(place.command, args)
    assert run.exit_code == 0, run.output
    rows = json.loads(run.stdout)["rows"]
    floor = next(row["money"] for row in rows if row["policy"] == "floor")
    punctual = [row for row in rows if row.get("missed_pct") == 0 and row["policy"] != "ours+moves"]
    assert punctual
    assert all(row["money"] >= floor * (1 - 1e-9) for row in punctual)
    [moved] = [row for row in rows if row["policy"] == "in-time+moves"]
    assert moved["moving_ratio"] >= 1 - 1e-9, "the floor of plans that may move is under ours with moves"
    assert {row["policy"] for row in rows if row.get("moves") or row.get("pauses")} <= {"ours+moves"}


@needs_data
def test_place_goes_on_from_the_cells_it_has_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ["--trace", "pai", "--places", "dirty", "--prices", "spot", "--use", "0.3", "--jobs", "60", "--seeds", "1"]
    kept = tmp_path / "cells.jsonl"
    first = CliRunner().invoke(place.command, [*args, "--resume", str(kept), "--json"])
    assert first.exit_code == 0, first.output
    monkeypatch.setattr(place, "cells", lambda *_: pytest.fail("a finished cell was measured again"))
    again = CliRunner().invoke(place.command, [*args, "--resume", str(kept), "--json"])
    assert json.loads(again.stdout) == json.loads(first.stdout)


@needs_data
def test_no_plan_of_ours_goes_under_the_floor_of_money_and_carbon() -> None:
    world = World("pai", "dirty", "spot", 0.6, "1.5x", 2, 120)
    rows = place.cells(world, 20, moves=False)
    assert not any("moves" in str(row["policy"]) for row in rows)
    fence = [Bound(int(row["usd_per_t"]), float(row["money"])) for row in rows if row["policy"] == "floor"]  # type: ignore[arg-type]
    punctual = [row for row in rows if row.get("missed_pct") == 0]
    assert punctual
    for row in punctual:
        assert float(row["co2_kg"]) * 1000 >= least_grams(fence, float(row["money"])) * (1 - 1e-9)  # type: ignore[arg-type]


def plan_of(money: float) -> Outcome:
    """One job that costs so much."""
    job = Jobs(*np.array([[0], [1], [1], [0]]))
    return outcome(job, Fleet(np.array([[money, 0.0]]), np.ones((1, 2)), 1), np.array([0]), np.array([0]))


def test_the_front_is_asked_for_more_closely_around_the_limit() -> None:
    asked: list[int] = []

    def paid(usd_per_t: int) -> Outcome:
        asked.append(usd_per_t)
        return plan_of(100.0 + usd_per_t / 100)

    place.front(paid, limit=110.0)
    near = [usd for usd in asked if usd not in place.CARBON_USD_PER_T]
    assert min(abs(usd - 1000) for usd in near) < 50


def test_where_money_rises_steeply_the_front_is_followed_until_next_to_nothing_is_left_to_spend() -> None:
    """All of what the carbon price does to the money it does between 1,700 and 2,300 USD/t."""
    found: list[float] = []

    def paid(usd_per_t: int) -> Outcome:
        found.append(100.0 + min(max(0.0, usd_per_t - 1700.0), 600.0) / 10)
        return plan_of(found[-1])

    place.front(paid, limit=130.0)
    assert max(money for money in found if money <= 130.0) > 129.0
    asked = len(found)
    place.front(paid, limit=100.1)
    assert len(found) - asked == len(place.CARBON_USD_PER_T), "who has spent it all looks no further"


def test_a_plan_that_is_late_somewhere_is_held_against_the_floor_of_those_it_serves_in_time() -> None:
    jobs = Jobs(np.zeros(3, np.int64), np.full(3, 2), np.ones(3, np.int64), np.array([0, 0, 4]))
    price = np.array([[1.0] * 20, [3.0] * 20])
    plan = outcome(jobs, Fleet(price, np.ones_like(price), 1), np.array([0, 0, 1]), np.array([0, 2, 0]))
    assert plan.missed == 1
    found = in_time(jobs, Fleet(price, np.ones_like(price), 1), plan)
    # The first pays 2 and the last 6; without the one that is late both fit into the cheap region.
    assert found.money == pytest.approx(8.0)
    assert found.floor == pytest.approx(4.0)


def test_the_summary_takes_the_floor_of_those_in_time_where_there_is_one() -> None:
    rows = [point("fixed-order", 100, 100), point("lowest-price", 80, 90), point("ours", 79, 91, 1.0),
            point("floor", 75, 0), point("floor", 80, 0, usd_per_t=100)]  # fmt: skip
    late = {**point("in-time", 70, 0), "money_ratio": 1.04}
    assert summary([*rows, late])["cells"][0]["above_floor_pct"] == 4.0
    assert summary(rows)["cells"][0]["above_floor_pct"] == pytest.approx(5.33)


def test_plans_with_moves_have_a_line_and_bars_of_their_own() -> None:
    rows = [point("fixed-order", 100, 100), point("lowest-price", 80, 90), point("ours", 79, 91),
            point("floor", 75, 0), point("floor", 80, 0, usd_per_t=100)]  # fmt: skip
    moved = {**point("ours+moves", 76, 85), "moves": 3, "pauses": 4}
    ratios = {**point("in-time+moves", 76, 0), "money_ratio": 76 / 75, "moving_ratio": 1.1}
    found = summary([*rows, moved, ratios])
    still, moving = found["cells"]
    assert (still["policy"], moving["policy"]) == ("ours", "ours+moves")
    assert (moving["above_floor_pct"], moving["above_moving_floor_pct"], moving["interrupted"]) == (1.33, 10.0, 7.0)
    assert still["above_floor_pct"] == 5.33
    assert found["bars"]["within 5 % of the floor"] == "0 of 1 cells"
    assert found["bars"]["within 5 % of the floor, with moves"] == "1 of 1 cells"


def point(policy: str, money: float, co2_kg: float, missed_pct: float = 0.0, usd_per_t: int = 0) -> Row:
    kind: Row = {"trace": "pai", "places": "dirty", "prices": "spot", "use": 0.3, "slack": "1.5x", "seed": 1}
    ratios = {"jobs": 1, "money_ratio": money / 100, "co2_ratio": co2_kg / 100}
    return {**kind, "policy": policy, "usd_per_t": usd_per_t, "money": money, "co2_kg": co2_kg,
            "missed_pct": missed_pct, **ratios}  # fmt: skip


def test_the_summary_names_a_rule_that_dominates_and_counts_the_bars() -> None:
    rows = [
        point("fixed-order", 100, 100), point("lowest-price", 80, 90), point("ours", 79, 91),
        point("ours", 80.5, 70, usd_per_t=100), point("floor", 75, 0), point("floor", 80, 0, usd_per_t=100),
    ]  # fmt: skip
    good = summary(rows)
    assert good["cells"][0]["dominated_by"] == "nobody"
    assert good["cells"][0]["co2_saved_pct"] == pytest.approx(22.2)
    assert set(good["bars"].values()) == {"0 of 1 cells", "1 of 1 cells"}
    assert good["bars"]["within 5 % of the floor"] == "0 of 1 cells"
    bad = summary([*rows, point("round-robin", 78, 60)])
    assert bad["cells"][0]["dominated_by"] == "round-robin over 0 USD/t; round-robin over 100 USD/t"


def test_a_bar_is_not_met_by_rounding() -> None:
    def saving(kg: float) -> str:
        rows = [point("fixed-order", 100, 100), point("lowest-price", 80, 100), point("ours", 79, 100 - kg),
                point("floor", 75, 0), point("floor", 80, 0, usd_per_t=100)]  # fmt: skip
        found = summary(rows)
        assert found["cells"][0]["co2_saved_pct"] == 12.0
        return str(found["bars"]["12 % less CO2 at lowest price + 1 % (dirty)"])

    assert (saving(11.98), saving(12.01)) == ("0 of 1 cells", "1 of 1 cells")


def test_the_plot_draws_the_front_through_plans_that_none_beats_and_hollows_out_rules_that_are_later() -> None:
    rows = [
        point("fixed-order", 100, 100), point("lowest-price", 80, 90, 2.0), point("home-only", 60, 60, 50.0),
        point("ours", 78, 91), point("ours", 79, 95, usd_per_t=50), point("ours", 81, 70, usd_per_t=100),
        point("floor", 75, 0), point("floor", 80, 0, usd_per_t=100),
    ]  # fmt: skip
    [figure] = figures(rows)
    beaten, front, rules = figure.data[:3]
    assert (beaten.mode, list(beaten.x)) == ("markers", [0.79])
    assert (front.mode, list(front.x), list(front.y)) == ("lines+markers", [0.78, 0.81], [0.91, 0.7])
    assert front.hovertext[1] == "ours at 100 USD/t: money 0.810, CO2 0.700, 0.0 % missed"
    shown = dict(zip(rules.text, rules.marker.symbol, strict=True))
    assert shown == {"fixed-order": "diamond", "lowest-price": "diamond", "home-only": "diamond-open"}


@needs_data
@pytest.mark.parametrize("prices", ["on-demand", "spot", "owned"])
def test_gap_knows_each_kind_of_prices_by_its_name(prices: str) -> None:
    args = ["--jobs", "10", "--regions", "2", "--hours", "24", "--seeds", "3", "--iterations", "5"]
    run = CliRunner().invoke(gap.command, [*args, "--bound-seconds", "0", "--prices", prices, "--json"])
    assert run.exit_code == 0, run.output
    assert {row["prices"] for row in json.loads(run.stdout)["rows"]} == {prices}
