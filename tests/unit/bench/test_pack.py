"""The packing benchmark: opponents behave as their papers say, the bound bounds, bad files say where."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dure.bench.pack import command
from dure.bench.pack_bound import bound_pct
from dure.bench.pack_exact import optimum, order_known
from dure.bench.pack_replay import Cell, replay
from dure.bench.pack_rivals import typical_pods
from dure.bench.pack_speed import PlainNumpy
from dure.bench.pack_trace import TraceNode, TracePod, arrival_order, fleet_of, read_nodes, read_pods
from dure.bench.progress import Journal
from dure.model.errors import InvalidInput
from tests.unit.pack.worlds import A100

NODES = [TraceNode(f"n{i}", 96_000, 400_000, 8 if i % 2 else 2, "X" if i % 3 else "Y") for i in range(12)]
PODS = [
    TracePod(f"p{i:03}", 4000 + 1000 * (i % 7), 8192, count, milli, ("Y",) if i % 11 == 0 else ())
    for i, (count, milli) in enumerate([(1, 1000), (1, 810), (1, 460), (2, 1000), (0, 0), (8, 1000), (1, 190)] * 12)
]


def files(folder: Path) -> tuple[Path, Path]:
    nodes, pods = folder / "nodes.csv", folder / "pods.csv"
    nodes.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n"
        + "".join(f"{n.name},{n.cpu_milli},{n.memory_mib},{n.devices},{n.model}\n" for n in NODES)
    )
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        + "".join(f"{p.name},{p.cpu_milli},{p.memory_mib},{p.devices},{p.milli},{'|'.join(p.models)}\n" for p in PODS)
    )
    return nodes, pods


@pytest.mark.parametrize("policy", ["dure", "dure+moves", "fgd", "bestfit", "random"])
def test_no_policy_exceeds_the_bound(policy: str) -> None:
    fleet = fleet_of(NODES)
    cell = replay(policy, fleet, PODS, 7, 1.0, fleet)
    order = arrival_order(PODS, fleet.capacity_milli, 7, 1.0)
    asks = [fleet.ask(PODS[i]) for i in order]
    kept = bound_pct(fleet, asks, cell.kept)
    assert 0 < cell.alloc_pct <= kept + 1e-6
    assert kept <= bound_pct(fleet, asks) + 1e-6
    assert cell.curve[-1] == cell.alloc_pct


def test_our_figure_does_not_depend_on_the_order_of_nodes() -> None:
    fleet = fleet_of(NODES)
    backwards = fleet_of(NODES[::-1])
    one, two = (replay("dure", fleet, PODS, 3, 1.0, seen) for seen in (fleet, backwards))
    assert one.curve == two.curve


def test_compiled_fgd_fills_like_fgd_in_plain_numpy() -> None:
    fleet = fleet_of(NODES)
    plain = PlainNumpy(fleet, *typical_pods(PODS, fleet), fgd=True)
    order = arrival_order(PODS, fleet.capacity_milli, 5, 1.0)
    asks = [fleet.ask(PODS[i]) for i in order]
    held = sum(a.pieces * a.milli for a in asks if plain.place(a.cpu, a.mem, a.pieces, a.milli, a.types) >= 0)
    compiled = replay("fgd", fleet, PODS, 5, 1.0, fleet).alloc_pct
    assert abs(100.0 * held / fleet.capacity_milli - compiled) < 3.0


def test_arrivals_are_the_list_once_and_then_drawn_again() -> None:
    order = arrival_order(PODS, 200_000, 1, 1.0)
    demand = np.array([pod.demand_milli for pod in PODS])
    assert sorted(order[: len(PODS)]) == list(range(len(PODS)))
    assert demand[order].sum() >= 200_000 > demand[order[:-1]].sum()


def test_the_command_prints_one_object_and_goes_on_from_a_file(tmp_path: Path) -> None:
    nodes, pods = files(tmp_path)
    args = ["--pods", str(pods), "--nodes", str(nodes), "--policies", "dure,bestfit", "--seeds", "1..2", "--json"]
    args += ["--resume", str(tmp_path / "cells"), "--shuffle-names"]
    first = CliRunner().invoke(command, args, catch_exceptions=False)
    again = CliRunner().invoke(command, args, catch_exceptions=False)
    answer = json.loads(first.stdout)
    assert answer == json.loads(again.stdout)
    needed = {"list", "policy", "seed", "arrived_pct", "alloc_pct", "frag_pct", "decisions", "seconds"}
    assert needed <= answer["rows"][0].keys()
    assert len(answer["rows"]) == 4


def test_the_report_shows_the_allocation_curve(tmp_path: Path) -> None:
    nodes, pods = files(tmp_path)
    page = tmp_path / "page.html"
    args = ["--pods", str(pods), "--nodes", str(nodes), "--policies", "dure", "--seeds", "1", "--report", str(page)]
    CliRunner().invoke(command, args, catch_exceptions=False)
    assert "demand arrived" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,4,x,1,500\n", "memory_mib"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,4,4,1,1500\n", "1..1000"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "no pods"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,-4,4,1,500\n", "negative"),
    ],
)
def test_a_bad_pod_list_says_what_and_where(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=says):
        read_pods(path)


def test_nodes_without_devices_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\nb,1,1,2,T4\n")
    assert [node.name for node in read_nodes(path)] == ["b"]


def test_a_torn_last_line_of_finished_cells_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "cells"
    cell = Cell(1.0, 2.0, 3.0, 0.0, 5, 0.1, (0.0, 1.0))
    Journal(path, Cell, "s").add("a", cell)
    path.write_bytes(path.read_bytes() + b'{"setting": "s", "ke')
    journal = Journal(path, Cell, "s")
    assert journal.get("a") == cell
    journal.add("b", cell)
    assert Journal(path, Cell, "s").get("b") == cell
    assert Journal(path, Cell, "other").get("a") is None


def test_the_exact_program_knows_that_two_thirds_strand_a_compute_slice() -> None:
    assert optimum(A100, 1, Counter({3: 2})) == 8
    assert optimum(A100, 1, Counter({4: 2})) == 4
    assert optimum(A100, 2, Counter({0: 20})) == 14


def test_who_knows_the_order_refuses_nothing_that_fits_and_chooses_the_best_of_all_seats() -> None:
    """Two small slices before a whole one and two halves: the program would refuse the small ones."""
    assert optimum(A100, 1, Counter({0: 2, 5: 1})) == 8
    assert order_known(A100, 1, [0, 0, 5]) == 2
    assert order_known(A100, 2, [0, 0, 5]) == 10, "both on one device"
    assert order_known(A100, 1, [3, 4]) == 8, "the half goes where the other can begin"
    assert order_known(A100, 1, [4, 4, 0]) == 5


def test_a_model_that_is_named_twice_is_one_model(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1000,512,1,1000,b|c|c\n")
    [pod] = read_pods(path)
    assert pod.models == ("b", "c")
    fleet = fleet_of([TraceNode(name, 8000, 4096, 1, name) for name in "abc"])
    assert fleet.ask(pod).types == 0b110
