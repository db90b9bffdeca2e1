"""`dure bench scale`: misses over GPU-hours for HPA and KEDA on every usual signal, an oracle, and Dure."""

from __future__ import annotations

from pathlib import Path

import click

from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.bench.scale_cells import FRONT, PLAIN, cells_of, orders_of, play_cell
from dure.bench.scale_shared import NAME, play_shared, shared_cells
from dure.bench.scale_store import Store
from dure.bench.scale_summary import figures, summarise
from dure.files.params import POSITIVE

SCENARIOS = ("conv-150", "code-150", "twitter-150", "twitter-20", "shared-150", "conv-20", "code-20")


@click.command(name="scale")
@click.option("--scenarios", default=",".join(SCENARIOS[:5]), show_default=True, help="TRACE-BOOTSECONDS, ...")
@click.option("--seeds", default="101", show_default=True, help="Seeds, comma separated.")
@click.option("--hours", type=POSITIVE, default=None, help="Shorter streams for a quick look.")
@click.option("--quick", is_flag=True, help="Every second threshold only, no order table.")
@click.option("--front", is_flag=True, help="Everyone's requests go through `dure front`; no order table.")
@click.option("--resume", type=click.Path(dir_okay=False, path_type=Path), help="Keep finished cells in this file.")
@bench_options
def command(
    scenarios: str,
    seeds: str,
    hours: float | None,
    quick: bool,
    front: bool,
    resume: Path | None,
    as_json: bool,
    report: Path | None,
) -> None:
    """Scale a modelled vLLM service on public traces; everyone gets the same router and queue order.

    `shared-150` plays three services at once, on machines of their own and on machines that they share.

    \b
    Example:
      dure bench scale --scenarios conv-150 --quick --json
      dure bench scale --scenarios conv-150,code-150 --front --seeds 7
      dure bench scale --resume scale.jsonl --report scale.html
    """
    store, way = Store(resume), FRONT if front else PLAIN
    rows: list[Row] = []
    for seed in (int(text) for text in seeds.split(",")):
        for scenario in scenarios.split(","):
            shared = scenario.startswith(f"{NAME}-")
            orders = orders_of(scenario, quick or front)
            todo = shared_cells(way) if shared else [*cells_of(scenario, quick, way), *orders]
            for number, cell in enumerate(todo, start=1):
                key: dict[str, Cell] = {"input": scenario, "seed": seed, **cell.labels(), "hours": hours}
                row = store.find(key)
                if row is None:
                    played = play_shared if shared else play_cell
                    row = store.keep({**key, **played(scenario, seed, hours, cell)})
                rows.append(row)
                note = f"{scenario} seed {seed} {number}/{len(todo)} {cell.policy} {cell.signal} {cell.knob:g}"
                click.echo(f"{note}: {float(row['miss_rate'] or 0.0):.2%} at {row['gpu_hours']:.1f} GPU-h", err=True)
    emit(
        Result("scale", rows, summarise(rows, way)),
        as_json=as_json,
        report=report,
        figures=figures(rows, way) if report else [],
    )
