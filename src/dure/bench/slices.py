"""`dure bench slices`: what a slice costs against running the model directly, and what a greedy neighbour costs.

One model, the same requests: run directly (`direct`), on a slice over its socket (`slice`), and on a slice while the
other slice's tenant asks as much as it can (`beside-greedy`). The three take turns within every round, so what else
the machine does hits all of them. Tenants are processes of their own, as containers are; this one is the daemon.

Two clocks: what the tenant waited (`p50_ms`, `p99_ms`), and the time on the device that its requests took
(`device_...`), in which what the operating system gave to other programs does not count. Needs the `device` extra.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
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

    \b
    Example:
      dure bench slices --requests 500 --json
    """
    # What the daemon tells of its slices is progress; the result alone goes to standard output.
    with tempfile.TemporaryDirectory(prefix="dure-bench-") as folder, contextlib.redirect_stdout(sys.stderr):
        rows = _rows(Path(folder), kind, requests, rounds)
    emit(Result("slices", rows, summarise(rows)), as_json=as_json, report=report, figures=_figures(rows))


def _rows(folder: Path, kind: str, requests: int, rounds: int) -> list[dict[str, Any]]:
    from dure.adapters.onnx.models import KINDS, write_model
    from dure.device.plugin.node import Accelerator, NodeConfig
    from dure.device.slices import Slices
    from dure.model.errors import InvalidInput

    if kind not in KINDS:
        raise InvalidInput(f"no model '{kind}'", remedy=f"Known: {', '.join(KINDS)}.")
    path = write_model(kind, folder / f"{kind}.onnx")
    sockets = folder / "slices"
    slices = Slices(NodeConfig((Accelerator("v", slices=2, memory_mib=2048),), sockets=str(sockets), cores=2))
    executor = slices.executors["v"]
    rows = []
    try:
        with (
            _Tenant(path, sockets / "v-0" / "device.sock") as tenant,
            _Tenant(path, sockets / "v-1" / "device.sock") as other,
        ):
            for number in range(rounds):
                click.echo(f"slices: round {number + 1} of {rounds}", err=True)
                rows.append(_row("direct", kind, number, tenant.ask("direct", requests), None))
                for way in WAYS[1:]:
                    greedy = other.greedy() if way == "beside-greedy" else contextlib.nullcontext()
                    with greedy:
                        began_ms = executor.now_ms()
                        found = tenant.ask("slice", requests)
                    used = _used(executor.record.timeline(began_ms)[0])
                    rows.append(_row(way, kind, number, found, used[-requests:]))
    finally:
        slices.close()
    return rows


def _used(spans: Iterable[Any]) -> Any:
    """Time on the device of each request of the first slice, in order."""
    found: dict[int, float] = {}
    for span in spans:
        if span.tenant == "v-0":
            found[span.request] = found.get(span.request, 0.0) + span.used_ms
    return np.array([found[number] for number in sorted(found)])


def _timed(ask: Callable[[], object], requests: int) -> Any:
    for _ in range(3):
        ask()
    found = []
    for _ in range(requests):
        began = time.perf_counter()
        ask()
        found.append((time.perf_counter() - began) * 1000.0)
    return np.array(found)


def _row(way: str, kind: str, number: int, found: Any, used: Any | None) -> dict[str, Any]:
    device = {} if used is None else {
        "device_p50_ms": round(float(np.quantile(used, 0.5)), 4),
        "device_p99_ms": round(float(np.quantile(used, 0.99)), 4),
    }  # fmt: skip
    return {
        "policy": way,
        "input": kind,
        "seed": number,
        "requests": len(found),
        "p50_ms": round(float(np.quantile(found, 0.5)), 4),
        "p99_ms": round(float(np.quantile(found, 0.99)), 4),
        "mean_ms": round(float(found.mean()), 4),
        **device,
    }


class _Tenant:
    """A process that holds one slice, as a container would, and does what it is told."""

    def __init__(self, model: Path, socket: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_obey, args=(theirs, model, socket), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def __enter__(self) -> _Tenant:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(("end", 0))
        self._process.join(30.0)
        self._pipe.close()

    def ask(self, way: str, requests: int) -> Any:
        """Milliseconds of so many requests, one after the other."""
        self._pipe.send((way, requests))
        return self._pipe.recv()

    @contextlib.contextmanager
    def greedy(self) -> Iterator[None]:
        """It always has `GREEDY` requests inside, for as long as the block lasts."""
        self._pipe.send(("greedy", GREEDY))
        self._pipe.recv()
        try:
            yield
        finally:
            self._pipe.send(("enough", 0))
            self._pipe.recv()


def _obey(pipe: Any, model: Path, socket: Path) -> None:
    """The main function of a tenant's process."""
    import onnx

    from dure.adapters.onnx.models import sample_input
    from dure.adapters.onnx.worker import Runner
    from dure.device.slice_client import SliceClient

    given = sample_input(onnx.load(str(model)))
    # The same runtime options as on a slice, in one piece and with one thread: what is measured is the daemon.
    runner = Runner(model, 1)
    with SliceClient(socket, model) as client:
        asks = {"direct": lambda: runner.answer(("run", 0, given, 0, 1, 1)), "slice": lambda: client.infer(given)}
        pipe.send("ready")
        while (told := pipe.recv())[0] != "end":
            if told[0] in asks:
                pipe.send(_timed(asks[told[0]], told[1]))
                continue
            inside = [client.submit(given) for _ in range(told[1])]
            pipe.send("greedy")
            while not pipe.poll():
                inside.pop(0).result()
                inside.append(client.submit(given))
            pipe.recv()
            for one in inside:
                one.result()
            pipe.send("enough")


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
        "device_p50_beside_greedy_vs_alone": ratio("device_p50_ms", "beside-greedy", "slice"),
        "device_p99_beside_greedy_vs_alone": ratio("device_p99_ms", "beside-greedy", "slice"),
    }


def _figures(rows: list[dict[str, Any]]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure()
    for field in ("p50_ms", "p99_ms"):
        shown = [float(np.median([row[field] for row in rows if row["policy"] == way])) for way in WAYS]
        figure.add_bar(name=field, x=list(WAYS), y=shown)
    figure.update_layout(title="Latency of one model, ms", barmode="group")
    return [figure]
