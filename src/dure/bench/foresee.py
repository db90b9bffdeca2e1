"""`dure bench foresee`: what it is worth to see a broken promise coming, on the demo's servings.

The demo's fleet in virtual time with its servings alone. Besides the clock of the day each has a rush hour that
comes every day within a quarter of an hour of the same time, and once a day a surge that nobody can know of. Three
ways: as many replicas as at the beginning, the trend of the late share, and the foreseen risk. Same seed, same
requests.
"""

from __future__ import annotations

import random
from pathlib import Path

import click

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.adapters.memory.stream import standing
from dure.bench.gap import seeds
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.embedded.week import SETTLE_STEPS, START_S
from dure.embedded.world import EmbeddedWorld
from dure.files.builtin import catalogue, demo_fleet
from dure.model.units import DAY_S, HOUR_S, Instant, Seconds
from dure.model.workload import WorkloadType

STEP_S: Seconds = 120.0
RUSH_S, SURGE_S = 1.5 * HOUR_S, 0.5 * HOUR_S
WAYS = ("fixed", "trend", "foresee")
# (when, until, workload, factor): times the mean rate of the workload.
Rush = tuple[Instant, Instant, str, float]


@click.command("foresee")
@click.option("--days", type=click.IntRange(1, 60), default=3, show_default=True, help="How long the fleet runs.")
@click.option("--seeds", "seed_text", default="1..4", show_default=True, help="1..3, 2 or 1,4.")
@click.option(
    "--part", type=click.Choice(["both", "servings", "device"]), default="both", show_default=True,
    help="The demo's servings, one shared device, or both.",
)  # fmt: skip
@click.option("--seconds", type=click.IntRange(20, 3600), default=60, show_default=True, help="Of the device's time.")
@bench_options
def command(days: int, seed_text: str, part: str, seconds: int, as_json: bool, report: Path | None) -> None:
    """Promises kept and money spent, with and without foresight.

    \b
    Example:
      dure bench foresee --json
      dure bench foresee --part servings --days 5 --seeds 1..8
    """
    rows: list[Row] = []
    for seed in seeds(seed_text):
        if part != "device":
            for way in WAYS:
                rows.append(course(way, days, seed))
                click.echo(f"{rows[-1]}", err=True)
        if part != "servings":
            from dure.bench import foresee_device

            for foresees in (False, True):
                rows.append(foresee_device.course(foresees, seconds, seed))
                click.echo(f"{rows[-1]}", err=True)
    emit(Result("foresee", rows, _summary(rows)), as_json=as_json, report=report)


def rushes(names: list[str], days: int, seed: int) -> list[Rush]:
    """A rush hour every day at about the same time, and a surge once a day at any time; none overlap."""
    found: list[Rush] = []
    for name in names:
        drawn = random.Random(f"{seed}/{name}")
        hour_s, factor = drawn.uniform(0.0, 12.0) * HOUR_S, drawn.uniform(2.4, 3.4)
        for day in range(days):
            begin_s = START_S + day * DAY_S
            rush_s = begin_s + hour_s + drawn.uniform(-900.0, 900.0) + 900.0
            found.append((rush_s, rush_s + RUSH_S, name, factor * drawn.uniform(0.92, 1.08)))
            surge_s = begin_s + drawn.uniform(14.5, 23.0) * HOUR_S
            found.append((surge_s, surge_s + SURGE_S, name, drawn.uniform(2.4, 3.4)))
    return sorted(found)


def course(way: str, days: int, seed: int) -> Row:
    fleet, known = demo_fleet(), catalogue()
    clock, store = VirtualClock(START_S), MemoryStore()
    world = EmbeddedWorld(fleet, known, store, clock, seed=seed, idle_s=STEP_S)
    world.plane.bursting.foresees = way == "foresee"
    if way == "fixed":
        world.plane.bursting.act = lambda *_: None  # type: ignore[method-assign]
    servings = [one for one in standing(fleet, known) if one.slo.latency_p95_ms is not None]
    world.submit(servings)
    coming = rushes([one.name for one in servings], days, seed)
    replica_s = 0.0
    while clock.now() < START_S + days * DAY_S:
        while coming and coming[0][0] <= clock.now() + STEP_S:
            since_s, until_s, name, factor = coming.pop(0)
            for cluster in world.clusters.values():
                cluster.surge(name, factor, since_s, until_s)
        for _ in range(SETTLE_STEPS):
            if not world.step():
                break
        records = store.list_workloads(ended=False)
        replica_s += STEP_S * sum(one.status.placement.replicas for one in records if one.status.placement)
        clock.advance(clock.now() + STEP_S)
    world.plane.close_books()
    return _row(way, days, seed, store, replica_s)


def _row(way: str, days: int, seed: int, store: MemoryStore, replica_s: float) -> Row:
    records = [one for one in store.list_workloads() if one.spec.type is WorkloadType.SERVING]
    asked = sum(one.status.requests or 0 for one in records)
    good = sum(one.status.requests_good or 0 for one in records)
    kept = [(one.status.requests_good or 0) / max(1, one.status.requests or 0) for one in records]
    return {
        "policy": way, "input": f"{days} days", "seed": seed, "requests": asked,
        "attained": round(good / asked, 5), "attained_worst": round(min(kept), 5),
        "attained_mean": round(sum(kept) / len(kept), 5),
        "late": asked - good, "replica_hours": round(replica_s / HOUR_S, 1),
        "cost": round(sum(one.status.spent_micros for one in records) / 1e6),
    }  # fmt: skip


def _summary(rows: list[Row]) -> dict[str, Cell]:
    told: dict[str, Cell] = {}
    if any(row["policy"] == WAYS[0] for row in rows):
        told |= _of_servings([row for row in rows if row["policy"] in WAYS])
    device = [row for row in rows if row["policy"] not in WAYS]
    if device:
        ahead, behind = (
            {figure: sum(int(row[figure] or 0) for row in device if row["policy"] == f"equation 3 {way}")
             for figure in ("late", "batch_done")}
            for way in ("ahead", "behind")
        )  # fmt: skip
        told["device_late_against_behind"] = round(ahead["late"] / max(1, behind["late"]), 3)
        told["device_batch_against_behind"] = round(ahead["batch_done"] / max(1, behind["batch_done"]), 3)
    return told


def _of_servings(rows: list[Row]) -> dict[str, Cell]:
    def mean(way: str, figure: str) -> float:
        found = [float(row[figure] or 0.0) for row in rows if row["policy"] == way]
        return sum(found) / len(found)

    told: dict[str, Cell] = {}
    for way in WAYS:
        told[f"{way}_attained_mean"] = round(mean(way, "attained_mean"), 4)
        told[f"{way}_attained_worst"] = round(mean(way, "attained_worst"), 4)
    for rival in ("fixed", "trend"):
        told[f"late_against_{rival}"] = round(mean("foresee", "late") / mean(rival, "late"), 3)
        told[f"cost_against_{rival}"] = round(mean("foresee", "cost") / mean(rival, "cost"), 3)
    pairs = {row["seed"] for row in rows}
    late = {(row["policy"], row["seed"]): int(row["late"] or 0) for row in rows}
    told["seeds_with_fewer_late_than_trend"] = sum(late["foresee", s] < late["trend", s] for s in pairs)
    told["seeds"] = len(pairs)
    return told
