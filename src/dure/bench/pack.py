"""`dure bench pack`: how full a cluster gets before demand is refused, against FGD, best fit and random.

Arrival-only replay as in the FGD study (ATC'23): pods of a list in an order shuffled by the seed, more drawn with
replacement if the list is too small; they never leave; the reading is the share of devices allocated when the
demand that arrived equals the capacity. Each row also says what no policy can exceed.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import click
import numpy as np

from dure.bench.data import data_dir, data_file
from dure.bench.pack_bound import bound_pct
from dure.bench.pack_replay import POLICIES, USUAL, Cell, replay
from dure.bench.pack_trace import TraceNode, TracePod, arrival_order, fleet_of, read_nodes, read_pods
from dure.bench.progress import Journal, cells
from dure.bench.result import Result, bench_options, emit
from dure.model.errors import InvalidInput, NotFound

_PREFIX = "openb_pod_list_"
# Points of allocation between the first and the last policy from which on a plot is worth its room.
_APART = 0.5


@click.command()
@click.option("--list", "names", multiple=True, metavar="NAME|all", help="Pod list of the public trace (repeatable).")
@click.option("--pods", type=click.Path(path_type=Path), help="Pod list of your own, .csv or .csv.gz.")
@click.option("--nodes", type=click.Path(path_type=Path), help="Node list of your own, .csv or .csv.gz.")
@click.option("--policies", default=",".join(USUAL), show_default=True, help="Comma-separated.")
@click.option("--seeds", default="42..44", show_default=True, metavar="A..B|A,B", help="Arrival orders.")
@click.option(
    "--until", default=100, show_default=True, type=click.IntRange(1, 200), help="Demand arrived, in % of capacity."
)
@click.option("--shuffle-names", is_flag=True, help="Rename the nodes by chance: ties by name then mean nothing.")
@click.option("--devices-only", is_flag=True, help="Leave out pods that ask for no device.")
@click.option("--bound/--no-bound", default=True, show_default=True, help="Solve the upper bound for each cell.")
@click.option("--resume", type=click.Path(dir_okay=False, path_type=Path), help="Keep finished cells here and go on.")
@click.option("--timed", is_flag=True, help="Pods leave again at their recorded times.")
@click.option("--mig", is_flag=True, help="Fractions become MIG profiles on a fleet of A100 and H100.")
@bench_options
def command(
    names: tuple[str, ...], pods: Path | None, nodes: Path | None, policies: str, seeds: str, until: int,
    shuffle_names: bool, devices_only: bool, bound: bool, resume: Path | None, timed: bool, mig: bool, as_json: bool,
    report: Path | None,
) -> None:  # fmt: skip
    """Fill a cluster from a trace and compare packing policies.

    \b
    Example:
      dure bench pack --list default --policies dure,fgd --seeds 42..44
      dure bench pack --pods my_pods.csv.gz --nodes my_nodes.csv --shuffle-names --json
      dure bench pack --policies dure,agent --devices-only --shuffle-names --seeds 42
    """
    lists = _lists(names, pods)
    if devices_only:
        lists = {name: [pod for pod in listed if pod.devices] for name, listed in lists.items()}
    fleet_nodes = read_nodes(nodes or data_file("openb/openb_node_list_gpu_node.csv"))
    if timed or mig:
        from dure.bench.pack_timed import TimedCell, timed_result

        kept = Journal(resume, TimedCell, f"timed mig={mig} nodes={nodes or 'openb'}")
        emit(timed_result(lists, fleet_nodes, policies, _seeds(seeds), kept, mig=mig), as_json=as_json, report=report)
        return
    chosen = _policies(policies)
    wanted = [
        (name, policy, seed) for name in lists for seed in _seeds(seeds) for policy in chosen
    ]  # one seed's bound serves all policies
    journal = Journal(
        resume, Cell, f"until={until} shuffle={shuffle_names} devices={devices_only} nodes={nodes or 'openb'}"
    )
    bounds: dict[tuple[str, int], float | None] = {}
    done: list[tuple[dict[str, Any], Cell]] = []
    for name, policy, seed in cells(wanted, "pack"):
        listed = lists[name]
        key = f"{name}/{policy}/{seed}"
        cell = journal.get(key)
        if cell is None:
            cell = _measure(policy, fleet_nodes, listed, seed, until, shuffle_names)
            journal.add(key, cell)
        if (name, seed) not in bounds:
            bounds[name, seed] = _bound(fleet_nodes, listed, seed, until) if bound else None
        row = _row(name, policy, seed, until, cell, bounds[name, seed])
        if bound:
            # Of whoever refuses nothing before this row's first refusal.
            row["kept_bound_pct"] = _bound(fleet_nodes, listed, seed, until, cell.kept)
        done.append((row, cell))
    result = Result("pack", [row for row, _ in done], _summary([row for row, _ in done]))
    emit(result, as_json=as_json, report=report, figures=_figures(done) if report else ())


def _lists(names: tuple[str, ...], pods: Path | None) -> dict[str, list[TracePod]]:
    if pods is not None:
        if names:
            raise InvalidInput("--list and --pods exclude each other", remedy="Give one of them.")
        return {pods.name.removesuffix(".gz").removesuffix(".csv"): read_pods(pods)}
    if "all" in names:
        folder = data_dir()
        found = sorted(folder.glob(f"openb/{_PREFIX}*.csv*")) if folder else []
        if not found:
            raise NotFound("no public pod lists are there", remedy="Set DURE_DATA, or give --pods FILE.")
        return {path.name.split(".")[0].removeprefix(_PREFIX): read_pods(path) for path in found}
    return {name: read_pods(data_file(f"openb/{_PREFIX}{name}.csv")) for name in names or ("default",)}


def _policies(text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in POLICIES]
    if unknown or not chosen:
        raise InvalidInput(f"unknown policy '{', '.join(unknown)}'", remedy=f"Known: {', '.join(POLICIES)}")
    return chosen


def _seeds(text: str) -> list[int]:
    try:
        if ".." in text:
            first, last = (int(part) for part in text.split(".."))
            seeds = list(range(first, last + 1))
        else:
            seeds = [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0:
        raise InvalidInput(f"--seeds {text!r} is not a range of whole numbers", remedy="Write 42..51 or 42,43.")
    return seeds


def _measure(policy: str, nodes: list[TraceNode], pods: list[TracePod], seed: int, until: int, shuffle: bool) -> Cell:
    seen = nodes
    if shuffle:
        order = np.random.default_rng(seed + 7_919).permutation(len(nodes))
        seen = [nodes[i] for i in order]
    return replay(policy, fleet_of(nodes), pods, seed, until / 100, fleet_of(seen))


def _bound(nodes: list[TraceNode], pods: list[TracePod], seed: int, until: int, kept: int = 0) -> float:
    fleet = fleet_of(nodes)
    order = arrival_order(pods, fleet.capacity_milli, seed, until / 100)
    return round(bound_pct(fleet, [fleet.ask(pods[i]) for i in order], kept), 3)


def _row(name: str, policy: str, seed: int, until: int, cell: Cell, bound: float | None) -> dict[str, Any]:
    return {
        "list": name,
        "policy": policy,
        "seed": seed,
        "arrived_pct": until,
        "alloc_pct": round(cell.alloc_pct, 3),
        "bound_pct": bound,
        "frag_pct": round(cell.frag_pct, 3),
        "first_failure_pct": cell.first_failure_pct,
        "refused_90_pct": cell.refused_90_pct,
        "moves": cell.moves,
        "decisions": cell.decisions,
        "seconds": cell.seconds,
    }


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds by list and policy, the bound, and our lead over FGD."""
    summary: dict[str, Any] = {}
    for name in dict.fromkeys(row["list"] for row in rows):
        means: dict[str, float] = {}
        for policy in dict.fromkeys(row["policy"] for row in rows):
            found = [row["alloc_pct"] for row in rows if row["list"] == name and row["policy"] == policy]
            if found:
                means[policy] = statistics.fmean(found)
                spread = statistics.pstdev(found)
                summary[f"{name}/{policy}"] = f"{means[policy]:.2f} ± {spread:.2f}"
        bounds = [row["bound_pct"] for row in rows if row["list"] == name and row["bound_pct"] is not None]
        if bounds:
            summary[f"{name}/bound"] = round(statistics.fmean(bounds), 2)
        if "dure" in means and "fgd" in means:
            summary[f"{name}/dure over fgd"] = round(means["dure"] - means["fgd"], 2)
    return summary


