"""`dure bench api`: GET of one workload through the whole API, against a Litestar handler that does nothing else.

Both answer the same record, in one process and one event loop, in turns; processor time is counted, so that other
work on the machine does not. Dure's side has its gate (host, token, headers), metrics, ETag and the SQLite store.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
from litestar import Litestar, get
from litestar.params import FromPath

from dure.bench.result import Result, Row, bench_options, emit
from dure.model.errors import Permanent
from dure.model.workload import WorkloadRecord

_TOKEN = "a-token-for-the-benchmark-alone"
_HEADERS = [
    (b"host", b"127.0.0.1"),
    (b"authorization", f"Bearer {_TOKEN}".encode()),
    (b"accept", b"application/json"),
    (b"user-agent", b"dure-bench"),
]
App = Callable[[Any, Any, Any], Awaitable[None]]


@click.command()
@click.option("--requests", type=click.IntRange(1), default=1000, show_default=True, help="Requests in each round.")
@click.option(
    "--rounds", type=click.IntRange(1), default=15, show_default=True, help="Rounds of each side, in turns."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the demo's workloads.")
@bench_options
def command(requests: int, rounds: int, seed: int, as_json: bool, report: Path | None) -> None:
    """Measure GET of one workload as a ratio to a bare Litestar handler.

    \b
    Example:
      dure bench api --rounds 30 --json
    """
    with tempfile.TemporaryDirectory() as folder:
        result = _measure(Path(folder), requests, rounds, seed)
    emit(result, as_json=as_json, report=report, figures=[_figure(result)] if report else ())


def _measure(folder: Path, requests: int, rounds: int, seed: int) -> Result:
    from dure.api.app import create_app
    from dure.api.auth import Keys
    from dure.embedded.live import LiveFleet
    from dure.files.builtin import catalogue, demo_fleet

    live = LiveFleet(demo_fleet(), catalogue(), folder, speed=1.0, seed=seed)
    try:
        live.turn()
        record = live.store.list_workloads()[0]
        sides: dict[str, App] = {
            "bare": _bare(record),
            "dure": create_app(live.desk, Keys(_TOKEN)).asgi,
        }
        times = asyncio.run(_in_turns(sides, f"/v1/workloads/{record.name}", requests, rounds))
    finally:
        live.store.close()
    rows: list[Row] = [
        {"policy": side, "input": "GET one workload", "seed": seed, "round": number, "cpu_us": round(value, 2)}
        for side, values in times.items()
        for number, value in enumerate(values)
    ]
    medians = {side: statistics.median(values) for side, values in times.items()}
    summary = {
        "ratio": round(medians["dure"] / medians["bare"], 3),
        "dure_cpu_us": round(medians["dure"], 1),
        "bare_cpu_us": round(medians["bare"], 1),
        "requests": requests * rounds,
    }
    return Result("api", rows, summary)


def _bare(record: WorkloadRecord) -> App:
    @get("/v1/workloads/{name:str}", sync_to_thread=False)
    def fetch(name: FromPath[str]) -> WorkloadRecord:
        assert name
        return record

    app: Any = Litestar([fetch], openapi_config=None, logging_config=None)
    return app  # type: ignore[no-any-return]  # Litestar types ASGI messages one by one


async def _in_turns(sides: dict[str, App], path: str, requests: int, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(-1, rounds):
        for side, app in sides.items():
            spent = await _round(app, path, requests)
            # The first round fills caches and is not counted.
            if number >= 0:
                times[side].append(spent)
        if sys.stderr.isatty():
            click.echo(f"\rround {number + 1} of {rounds}", nl=number + 1 == rounds, err=True)
    return times


async def _round(app: App, path: str, requests: int) -> float:
    """Processor microseconds of one request."""
    statuses: set[int] = set()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.add(message["status"])

    began = time.process_time()
    for _ in range(requests):
        await app(_scope(path), receive, send)
    spent = time.process_time() - began
    if statuses != {200}:
        raise Permanent(f"GET {path} was answered with {sorted(statuses)}")
    return spent / requests * 1e6


def _scope(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(_HEADERS),
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }


def _figure(result: Result) -> Any:
    import plotly.graph_objects as graph

    figure = graph.Figure(layout={"title": "Processor time of one request", "yaxis_title": "µs"})
    for side in ("bare", "dure"):
        figure.add_trace(graph.Box(y=[row["cpu_us"] for row in result.rows if row["policy"] == side], name=side))
    return figure
