"""`dure bench slices`: what a slice costs against running the model directly, and what a greedy neighbour costs.

One model, the same requests: run directly (`direct`), on a slice over its socket (`slice`), and on a slice while the
other slice's tenant asks as much as it can (`beside-greedy`). They take turns of a few requests, in every order
equally often, so what else the machine does hits all of them. Alone on the slice is measured twice (`slice`,
`slice-again`): both together are what is compared with, one against the other is what chance makes of the same.
Ratios are of quantiles over all rounds, with an interval from rounds drawn again and again. Tenants are processes of
their own, as containers are; this one is the daemon.

Two clocks: what the tenant waited (`p50_ms`, `p99_ms`), and the time on the device that its requests took
(`device_...`), in which what the operating system gave to other programs does not count. Needs the `device` extra.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import click
import numpy as np

from dure.bench.result import Result, bench_options, emit

WAYS = ("direct", "slice", "beside-greedy", "slice-again")
GREEDY = 8
"""Requests the greedy neighbour has inside at any time."""
DRAWS = 1000
TELL = 50
WARM_UP = 2
"""Requests of a turn that are not counted, for each that is inside: they may meet what the turn before has left."""
REST_S = 0.05
"""Before each turn, longer than an allowance takes to fill: a greedy tenant takes a while to end, so that whoever
came next would have saved up more than one who came after another that was alone."""
ALONE = ("slice", "slice-again")
ORDERS = tuple(itertools.permutations(WAYS[1:]))


@click.command()
@click.option(
    "--requests", type=click.IntRange(5), default=10, show_default=True, help="Requests of each way and round."
)
@click.option(
    "--rounds", type=click.IntRange(6), default=600, show_default=True, help="Times each way is run, in turn."
)
@click.option(
    "--model", "kind", default="convolution", show_default=True, help="convolution, transformer, recommender."
)
@click.option(
    "--cores",
    type=click.IntRange(0, 64),
    default=0,
    show_default=True,
    help="Threads of the accelerator, half for each slice; 0 as for a node: all but one.",
)
@click.option(
    "--inside",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Requests that the tenant has inside; with several it needs all of its slice.",
)
@bench_options
def command(
    requests: int, rounds: int, kind: str, cores: int, inside: int, as_json: bool, report: Path | None
) -> None:
    """Measure a slice of a virtual accelerator against the model run directly, alone and beside a greedy tenant.

    \b
    Example:
      dure bench slices --rounds 60
      dure bench slices --rounds 150 --requests 40 --inside 4
      dure bench slices --cores 2 --json
    """
    # What the daemon tells of its slices is progress; the result alone goes to standard output.
    with tempfile.TemporaryDirectory(prefix="dure-bench-") as folder, contextlib.redirect_stdout(sys.stderr):
        found = _measured(Path(folder), kind, cores, requests, rounds, inside)
    rows = [_row(way, kind, *map(np.concatenate, zip(*all_, strict=True))) for way, all_ in found.items()]
    emit(Result("slices", rows, summarise(found)), as_json=as_json, report=report, figures=_figures(rows))


Found = dict[str, list[tuple[Any, Any]]]
"""For each way and round: milliseconds waited by each request, and on the device (empty where it was not asked)."""


def _measured(folder: Path, kind: str, cores: int, requests: int, rounds: int, inside: int) -> Found:
    from dure.adapters.onnx.models import KINDS, write_model
    from dure.device.cores import leave
    from dure.device.plugin.node import Accelerator, NodeConfig
    from dure.device.slices import Slices, own_processors, quicken
    from dure.model.errors import InvalidInput

    if kind not in KINDS:
        raise InvalidInput(f"no model '{kind}'", remedy=f"Known: {', '.join(KINDS)}.")
    path = write_model(kind, folder / f"{kind}.onnx")
    sockets = folder / "slices"
    config = NodeConfig((Accelerator("v", slices=2, memory_mib=2048),), sockets=str(sockets), cores=cores)
    processors = own_processors(config)
    everywhere = os.sched_getaffinity(0)
    leave(processors)
    slices = Slices(config, processors=processors)
    quicken()
    found: Found = {way: [] for way in WAYS}
    try:
        with (
            _Tenant(path, sockets / "v-0" / "device.sock", everywhere) as tenant,
            _Tenant(path, sockets / "v-1" / "device.sock", everywhere) as other,
        ):
            for number in range(rounds):
                if number % TELL == 0:
                    click.echo(f"slices: round {number + 1} of {rounds}", err=True)
                found["direct"].append((tenant.ask("direct", requests, 1), np.array([])))
                for way in ORDERS[number % len(ORDERS)]:
                    time.sleep(REST_S)
                    with other.greedy() if way == "beside-greedy" else contextlib.nullcontext():
                        began_ms = slices.executors["v"].now_ms()
                        waited = tenant.ask("slice", requests, inside)
                    used = _used(slices.executors["v"].record.timeline(began_ms)[0])
                    found[way].append((waited, used[-requests:]))
    finally:
        slices.close()
    return found


def _used(spans: Iterable[Any]) -> Any:
    """Time on the device of each request of the first slice, in order."""
    found: dict[int, float] = {}
    for span in spans:
        if span.tenant == "v-0":
            found[span.request] = found.get(span.request, 0.0) + span.used_ms
    return np.array([found[number] for number in sorted(found)])


def _timed(ask: Callable[[], Future[Any]], requests: int, inside: int) -> Any:
    """Milliseconds of each, with so many on their way at any time."""
    found: list[float] = []
    waiting: deque[Future[Any]] = deque()
    spare = WARM_UP * inside
    for _ in range(spare + requests):
        if len(waiting) == inside:
            waiting.popleft().result()
        began = time.perf_counter()

        def answered(_: Future[Any], began: float = began) -> None:
            found.append(time.perf_counter() - began)

        waiting.append(ask())
        waiting[-1].add_done_callback(answered)
    for one in waiting:
        one.result()
    # Whoever waits for the last is told before the one that counts.
    while len(found) < spare + requests:
        time.sleep(0.001)
    return np.array(found[spare:]) * 1000.0


def _row(way: str, kind: str, found: Any, used: Any) -> dict[str, Any]:
    device = {} if not len(used) else {
        "device_p50_ms": round(float(np.quantile(used, 0.5)), 4),
        "device_p99_ms": round(float(np.quantile(used, 0.99)), 4),
    }  # fmt: skip
    return {
        "policy": way,
        "input": kind,
        "seed": 0,
        "requests": len(found),
        "p10_ms": round(float(np.quantile(found, 0.1)), 4),
        "p50_ms": round(float(np.quantile(found, 0.5)), 4),
        "p99_ms": round(float(np.quantile(found, 0.99)), 4),
        "mean_ms": round(float(found.mean()), 4),
        **device,
    }


class _Tenant:
    """A process that holds one slice, as a container would, and does what it is told."""

    def __init__(self, model: Path, socket: Path, processors: set[int]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_obey, args=(theirs, model, socket, processors), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def __enter__(self) -> _Tenant:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(("end",))
        self._process.join(30.0)
        self._pipe.close()

    def ask(self, way: str, requests: int, inside: int) -> Any:
        """Milliseconds of so many requests, with so many on their way at any time."""
        self._pipe.send((way, requests, inside))
        return self._pipe.recv()

    @contextlib.contextmanager
    def greedy(self) -> Iterator[None]:
        """It always has `GREEDY` requests inside, for as long as the block lasts."""
        self._pipe.send(("greedy", GREEDY))
        self._pipe.recv()
        try:
            yield
        finally:
            self._pipe.send(("enough",))
            self._pipe.recv()


def _obey(pipe: Any, model: Path, socket: Path, processors: set[int]) -> None:
    """The main function of a tenant's process: anywhere and with no rights, as a container, not as the daemon."""
    os.sched_setaffinity(0, processors)
    os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
    import onnx

    from dure.adapters.onnx.models import sample_input
    from dure.adapters.onnx.runner import Runner
    from dure.device.slice_client import SliceClient

    given = sample_input(onnx.load(str(model)))
    # The same runtime options as on a slice, in one piece and with one thread: what is measured is the daemon.
    runner = Runner(model, 1)
    with SliceClient(socket, model) as client:
        asks: dict[str, Callable[[], Future[Any]]] = {
            "direct": lambda: _directly(runner, given),
            "slice": lambda: client.submit(given),
        }
        pipe.send("ready")
        while (told := pipe.recv())[0] != "end":
            if told[0] in asks:
                pipe.send(_timed(asks[told[0]], *told[1:]))
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