def _figures(done: list[tuple[dict[str, Any], Cell]]) -> list[Any]:
    """For each list the allocation against demand arrived, and how far each policy is behind; means over seeds."""
    figures = []
    for name in dict.fromkeys(row["list"] for row, _ in done):
        here = [(row, cell) for row, cell in done if row["list"] == name]
        curves = {
            policy: np.mean(np.array([cell.curve for row, cell in here if row["policy"] == policy]), axis=0)
            for policy in dict.fromkeys(row["policy"] for row, _ in here)
        }
        bounds = [row["bound_pct"] for row, _ in here if row["bound_pct"] is not None]
        figures.append(_allocated(name, curves, statistics.fmean(bounds) if bounds else None))
        figures.append(_behind(name, curves))
    return figures


def _allocated(name: str, curves: dict[str, Any], bound: float | None) -> Any:
    """Zoomed to where the curves part: before that they all follow the demand."""
    from plotly import graph_objects

    figure = graph_objects.Figure()
    apart = np.ptp(np.array(list(curves.values())), axis=0) > _APART
    last = len(apart) - 1
    first = max(0, min(int(np.argmax(apart)) if apart.any() else last, last - 10) - 2)
    for policy, mean in curves.items():
        figure.add_scatter(x=list(range(mean.size)), y=_rounded(mean), name=policy, mode="lines")
    if bound is not None:
        figure.add_hline(y=bound, line_dash="dot", line_color="#808080", annotation_text=f"bound {bound:.1f}")
    top = max(100.0 if bound is None else bound, *(float(mean.max()) for mean in curves.values()))
    low = min(float(mean[first]) for mean in curves.values())
    figure.update_layout(
        title=f"{name}: allocated, higher is better",
        xaxis={"title": "demand arrived, % of capacity", "range": [first, last]},
        yaxis={"title": "allocated, %", "range": [low, top + 0.05 * (top - low)]},
    )
    return figure


def _behind(name: str, curves: dict[str, Any]) -> Any:
    from plotly import graph_objects

    figure = graph_objects.Figure()
    follows = np.max(np.array(list(curves.values())), axis=0)
    for policy, mean in curves.items():
        figure.add_scatter(x=list(range(mean.size)), y=_rounded(follows - mean), name=policy, mode="lines")
    figure.update_layout(
        title=f"{name}: behind the best policy, lower is better",
        xaxis={"title": "demand arrived, % of capacity"},
        yaxis={"title": "points of allocation behind", "rangemode": "tozero"},
    )
    return figure


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 3) for value in values]
