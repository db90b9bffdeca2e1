"""`dure bench surge`: two services on nine devices, as an elastic group and each alone.

The services of `dure demo surge` in virtual time. Alone, each is scaled by Dure's replica policy into whatever
devices are free; in the group, devices also change hands (`plane.pooling`). Courses: the demo's own script, surges in
turn, surges that overlap, levels that wander every two minutes, and square waves in opposite phase. Same seed, same
requests.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import click
from msgspec.structs import replace

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.bench.gap import seeds
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.embedded.demo import Script, Surge, service_of, surge_of
from dure.embedded.week import SETTLE_STEPS, START_S
from dure.embedded.world import EmbeddedWorld
from dure.files import read_text
from dure.files.builtin import catalogue
from dure.model.units import HOUR_S, Seconds

STEP_S: Seconds = 10.0
# Nobody surges before both run.
SETTLED_S, REST_S = 600.0, 600.0
FIRST, SECOND = "model-a", "model-b"
WAYS = ("alone", "group")
WAVES_S = (180.0, 300.0, 600.0)
COURSES = ("script", "turns", "overlap", "wander", *(f"wave {half_s:.0f} s" for half_s in WAVES_S))
FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: shared}
spec:
  currency: KRW
  clusters:
    - name: seoul
      region: kr-seoul
      timezone: Asia/Seoul
      grid: KR
      connect: {embedded: {}}
      pools:
        - {name: a10g, class: a10g, nodes: 3, devices: 3, share: [exclusive, mps], price: {owned: 500/h}}
  tenants:
    - {name: search, weight: 1}
"""


@click.command("surge")
@click.option("--seeds", "seed_text", default="1..4", show_default=True, help="1..3, 2 or 1,4.")
@bench_options
def command(seed_text: str, as_json: bool, report: Path | None) -> None:
    """Late requests when services surge, as an elastic group and each alone.

    \b
    Example:
      dure bench surge --json
      dure bench surge --seeds 21..28
    """
    rows: list[Row] = []
    for course in COURSES:
        for seed in seeds(seed_text):
            rows += [play(course, seed, way) for way in WAYS]
        click.echo(f"{course}: {rows[-1]}", err=True)
    emit(Result("surge", rows, summary(rows)), as_json=as_json, report=report)


def surges(course: str, seed: int) -> tuple[Surge, ...]:
    """Who gets how many times its mean rate, when and for how long."""
    drawn, found, at_s = random.Random(f"{course}/{seed}"), list[Surge](), SETTLED_S
    match course.split()[0]:
        case "script":
            return tuple(replace(one, after_s=one.after_s + SETTLED_S) for one in _script().surges)
        case "turns":
            for number in range(6):
                for_s = drawn.uniform(600.0, 1500.0)
                found.append(Surge((FIRST, SECOND)[number % 2], drawn.uniform(3.5, 6.0), at_s, for_s))
                at_s += for_s + drawn.uniform(0.0, 300.0)
        case "overlap":
            for _ in range(4):
                for_s, behind_s = drawn.uniform(900.0, 1800.0), drawn.uniform(0.0, 600.0)
                found.append(Surge(FIRST, drawn.uniform(2.5, 4.5), at_s, for_s))
                found.append(Surge(SECOND, drawn.uniform(2.5, 4.5), at_s + behind_s, for_s))
                at_s += for_s + behind_s + drawn.uniform(60.0, 600.0)
        case "wander":
            levels = dict.fromkeys((FIRST, SECOND), 2.5)
            for number in range(60):
                for name, level in levels.items():
                    levels[name] = min(6.0, max(0.8, level * math.exp(drawn.gauss(0.0, 0.35))))
                    found.append(Surge(name, levels[name], SETTLED_S + number * 120.0, 120.0))
        case _:
            half_s = float(course.split()[1])
            for number in range(int(5400.0 / half_s)):
                found.append(Surge((FIRST, SECOND)[number % 2], 5.0, SETTLED_S + number * half_s, half_s))
    return tuple(found)


def play(course: str, seed: int, way: str) -> Row:
    fleet, known, group = read_text(FLEET, "shared").fleets[0], catalogue(), _script().group
    clock, store = VirtualClock(START_S), MemoryStore()
    world = EmbeddedWorld(fleet, known, store, clock, seed=seed)
    world.plane.pooling.groups = (group,) if way == "group" else ()
    world.submit([service_of(name, group, fleet, known) for name in group.primary])
    coming = sorted(surges(course, seed), key=lambda one: (one.after_s, one.workload))
    end_s = START_S + max(one.after_s + one.for_s for one in coming) + REST_S
    held, replica_s, moved = dict.fromkeys(group.primary, 0), 0.0, 0
    while clock.now() < end_s:
        while coming and START_S + coming[0].after_s <= clock.now() + STEP_S:
            one = coming.pop(0)
            since_s = START_S + one.after_s
            world.clusters["seoul"].surge(one.workload, one.factor, since_s, since_s + one.for_s)
        for _ in range(SETTLE_STEPS):
            if not world.step():
                break
        for record in store.list_workloads(ended=False):
            now = record.status.placement.replicas if record.status.placement else 0
            moved += abs(now - held[record.name]) if held[record.name] else 0
            held[record.name], replica_s = now, replica_s + now * STEP_S
        clock.advance(clock.now() + STEP_S)
    world.plane.close_books()
    counted = {one.name: (one.status.requests or 0, one.status.requests_good or 0) for one in store.list_workloads()}
    late = {name: asked - good for name, (asked, good) in counted.items()}
    asked = sum(asked for asked, _ in counted.values())
    return {
        "policy": way, "input": course, "seed": seed, "requests": asked, "late": sum(late.values()),
        **{f"late_{name}": round(late[name] / counted[name][0], 5) for name in group.primary},
        "replica_hours": round(replica_s / HOUR_S, 2), "moved": moved,
    }  # fmt: skip


def summary(rows: list[Row]) -> dict[str, Cell]:
    """Of each course: the part that was late, and replicas that were started or stopped, over all seeds."""
    told: dict[str, Cell] = {}
    for course in COURSES:
        for way in WAYS:
            mine = [row for row in rows if row["policy"] == way and row["input"] == course]
            asked, late, moved = (
                sum(int(row[figure] or 0) for row in mine) for figure in ("requests", "late", "moved")
            )
            told[f"{course}, {way}: late"] = round(late / asked, 4)
            told[f"{course}, {way}: moved"] = round(moved / len(mine), 1)
    return told


def _script() -> Script:
    return surge_of(FIRST, SECOND, 5.6, 1800.0)
