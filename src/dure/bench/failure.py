"""`dure bench failure`: the plane stopped for an hour, a site lost for hours: jobs lost, time to recover, extra cost.

The demo's fleet and stream in virtual time. Clusters live on while the plane is away; a lost site keeps what ran
there to itself and comes back with it. All is as it was when every workload has been decided on again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.adapters.memory.stream import arrivals, standing
from dure.bench.gap import seeds
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.embedded.week import IDLE_S, SETTLE_STEPS, START_S
from dure.embedded.world import EmbeddedWorld
from dure.files.builtin import catalogue, demo_fleet
from dure.files.params import NOT_NEGATIVE, POSITIVE
from dure.model.units import HOUR_S, Instant
from dure.model.workload import Phase

STEP_S = 120.0


class Course(msgspec.Struct, frozen=True):
    """What became of all workloads, and how many nobody had decided on at each look."""

    submitted: int
    done: frozenset[str]
    failed: frozenset[str]
    unknown: int
    cost: float
    undecided: tuple[int, ...]


@click.command("failure")
@click.option("--hours", type=POSITIVE, default=18.0, show_default=True, help="How long the fleet runs.")
@click.option("--at", "at_h", type=NOT_NEGATIVE, default=6.0, show_default=True, help="Hour of the failure.")
@click.option("--plane-away", type=NOT_NEGATIVE, default=1.0, show_default=True, help="Hours without the plane.")
@click.option("--site-away", type=NOT_NEGATIVE, default=4.0, show_default=True, help="Hours without the site.")
@click.option("--site", default="", help="Which cluster is lost; the first of the fleet without it.")
@click.option("--seeds", "seed_text", default="1", show_default=True, help="1..3, 2 or 1,4.")
@bench_options
def command(
    hours: float, at_h: float, plane_away: float, site_away: float, site: str, seed_text: str, as_json: bool,
    report: Path | None,
) -> None:  # fmt: skip
    """The plane stopped, a site lost: nothing may be lost, and how soon all is as it was.

    \b
    Example:
      dure bench failure --json
      dure bench failure --site cloud-us --site-away 8 --seeds 1..3
    """
    name = site or demo_fleet().clusters[0].info.name
    rows: list[Row] = []
    for seed in seeds(seed_text):
        calm = course(seed, hours)
        for kind, away_h, cut in (("plane", plane_away, _without_plane), ("site", site_away, _without_site(name))):
            begin_s = START_S + at_h * HOUR_S
            hurt = course(seed, hours, cut, (begin_s, begin_s + away_h * HOUR_S))
            rows.append(_row(kind, seed, away_h, begin_s + away_h * HOUR_S, calm, hurt))
            click.echo(f"seed {seed}, {kind}: {rows[-1]}", err=True)
    told: dict[str, Cell] = {}
    for kind in ("plane", "site"):
        mine = [row for row in rows if row["failure"] == kind]
        told[f"{kind}_jobs_lost"] = sum(int(row["jobs_lost"] or 0) for row in mine)
        told[f"{kind}_reconverge_min_worst"] = max(float(row["reconverge_min"] or 0.0) for row in mine)
        told[f"{kind}_extra_cost_pct_mean"] = sum(float(row["extra_cost_pct"] or 0.0) for row in mine) / len(mine)
    emit(Result("failure", rows, told), as_json=as_json, report=report)


Cut = Callable[[EmbeddedWorld], Callable[[], None]]


def course(seed: int, hours: float, cut: Cut | None = None, when: tuple[Instant, Instant] = (0.0, 0.0)) -> Course:
    """Run the demo; from `when[0]` to `when[1]` something is cut."""
    fleet, known = demo_fleet(), catalogue()
    clock, store = VirtualClock(START_S), MemoryStore()
    world = EmbeddedWorld(fleet, known, store, clock, seed=seed, idle_s=IDLE_S)
    coming = [(START_S, one) for one in standing(fleet, known)]
    coming += arrivals(fleet, known, seed, START_S, START_S + hours * HOUR_S)
    end_s = START_S + hours * HOUR_S
    restore: Callable[[], None] | None = None
    undecided = []
    while clock.now() < end_s:
        now_s = clock.now()
        if cut is not None and restore is None and when[0] <= now_s < when[1]:
            restore = cut(world)
        elif cut is not None and restore is not None and now_s >= when[1]:
            restore()
            cut = None
        world.submit([workload for at_s, workload in coming if now_s - STEP_S < at_s <= now_s])
        for _ in range(SETTLE_STEPS):
            if not world.step():
                break
        undecided.append(_undecided(store))
        clock.advance(now_s + STEP_S)
    world.plane.close_books()
    records = store.list_workloads()
    submitted = sum(at_s <= clock.now() - STEP_S for at_s, _ in coming)
    return Course(
        submitted,
        frozenset(one.name for one in records if one.status.phase is Phase.DONE),
        frozenset(one.name for one in records if one.status.phase is Phase.FAILED),
        submitted - len(records),
        float(sum(one.status.spent_micros for one in records)) / 1e6,
        tuple(undecided),
    )


def _undecided(store: MemoryStore) -> int:
    open_ones = store.list_workloads(ended=False)
    return sum(one.status.phase is Phase.PENDING or one.status.leaving_s is not None for one in open_ones)


def _without_plane(world: EmbeddedWorld) -> Callable[[], None]:
    """The loop does not turn; agents go on with what they know."""
    cycle = world.plane.cycle
    world.plane.cycle = lambda: 0  # type: ignore[method-assign]

    def back() -> None:
        world.plane.cycle = cycle  # type: ignore[method-assign]
        world.nudge()

    return back


def _without_site(name: str) -> Cut:
    """Neither its agent nor its API server answers; time goes on there."""

    def cut(world: EmbeddedWorld) -> Callable[[], None]:
        agents = world.agents
        world.agents = [agent for agent in agents if agent.cluster.name != name]
        world.clusters[name].reachable = False

        def back() -> None:
            world.clusters[name].reachable = True
            world.agents = agents
            world.nudge()

        return back

    return cut


def _row(kind: str, seed: int, away_h: float, back_s: Instant, calm: Course, hurt: Course) -> Row:
    first = int((back_s - START_S) / STEP_S)
    looks = range(first, len(hurt.undecided))
    again = next((look for look in looks if hurt.undecided[look] == 0), len(hurt.undecided))
    return {
        "failure": kind, "policy": "dure", "seed": seed, "away_h": away_h, "submitted": hurt.submitted,
        "done": len(hurt.done), "done_without": len(calm.done),
        # A program that ends with an error does so in either course, but perhaps not before the end of both.
        "jobs_lost": hurt.unknown + len(hurt.failed & calm.done),
        "reconverge_min": (again - first) * STEP_S / 60,
        "extra_cost_pct": round(100 * (hurt.cost / calm.cost - 1), 2),
    }  # fmt: skip
