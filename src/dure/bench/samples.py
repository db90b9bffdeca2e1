"""`dure bench samples`: how many samples a minute are read, kept and found again, against the plainest ways to do it.

Pages of a DCGM exporter's form for a fleet of devices, one every ten seconds of the fleet's time. Reading is
compared with the client library's parser, keeping with one row for each sample in SQLite. Both stores get the same
samples in the same order and must answer the same.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from dure.adapters.metrics import SqliteMetrics
from dure.adapters.metrics.exposition import Reader
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.model.sample import Sample
from dure.model.units import Instant
from dure.watch.foreign import DCGM, signal_of

START_S = 1_767_571_200.0
EVERY_S = 10.0
WANTED_PER_MINUTE = 1_000_000


@click.command("samples")
@click.option(
    "--devices", type=click.IntRange(1, 1_000_000), default=1_000, show_default=True, help="Each shows 19 figures."
)
@click.option(
    "--scrapes",
    type=click.IntRange(1, 100_000),
    default=120,
    show_default=True,
    help="Pages of each, one every 10 s.",
)
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Times the whole is done anew."
)
@bench_options
def command(devices: int, scrapes: int, rounds: int, as_json: bool, report: Path | None) -> None:
    """Samples a minute: read, kept, downsampled, found again.

    \b
    Example:
      dure bench samples --json
      dure bench samples --devices 5000 --scrapes 90
    """
    rows: list[Row] = []
    for seed in range(1, rounds + 1):
        for part in (_reading(devices, seed), _keeping(devices, scrapes, seed)):
            rows.extend(part)
            for row in part:
                click.echo(f"round {seed}: {row}", err=True)
    emit(Result("samples", rows, _summary(rows)), as_json=as_json, report=report)


def page(devices: Iterable[int], seed: int, at: int) -> str:
    """What exporters show of these devices at one moment."""
    lines = []
    for name in DCGM:
        lines.append(f"# TYPE {name} gauge")
        for device in devices:
            value = (device * 7919 + at * 104_729 + seed * 31 + len(name) * 17) % 9973 / 100
            node, index = divmod(device, 8)
            lines.append(
                f'{name}{{gpu="{index}",UUID="GPU-{device:08x}",device="nvidia{index}",modelName="NVIDIA H100 80GB '
                f'HBM3",Hostname="node-{node}",container="main",namespace="team-{device % 40}",pod="work-{device}-0"'
                f"}} {value:.2f}"
            )
    return "\n".join(lines) + "\n"


def _reading(devices: int, seed: int) -> list[Row]:
    """A second page of a target, which is what all but the first are."""
    from prometheus_client.parser import text_string_to_metric_families

    few = min(devices, 500)
    first, second = (page(range(few), seed, at) for at in (0, 1))
    reader = Reader(signal_of)
    reader.read(first, START_S)
    own_s, own = _timed(lambda: reader.read(second, START_S))
    plain_s, plain = _timed(lambda: [s for family in text_string_to_metric_families(second) for s in family.samples])
    if len(own) != len(plain):
        raise AssertionError(f"{len(own)} samples read, the library reads {len(plain)}")
    found = {"read": (own_s, "dure"), "read-library": (plain_s, "prometheus-client")}
    return [_row("read", policy, few, seed, len(own), took) for took, policy in found.values()]


def _keeping(devices: int, scrapes: int, seed: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="dure-samples-") as folder:
        stores: dict[str, SqliteMetrics | _RowStore] = {
            "dure": SqliteMetrics(Path(folder) / "columns.db"),
            "rows": _RowStore(Path(folder) / "rows.db"),
        }
        spent = {name: [0.0, 0.0] for name in stores}
        reader, count = Reader(signal_of), 0
        for at in range(scrapes):
            text = page(range(devices), seed, at)
            samples = reader.read(text, START_S + at * EVERY_S)
            count += len(samples)
            for name, store in stores.items():
                took, _ = _timed(lambda store=store, samples=samples: store.write_samples(samples))  # type: ignore[misc]
                spent[name] = [spent[name][0] + took, max(spent[name][1], took)]
        rows: list[Row] = []
        answers = {}
        for name, store in stores.items():
            span = (START_S, START_S + scrapes * EVERY_S)
            query_s, found = _timed(lambda store=store, span=span: store.fetch_samples(_ASKED, *span))  # type: ignore[misc]
            answers[name] = found
            size = sum(file.stat().st_size for file in Path(folder).glob("columns*" if name == "dure" else "rows*"))
            extra: dict[str, Cell] = {
                "worst_write_ms": round(1000 * spent[name][1], 1), "query_ms": round(1000 * query_s, 1),
                "found": len(found), "bytes_per_sample": round(size / count, 1),
            }  # fmt: skip
            rows.append({**_row("keep", name, devices, seed, count, spent[name][0]), **extra})
            store.close()
        if answers["dure"] != answers["rows"]:
            raise AssertionError("the two stores answer differently")
        return rows


_ASKED = "dure_device_busy_ratio"


class _RowStore:
    """The rival: a row for each sample, found by series and time."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(
            "pragma journal_mode=wal; pragma synchronous=normal;"
            "create table sample (series integer, at_s real, value real, primary key (series, at_s)) without rowid;"
        )
        self._ids: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}

    def write_samples(self, samples: Iterable[Sample]) -> None:
        self._db.execute("begin")
        self._db.executemany("insert or ignore into sample values (?, ?, ?)", self._rows(samples))
        self._db.execute("commit")

    def _rows(self, samples: Iterable[Sample]) -> Iterable[tuple[int, Instant, float]]:
        for sample in samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            yield self._ids.setdefault(key, len(self._ids)), sample.at_s, sample.value

    def fetch_samples(self, name: str, since_s: Instant, until_s: Instant) -> tuple[Sample, ...]:
        found = []
        query = "select at_s, value from sample where series = ? and at_s between ? and ?"
        for (own, labels), number in sorted(self._ids.items()):
            if own == name:
                rows = self._db.execute(query, (number, since_s, until_s))
                found += [Sample(name, dict(labels), at_s, value) for at_s, value in rows]
        return tuple(found)

    def close(self) -> None:
        self._db.close()


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def _row(step: str, policy: str, devices: int, seed: int, samples: int, took_s: float) -> dict[str, Cell]:
    return {
        "step": step, "policy": policy, "input": f"{devices} devices", "seed": seed, "samples": samples,
        "seconds": round(took_s, 3), "samples_per_minute": round(60 * samples / took_s),
    }  # fmt: skip


def _summary(rows: list[Row]) -> dict[str, Cell]:
    def rate(step: str, policy: str) -> float:
        rates = sorted(
            float(row["samples_per_minute"] or 0) for row in rows if row["step"] == step and row["policy"] == policy
        )
        return rates[len(rates) // 2]

    read, keep = rate("read", "dure"), rate("keep", "dure")
    both = 1 / (1 / read + 1 / keep)
    return {
        "read_per_minute": round(read), "read_against_library": round(read / rate("read", "prometheus-client"), 1),
        "keep_per_minute": round(keep), "keep_against_rows": round(keep / rate("keep", "rows"), 2),
        "read_and_keep_per_minute": round(both), "of_a_processor_at_1m": round(WANTED_PER_MINUTE / both, 3),
        "reaches_1m": both >= WANTED_PER_MINUTE,
    }  # fmt: skip
