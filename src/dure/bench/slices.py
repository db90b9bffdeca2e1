"""`dure bench slices`: what a slice costs against running the model directly, and what a greedy neighbour costs.

One model, the same requests: in this process (`direct`), on a slice over its socket (`slice`), and on a slice while
the other slice's tenant asks as much as it can (`beside-greedy`). The three take turns within every round, so what
else the machine does hits all of them. Needs the `device` extra.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from dure.bench.result import Result, bench_options, emit

WAYS = ("direct", "slice", "beside-greedy")
GREEDY = 8
"""Requests the greedy neighbour has inside at any time."""


@click.command()
@click.option("--requests", type=click.IntRange(10), default=300, show_default=True, help="Requests of each way.")
@click.option(
    "--rounds", type=click.IntRange(1), default=5, show_default=True, help="Times each way is run, in turn."
)
@click.option(
    "--model", "kind", default="convolution", show_default=True, help="convolution, transformer, recommender."
)
@bench_options
def command(requests: int, rounds: int, kind: str, as_json: bool, report: Path | None) -> None:
    """Measure a slice of a virtual accelerator against the model run directly, alone and beside a greedy tenant.

    \\b
    Example:
      dure bench slices --requests 500 --json
    """
    # What the daemon tells of its slices is progress; the result alone goes to standard output.
    with tempfile.TemporaryDirectory(prefix="dure-bench-") as folder, contextlib.redirect_stdout(sys.stderr):
        rows = _rows(Path(folder), kind, requests, rounds)
    emit(Result("slices", rows, summarise(rows)), as_json=as_json, report=report, figures=_figures(rows))


def _rows(folder: Path, kind: str, requests: int, rounds: int) -> list[dict[str, Any]]:
    import onnx

    from dure.adapters.onnx.models import KINDS, sample_input, write_model
    from dure.adapters.onnx.worker import Runner
    from dure.device.plugin.node import Accelerator, NodeConfig
    from dure.device.slice_client import SliceClient
    from dure.device.slices import Slices
    from dure.model.errors import InvalidInput

    if kind not in KINDS:
        raise InvalidInput(f"no model '{kind}'", remedy=f"Known: {', '.join(KINDS)}.")
    path = write_model(kind, folder / f"{kind}.onnx")
    given = sample_input(onnx.load(str(path)))
    # The same runtime options as on a slice, in one piece and with one thread: what is measured is the daemon.
    runner = Runner(path, 1)
    slices = Slices(
        NodeConfig((Accelerator("v", slices=2, memory_mib=2048),), sockets=str(folder / "slices"), cores=2)
    )
    rows = []
    try:
        with (
            SliceClient(folder / "slices" / "v-0" / "device.sock", path) as client,
            SliceClient(folder / "slices" / "v-1" / "device.sock", path) as other,
        ):
            for number in range(rounds):
                click.echo(f"slices: round {number + 1} of {rounds}", err=True)
                direct = _timed(lambda: runner.answer(("run", 0, given, 0, 1, 1)), requests)
                alone = _timed(lambda: client.infer(given), requests)
                with _Greedy(other, given):
                    beside = _timed(lambda: client.infer(given), requests)
                for way, found in zip(WAYS, (direct, alone, beside), strict=True):
                    rows.append(_row(way, kind, number, found))
    finally:
        slices.close()
    return rows


def _timed(ask: Callable[[], object], requests: int) -> Any:
    for _ in range(3):
        ask()
    found = []
    for _ in range(requests):
        began = time.perf_counter()
        ask()
        found.append((time.perf_counter() - began) * 1000.0)
    return np.array(found)


def _row(way: str, kind: str, number: int, found: Any) -> dict[str, Any]:
    return {
        "policy": way,
        "input": kind,
        "seed": number,
        "requests": len(found),
        "p50_ms": round(float(np.quantile(found, 0.5)), 4),
        "p99_ms": round(float(np.quantile(found, 0.99)), 4),
        "mean_ms": round(float(found.mean()), 4),
    }


class _Greedy:
    """A tenant that always has `GREEDY` requests inside, for as long as the block lasts."""

    def __init__(self, client: Any, given: Any) -> None:
        self._client = client
        self._given = given
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Greedy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        inside = [self._client.submit(self._given) for _ in range(GREEDY)]
        while not self._stop.is_set():
            inside.pop(0).result()
            inside.append(self._client.submit(self._given))
        for one in inside:
            one.result()


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over rounds of ratios within a round."""

    def ratio(field: str, over: str, under: str) -> float:
        found = [
            one[field] / two[field]
            for one in rows
            for two in rows
            if (one["policy"], two["policy"]) == (over, under) and one["seed"] == two["seed"]
        ]
        return round(float(np.median(found)), 4)

    def extra(field: str) -> float:
        by = {(row["policy"], row["seed"]): row[field] for row in rows}
        return round(float(np.median([by["slice", n] - by["direct", n] for way, n in by if way == "slice"])), 4)

    return {
        "p50_slice_vs_direct": ratio("p50_ms", "slice", "direct"),
        "p50_extra_ms": extra("p50_ms"),
        "p50_beside_greedy_vs_alone": ratio("p50_ms", "beside-greedy", "slice"),
        "p99_beside_greedy_vs_alone": ratio("p99_ms", "beside-greedy", "slice"),
    }


def _figures(rows: list[dict[str, Any]]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure()
    for field in ("p50_ms", "p99_ms"):
        shown = [float(np.median([row[field] for row in rows if row["policy"] == way])) for way in WAYS]
        figure.add_bar(name=field, x=list(WAYS), y=shown)
    figure.update_layout(title="Latency of one model, ms", barmode="group")
    return [figure]
