"""The sharing benchmarks as a user calls them: one JSON object, clear refusals, files plain and gzipped."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dure.bench import share as share_bench
from dure.bench.device import SIZES
from dure.bench.device import summarise as device_summary
from dure.bench.interference import command as interference
from dure.cli.root import run

HEAD = (
    "model_a,model_b,batch_a,batch_b,sm_percent_a,sm_percent_b,latency_a_ms,latency_b_ms,std_a_ms,std_b_ms,"
    "solo_latency_a_ms,solo_latency_b_ms\n"
)


def pairs(rows: int, start: int = 0) -> str:
    """Synthetic pairs that obey equation 1 with rho 0.1 for x and 0.2 for y."""
    lines = []
    for i in range(start, start + rows):
        own = (20, 40, 50, 60, 80)[i % 5]
        phi = (4 * own / 100 * (1 - own / 100)) ** 0.3
        solo = 1.0 + 0.37 * (i % 7)
        lines.append(
            f"x,y,8,8,{own},{100 - own},{solo / (1 - 0.1 * phi)},{2 * solo / (1 - 0.2 * phi)},0,0,{solo},{2 * solo}\n"
        )
    return HEAD + "".join(lines)


def invoke(*args: str) -> dict[str, Any]:
    done = CliRunner().invoke(interference, list(args))
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_pairs_that_obey_equation_1_are_foretold_exactly(tmp_path: Path) -> None:
    known, other = tmp_path / "known.csv", tmp_path / "other.csv.gz"
    known.write_text(pairs(40))
    other.write_bytes(gzip.compress(pairs(20, 40).encode()))
    found = invoke("--pairs", str(known), "--holdout", str(other), "--json")
    assert found["bench"] == "interference"
    assert found["summary"]["p90_pct"] < 0.5
    assert found["summary"]["p90_pct"] < found["summary"]["neighbour_share_p90_pct"]
    assert {row["policy"] for row in found["rows"]} == {"phi", "constant", "neighbour-share", "none"}


def test_without_a_holdout_rows_are_held_out_at_random_but_the_same_each_time(tmp_path: Path) -> None:
    known = tmp_path / "known.csv"
    known.write_text(pairs(40))
    assert invoke("--pairs", str(known), "--json") == invoke("--pairs", str(known), "--json")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEAD, "fewer than two pairs"),
        ("a,b\n1,2\n3,4\n", "column 'latency_a_ms' is missing"),
        (HEAD + "x,y,8,8,50,50,zero,1,0,0,1,1\n", "pairs.csv:2"),
        (HEAD + "x,y,8,8,50,50,0,1,0,0,1,1\n", "above zero"),
    ],
)
def test_a_wrong_pair_file_is_refused_with_its_place(
    tmp_path: Path, text: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(text)
    assert run(["bench", "interference", "--pairs", str(path)]) == 2
    assert complaint in capsys.readouterr().err


def test_a_report_page_is_written(tmp_path: Path) -> None:
    known, page = tmp_path / "known.csv", tmp_path / "page.html"
    known.write_text(pairs(20))
    invoke("--pairs", str(known), "--json", "--report", str(page))
    assert "Latency error on held-out pairs" in page.read_text()


def test_finished_cells_are_taken_from_the_resume_file(tmp_path: Path) -> None:
    calls = []

    def measure() -> dict[str, Any]:
        calls.append(1)
        return {"experiment": "pair", "policy": "jct", "input": "x", "seed": 0}

    file = tmp_path / "cells.jsonl"
    first = share_bench.run([("one", measure)], file)
    assert share_bench.run([("one", measure), ("two", measure)], file) == first * 2
    assert len(calls) == 2


def cell(policy: str, mean: float, missed: float) -> dict[str, Any]:
    return {
        "experiment": "crowd", "policy": policy, "input": "4xR50", "seed": 0, "mean_ms": mean, "missed": missed,
        "p99_over_target": 1.0, "worst_over_target": 1.0,
    }  # fmt: skip


def test_our_policy_is_held_against_the_better_reading_of_bless() -> None:
    rows = [cell("BLESS-L", 20.0, 0.5), cell("BLESS-R", 25.0, 0.25), cell("slack-guarded", 18.0, 0.0)]
    found = share_bench._against(share_bench._means(rows, "crowd"), "slack-guarded")
    assert found["latency_pct"] == -10.0
    assert found["bless_missed_pct"] == 25.0


def test_device_ratios_are_squads_over_the_others() -> None:
    rows = [
        {
            "policy": p,
            "mean_ms": m,
            "p99_ms": m,
            "p99_over_promise": m / 8,
            "late": 0.25,
            "idle_while_runnable": 0.1,
            "requests_per_s": 1 / m,
            "outputs_equal": True,
            "scheduler_us_per_segment": 3.0,
        }
        for p, m in (("squads", 1.0), ("threads", 2.0), ("turns", 4.0))
    ]
    found = device_summary(rows)
    assert found["mean_ms_vs_threads"] == 0.5
    assert found["p99_over_promise_vs_turns"] == 0.25
    assert found["late_pct"] == {"squads": 25.0, "threads": 25.0, "turns": 25.0}
    assert found["idle_while_runnable_pct"] == 10.0
    assert found["requests_per_s_vs_turns"] == 4.0
    assert found["outputs_equal"] is True
    assert found["tenants"] == []


def test_each_model_has_its_own_figures_under_each_way_of_running() -> None:
    size = {name: load.fills for name, load in SIZES["large"].items()}
    assert sum(size.values()) == 1, "one model is never idle, the others have pauses"
    rows = [
        dict.fromkeys(("mean_ms", "p99_ms", "p99_over_promise", "requests_per_s", "late"), 1.0)
        | {"policy": policy, "idle_while_runnable": 0.0, "scheduler_us_per_segment": 1.0, "outputs_equal": True}
        | {"a late": late, "a p99_over_promise": 2.0, "a requests_per_s": 30.0}
        for policy in ("squads", "threads", "turns")
        for late in (0.1, 0.2, 0.6)
    ]
    found = device_summary(rows)["tenants"]
    assert [one["policy"] for one in found] == ["squads", "threads", "turns"]
    assert found[0] == {
        "tenant": "a",
        "policy": "squads",
        "late": 0.2,
        "p99_over_promise": 2.0,
        "requests_per_s": 30.0,
    }