def _directly(runner: Any, given: Any) -> Future[Any]:
    made: Future[Any] = Future()
    made.set_result(runner.answer(("run", 0, given, 0, 1, 1)))
    return made


def summarise(found: Found) -> dict[str, Any]:
    """Ratios of quantiles over all requests of all rounds; `..._from` and `..._to` hold 95 % of what chance makes."""

    def ratio(name: str, over: tuple[str, ...], under: tuple[str, ...], quantile: float, clock: int = 0) -> None:
        sides = _rounds(found, over, clock), _rounds(found, under, clock)
        chance = np.random.default_rng(1)
        rounds = len(sides[0])
        drawn = [_ratio(*sides, quantile, chance.integers(0, rounds, rounds)) for _ in range(DRAWS)]
        low, high = np.quantile(drawn, (0.025, 0.975))
        key = f"{'device_' if clock else ''}p{round(quantile * 100)}_{name}"
        values = {key: _ratio(*sides, quantile, np.arange(rounds)), f"{key}_from": low, f"{key}_to": high}
        told.update({name: round(float(value), 4) for name, value in values.items()})

    told: dict[str, Any] = {"requests_beside_greedy": sum(len(one[0]) for one in found["beside-greedy"])}
    # The quickest tenth tells what the daemon takes by itself, whatever else the machine does.
    for quantile in (0.1, 0.5):
        ratio("slice_vs_direct", ALONE, ("direct",), quantile)
    for quantile in (0.5, 0.99):
        ratio("beside_greedy_vs_alone", ("beside-greedy",), ALONE, quantile)
    ratio("alone_again_vs_alone", ("slice-again",), ("slice",), 0.99)
    for quantile in (0.5, 0.99):
        ratio("beside_greedy_vs_alone", ("beside-greedy",), ALONE, quantile, clock=1)
    return told


def _rounds(found: Found, ways: tuple[str, ...], clock: int) -> Any:
    """A row for each round, with the requests of all these ways."""
    least = min(len(one[clock]) for way in ways for one in found[way])
    return np.hstack([np.stack([one[clock][:least] for one in found[way]]) for way in ways])


def _ratio(over: Any, under: Any, quantile: float, rounds: Any) -> float:
    """Of the quantiles over these rounds."""
    return float(np.quantile(over[rounds], quantile) / np.quantile(under[rounds], quantile))


def _figures(rows: list[dict[str, Any]]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure()
    for field in ("p50_ms", "p99_ms"):
        figure.add_bar(name=field, x=[row["policy"] for row in rows], y=[row[field] for row in rows])
    figure.update_layout(title="Latency of one model, ms", barmode="group")
    return [figure]
