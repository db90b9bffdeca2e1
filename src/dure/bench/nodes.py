"""`dure bench nodes`: provisioning price against first-fit-decreasing and, when small, the integer programme."""

from __future__ import annotations

import time
from pathlib import Path

import click

from dure.bench.offers import read_offers
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.files.params import NOT_NEGATIVE
from dure.scale.nodes.packer import pack
from dure.scale.nodes.state import NewNode, Offer, Pool
from dure.sim.nodes.clusters import draw_pods
from dure.sim.nodes.exact import cheapest_cover
from dure.sim.nodes.ffd import first_fit_decreasing
from dure.sim.nodes.referee import check_bought

OVERHEAD = (0, 400, 1024)
SMALL_TYPES = ("g5.xlarge", "g5.2xlarge", "g5.4xlarge", "g5.12xlarge", "g6.xlarge", "g6.4xlarge", "g6.12xlarge")


@click.command(name="nodes")
@click.option("--pods", default="200,1000", show_default=True, help="Sizes of the large cases, comma separated.")
@click.option("--small", default=12, show_default=True, help="Pods in each case for the integer programme.")
@click.option("--cases", default=6, show_default=True, help="Small cases.")
@click.option("--seed", default=1, show_default=True, help="First seed.")
@click.option("--region", default="us-east-1", show_default=True, help="Region of the price list.")
@click.option(
    "--solver-seconds",
    type=NOT_NEGATIVE,
    default=20.0,
    show_default=True,
    help="Time limit of the integer programme.",
)
@bench_options
def command(
    pods: str,
    small: int,
    cases: int,
    seed: int,
    region: str,
    solver_seconds: float,
    as_json: bool,
    report: Path | None,
) -> None:
    """Buy nodes for pending pods: Dure, first-fit-decreasing and the exact optimum, same offers, checked plans.

    \b
    Example:
      dure bench nodes --json
    """
    offers = read_offers(region)
    rows: list[Row] = [*_large(pods, seed, offers), *_small(small, cases, seed, offers, solver_seconds)]
    emit(
        Result("nodes", rows, _summary(rows)),
        as_json=as_json,
        report=report,
        figures=[_figure(rows)] if report else [],
    )


def _large(sizes: str, seed: int, offers: tuple[Offer, ...]) -> list[Row]:
    pool = Pool("gpu", offers, overhead=OVERHEAD)
    classes = tuple(sorted({offer.gpu_class for offer in offers}))
    rows: list[Row] = []
    for count in (int(size) for size in sizes.split(",")):
        for number in range(seed, seed + 3):
            pods = draw_pods(count, classes, number)
            begin = time.perf_counter()
            ours = pack(pods, (pool,), {})
            lasted = time.perf_counter() - begin
            simple = first_fit_decreasing(pods, (pool,))
            base: dict[str, Cell] = {"input": f"{count} pods", "seed": number}
            problems = check_bought(pods, ours.nodes, (pool,))
            rows.append(
                base | {"policy": "dure", "price": _money(ours.nodes), "nodes": len(ours.nodes), "seconds": lasted}
                | {"sound": not problems and not ours.unplaced}
            )  # fmt: skip
            rows.append(
                base | {"policy": "first-fit", "price": _money(simple), "nodes": len(simple)}
                | {"sound": not check_bought(pods, simple, (pool,))}
            )  # fmt: skip
    return rows


def _small(size: int, cases: int, seed: int, offers: tuple[Offer, ...], seconds: float) -> list[Row]:
    few = tuple(offer for offer in offers if offer.type_name in SMALL_TYPES and offer.capacity == "on-demand")
    pool = Pool("gpu", few, overhead=OVERHEAD)
    rows: list[Row] = []
    for number in range(seed, seed + cases):
        pods = tuple(p for p in draw_pods(size, ("A10G", "L4"), number) if p.size[0] <= 4000)
        ours = pack(pods, (pool,), {})
        exact = cheapest_cover(pods, (pool,), seconds)
        simple = first_fit_decreasing(pods, (pool,))
        base: dict[str, Cell] = {"input": f"{len(pods)} pods, {len(few)} offers", "seed": number}
        sound = not check_bought(pods, ours.nodes, (pool,)) and not ours.unplaced
        rows.append(base | {"policy": "dure", "price": _money(ours.nodes), "nodes": len(ours.nodes), "sound": sound})
        rows.append(base | {"policy": "first-fit", "price": _money(simple), "nodes": len(simple)})
        rows.append(base | {"policy": "milp", "price": exact.price / 1e6, "proven": exact.proven})
        click.echo(f"small case {number}: dure {_money(ours.nodes):.3f} milp {exact.price / 1e6:.3f}", err=True)
    return rows


def _money(nodes: tuple[NewNode, ...]) -> float:
    return sum(node.offer.price for node in nodes) / 1e6


def _ratios(rows: list[Row], other: str, proven: bool = False) -> list[float]:
    prices = {(row["input"], row["seed"], row["policy"]): row for row in rows}
    ratios = []
    for (case, number, policy), row in prices.items():
        rival = prices.get((case, number, other))
        if policy == "dure" and rival is not None and (not proven or rival.get("proven")):
            ratios.append(float(row["price"] or 0.0) / float(rival["price"] or 1.0))
    return ratios


def _summary(rows: list[Row]) -> dict[str, float | bool | int]:
    simple, exact = _ratios(rows, "first-fit"), _ratios(rows, "milp", proven=True)
    return {
        "price_to_first_fit_mean": sum(simple) / len(simple),
        "price_to_first_fit_worst": max(simple),
        "price_to_milp_mean": sum(exact) / max(len(exact), 1),
        "price_to_milp_worst": max(exact, default=0.0),
        "milp_proven_cases": len(exact),
        "all_plans_sound": all(bool(row.get("sound", True)) for row in rows if row["policy"] == "dure"),
    }


def _figure(rows: list[Row]) -> object:
    import plotly.graph_objects as go

    figure = go.Figure()
    for policy in ("dure", "first-fit", "milp"):
        mine = [row for row in rows if row["policy"] == policy]
        labels = [f"{row['input']} #{row['seed']}" for row in mine]
        figure.add_bar(name=policy, x=labels, y=[row["price"] for row in mine])
    figure.update_layout(title="Hourly price of the bought nodes (USD)", barmode="group")
    return figure
