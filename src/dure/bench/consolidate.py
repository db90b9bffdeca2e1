"""`dure bench consolidate`: one consolidation plan for a large cluster, against Karpenter's rules on that state."""

from __future__ import annotations

import time
from pathlib import Path

import click

from dure.bench.offers import read_offers
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.scale.nodes.consolidate import Settings, consolidate
from dure.scale.nodes.state import Node, Pool
from dure.sim.nodes.clusters import draw_cluster
from dure.sim.nodes.karpenter import run_karpenter
from dure.sim.nodes.referee import check_consolidation

OVERHEAD = (0, 400, 1024)


@click.command(name="consolidate")
@click.option("--nodes", "count", default=1000, show_default=True, help="Nodes in the cluster.")
@click.option("--seeds", default=2, show_default=True, help="How many clusters to draw.")
@click.option("--seed", default=1, show_default=True, help="First seed.")
@click.option("--region", default="us-east-1", show_default=True, help="Region of the price list.")
@bench_options
def command(count: int, seeds: int, seed: int, region: str, as_json: bool, report: Path | None) -> None:
    """Plan time, price after it, and soundness of the plan, beside Karpenter's single- and multi-node consolidation.

    \b
    Example:
      dure bench consolidate --nodes 1000 --json
    """
    pool = Pool("gpu", read_offers(region), overhead=OVERHEAD)
    rows: list[Row] = []
    for number in range(seed, seed + seeds):
        nodes = draw_cluster(count, pool, number)
        rows += _one(nodes, pool, number)
        click.echo(f"seed {number}: done", err=True)
    emit(
        Result("consolidate", rows, _summary(rows)),
        as_json=as_json,
        report=report,
        figures=[_figure(rows)] if report else [],
    )


def _one(nodes: tuple[Node, ...], pool: Pool, seed: int) -> list[Row]:
    base: dict[str, Cell] = {"input": f"{len(nodes)} nodes", "seed": seed}
    before = sum(node.offer.price for node in nodes) / 1e6
    consolidate(nodes[:8], (pool,), Settings(), 0.0)
    begin, began_cpu = time.perf_counter(), time.process_time()
    plan = consolidate(nodes, (pool,), Settings(), 0.0)
    ours_s, ours_cpu = time.perf_counter() - begin, time.process_time() - began_cpu
    stopped = {name for name, _ in plan.stop}
    after = sum(node.offer.price for node in nodes if node.name not in stopped)
    after += sum(new.offer.price for new in plan.start)
    problems = check_consolidation(nodes, plan, (pool,))
    begin = time.perf_counter()
    rival = run_karpenter(nodes, (pool,))
    rival_s = time.perf_counter() - begin
    return [
        base | {"policy": "before", "price": before, "nodes": len(nodes)},
        base
        | {
            "policy": "dure",
            "price": after / 1e6,
            "nodes": len(nodes) - len(stopped) + len(plan.start),
            "seconds": ours_s,
            "cpu_seconds": ours_cpu,
            "moves": len(plan.moves),
            "sound": not problems,
        },
        base
        | {
            "policy": "karpenter",
            "price": rival.price / 1e6,
            "nodes": len(nodes) - rival.stopped + rival.started,
            "seconds": rival_s,
            "simulations": rival.simulations,
        },
    ]


def _summary(rows: list[Row]) -> dict[str, float | bool]:
    def of(policy: str, column: str) -> list[float]:
        return [float(row[column] or 0.0) for row in rows if row["policy"] == policy]

    ratios = [a / b for a, b in zip(of("dure", "price"), of("karpenter", "price"), strict=True)]
    return {
        "plan_seconds_worst": max(of("dure", "seconds")),
        "plan_cpu_seconds_worst": max(of("dure", "cpu_seconds")),
        "price_to_karpenter_worst": max(ratios),
        "price_to_before_mean": sum(of("dure", "price")) / sum(of("before", "price")),
        "speed_up_over_karpenter": sum(of("karpenter", "seconds")) / sum(of("dure", "seconds")),
        "all_plans_sound": all(bool(row["sound"]) for row in rows if row["policy"] == "dure"),
    }


def _figure(rows: list[Row]) -> object:
    import plotly.graph_objects as go

    figure = go.Figure()
    for policy in ("before", "dure", "karpenter"):
        mine = [row for row in rows if row["policy"] == policy]
        figure.add_bar(name=policy, x=[f"seed {row['seed']}" for row in mine], y=[row["price"] for row in mine])
    figure.update_layout(title="Hourly price of the cluster (USD)", barmode="group")
    return figure
