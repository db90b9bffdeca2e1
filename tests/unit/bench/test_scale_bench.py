"""The scaling benchmark as a user calls it: one JSON object, the same way for everybody, resumed where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dure.bench.data import data_file
from dure.bench.result import Row
from dure.bench.scale import command as scale
from dure.bench.scale_shared import SHARED, shared_cells
from dure.bench.scale_summary import figures, summarise
from dure.bench.streams import AZURE
from dure.model.errors import NotFound

SHORT = ("--scenarios", "conv-150", "--hours", "0.1", "--quick", "--json")


def called(*args: str) -> Result:
    try:
        data_file(AZURE["conv"])
    except NotFound as missing:
        pytest.skip(str(missing))
    done = CliRunner().invoke(scale, [*SHORT, *args])
    assert done.exit_code == 0, done.output
    return done


def test_everyone_goes_the_same_way_and_a_second_call_plays_nothing_again(tmp_path: Path) -> None:
    kept = tmp_path / "cells.jsonl"
    first = called("--front", "--resume", str(kept))
    played = kept.read_text()
    found: dict[str, Any] = json.loads(first.stdout)
    assert {(row["router"], row["order"]) for row in found["rows"]} == {("tokens", "fewest-late")}
    assert {"oracle", "hpa", "keda", "dure"} <= {row["policy"] for row in found["rows"]}
    assert found["summary"]["conv-150 seed 101"]["best_threshold"] > 0
    assert called("--front", "--resume", str(kept)).stdout == first.stdout
    assert kept.read_text() == played


def row(policy: str, gpu_hours: float, miss_rate: float) -> dict[str, Any]:
    return {
        "input": "conv-150", "seed": 1, "policy": policy, "signal": "rate", "knob": 1.0, "router": "requests",
        "order": "arrival", "gpu_hours": gpu_hours, "miss_rate": miss_rate,
    }  # fmt: skip


def test_at_equal_hours_misses_are_compared_and_the_gap_to_the_oracle_is_told() -> None:
    rows = [row("keda", 10.0, 0.02), row("keda", 20.0, 0.002), row("dure", 10.0, 0.01), row("oracle", 10.0, 0.0)]
    told = summarise(rows, ("requests", "arrival"))["conv-150 seed 1"]
    assert (told["gpu_hours"], told["dure_to_best"], told["gap_closed"]) == (
        pytest.approx(10.0), pytest.approx(0.5), pytest.approx(0.5),
    )  # fmt: skip


def test_each_seed_has_a_plot_of_its_own_because_it_is_another_stream() -> None:
    rows: list[Row] = [{**row("dure", 10.0 + seed, 0.01), "seed": seed} for seed in (1, 2)]
    way = (str(rows[0]["router"]), str(rows[0]["order"]))
    assert [[curve.x for curve in plot.data] for plot in figures(rows, way)] == [[(11.0,)], [(12.0,)]]
    assert figures(rows, ("nobody", "went")) == []


def test_no_gap_is_told_where_the_oracle_was_not_played_at_that_cost() -> None:
    rows = [row("keda", 10.0, 0.02), row("dure", 10.0, 0.01), row("oracle", 50.0, 0.0)]
    assert summarise(rows, ("requests", "arrival"))["conv-150 seed 1"]["gap_closed"] is None


def test_the_worth_of_an_order_is_told_at_the_same_threshold() -> None:
    rows = [row("keda", 10.0, 0.02), row("dure", 9.0, 0.01), row("keda", 10.0, 0.005) | {"order": "fewest-late"}]
    told = summarise(rows, ("requests", "arrival"))["conv-150 seed 1, router and order"]
    assert told == {"requests + arrival": 0.02, "requests + fewest-late": 0.005}


def together(policy: str, knob: float, parts: list[tuple[float, int]]) -> dict[str, Any]:
    hours, misses = sum(part[0] for part in parts), sum(part[1] for part in parts)
    each = {
        f"{name}_{what}": value
        for name, part in zip(("conv", "code", "conv-2"), parts, strict=True)
        for what, value in zip(("gpu_hours", "misses"), part, strict=True)
    }
    return row(policy, hours, misses / 1000) | {"input": "shared-150", "knob": knob, "requests": 1000, **each}


def test_shared_machines_are_held_against_the_best_threshold_of_each_service() -> None:
    rows = [
        together("keda", 1.0, [(4.0, 10), (1.0, 500), (4.0, 5)]),
        together("keda", 0.5, [(8.0, 9), (2.0, 5), (8.0, 4)]),
        together("dure", 1.0, [(3.0, 10), (3.0, 5), (3.0, 5)]),
        together("dure-warm-pool", 1.0, [(3.0, 2), (3.0, 1), (3.0, 1)]),
        together("dure-asleep-pool", 1.0, [(3.0, 1), (3.0, 1), (3.0, 0)]),
    ]
    told = summarise(rows, ("requests", "arrival"))["shared-150 seed 1"]
    assert told["to_best_thresholds"]["gpu_hours"] == pytest.approx(10.0)
    assert told["to_best_thresholds"]["warm_pool_to_without"] == pytest.approx(0.2)
    assert told["to_alone"]["gpu_hours"] == pytest.approx(9.0)
    assert told["to_alone"]["warm_pool_to_without"] == pytest.approx(0.2)
    assert told["to_alone"]["asleep_pool_to_without"] == pytest.approx(0.1)


def test_both_ways_to_share_machines_are_played_with_the_same_care() -> None:
    cells = shared_cells(("tokens", "fewest-late"))
    knobs = {policy: [cell.knob for cell in cells if cell.policy == policy] for policy in ("dure", *SHARED)}
    assert knobs["dure-warm-pool"] == knobs["dure-asleep-pool"] == knobs["dure"] != []
