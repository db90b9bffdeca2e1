"""`dure bench place`: money, CO2, misses and waiting over real regions, ours against the rules that fleets use today.

PAI or Philly jobs over 6 or 12 regions with real tariffs and grids. Rows are one policy in one world; the rows of the
floor are Lagrangian bounds that no plan that keeps every deadline and stops nobody can go under. Ratios are to the
fixed order (Seoul first).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from dure.bench.gap import seeds as parse_seeds
from dure.bench.place_floor import Bound, bounds, in_time, served
from dure.bench.place_moves import HONEST, policy_of, with_moves
from dure.bench.place_moving_floor import moving_bound
from dure.bench.place_ours import jointly
from dure.bench.place_rules import CHEAPEST, FIXED, rules
from dure.bench.place_summary import IN_TIME, MOVES, OURS, figures, summary, told
from dure.bench.place_world import PLACES, World, fleet_of, jobs_of, slots_of
from dure.bench.progress import Journal
from dure.bench.regions import regions
from dure.bench.replay import SLOTS_PER_HOUR, Fleet, Jobs, Outcome
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.files.params import FiniteRange
from dure.place.settings import PlaceSettings
from dure.place.solver import Method

# The carbon prices that draw our front. After that the gap around "lowest price + 1 %" is halved, at most so often,
# until a plan pays all but so small a part of what it may.
CARBON_USD_PER_T = (0, 100, 400, 1600, 6400, 25600)
HALVINGS = 9
UNSPENT = 0.002


class Cells(msgspec.Struct, frozen=True):
    rows: list[dict[str, Cell]]


@click.command("place")
@click.option("--trace", "traces", type=click.Choice(["pai", "philly"]), multiple=True, help="Default: both.")
@click.option("--places", type=click.Choice([*PLACES]), multiple=True, help="Default: six, dirty, twelve.")
@click.option("--prices", type=click.Choice(["spot", "on-demand"]), multiple=True, help="Default: both.")
@click.option("--use", "uses", type=FiniteRange(0.01, 0.95), multiple=True, help="Default: 0.3 and 0.6.")
@click.option("--slack", "slacks", type=click.Choice(["1.5x", "24h"]), multiple=True, help="Default: 1.5x.")
@click.option("--jobs", default=3000, show_default=True, help="Jobs of the trace to replay.")
@click.option("--iterations", default=40, show_default=True, help="Of ruin and recreate, per waiting job and hour.")
@click.option("--moves/--no-moves", default=True, show_default=True, help="Also ours with those who run asked too.")
@click.option("--seeds", "seed_text", default="1..3", show_default=True, help="1..3, 2 or 1,4: stretch and week.")
@click.option("--resume", type=click.Path(dir_okay=False, path_type=Path), help="Keep finished cells in this file.")
@bench_options
def command(
    traces: tuple[str, ...], places: tuple[str, ...], prices: tuple[str, ...], uses: tuple[float, ...],
    slacks: tuple[str, ...], jobs: int, iterations: int, moves: bool, seed_text: str, resume: Path | None,
    as_json: bool, report: Path | None,
) -> None:  # fmt: skip
    """Money, CO2 and misses over real regions against the rules fleets use today.

    \b
    Example:
      dure bench place --trace pai --places six --prices spot --seeds 1 --json
      dure bench place --resume place.jsonl --report place.html
    """
    worlds = [
        World(trace, where, price, use, slack, seed, jobs)
        for trace in traces or ("pai", "philly")
        for where in places or ("six", "dirty", "twelve")
        for price in prices or ("spot", "on-demand")
        for use in uses or (0.3, 0.6)
        for slack in slacks or ("1.5x",)
        for seed in parse_seeds(seed_text)
    ]
    kept = Journal(resume, Cells, f"place {iterations}{' moves' if moves else ''}")
    rows: list[Row] = []
    for number, world in enumerate(worlds, 1):
        key = f"{world.kind} {world.seed} {world.jobs}"
        found = kept.get(key)
        if found is None:
            found = Cells(cells(world, iterations, moves=moves))
            kept.add(key, found)
        rows += found.rows
        click.echo(f"{number}/{len(worlds)} {key}: {told(found.rows)}", err=True)
    drawn = figures(rows) if report else ()
    emit(Result("place", rows, summary(rows)), as_json=as_json, report=report, figures=drawn)


def cells(world: World, iterations: int, *, moves: bool = True) -> list[dict[str, Cell]]:
    """Every policy in one world, the bounds of the floor last."""
    chosen = regions(PLACES[world.places])
    work = jobs_of(world, len(chosen))
    fleet = fleet_of(world, chosen, slots_of(work))
    known = rules(work, fleet)
    fixed, limit = known[FIXED], 1.01 * known[CHEAPEST].money
    rows = [_row(world, name, 0, found, work, fixed) for name, found in known.items()]
    settings = PlaceSettings(method=Method.RUIN, iterations_per_job=iterations)
    ours = front(lambda usd: jointly(work, fleet, usd / 1e6, settings, world.seed), limit)
    rows += [_row(world, OURS, usd_per_t, found, work, fixed) for usd_per_t, found in ours.items()]
    proven = bounds(work, fleet, [*known.values(), *ours.values()])
    if ours[0].missed:
        mine = in_time(work, fleet, ours[0])
        ratio = mine.money / mine.floor
        rows.append({**_labels(world, IN_TIME[OURS], 0), "money": mine.money, "money_ratio": ratio})
    if moves:
        aside = policy_of(settings)
        moved = front(lambda usd: with_moves(work, fleet, usd / 1e6, aside, world.seed).outcome, limit)
        rows += [_row(world, MOVES, usd_per_t, found, work, fixed) for usd_per_t, found in moved.items()]
        rows.append({**_labels(world, IN_TIME[MOVES], 0), **_moved(work, fleet, moved[0], proven[0])})
    return [
        *rows,
        *(
            {
                **_labels(world, "floor", bound.usd_per_t),
                "money": bound.value,
                "money_ratio": bound.value / fixed.money,
            }
            for bound in proven
        ),
    ]


def _moved(work: Jobs, fleet: Fleet, plan: Outcome, floor: Bound) -> dict[str, Cell]:
    """Money of the jobs that a plan with moves serves in time, by the floor of plans without and of plans with."""
    mine, money = served(work, plan), float(plan.paid[~plan.late].sum())
    still = in_time(work, fleet, plan).floor if plan.missed else floor.value
    moving = moving_bound(mine, fleet, HONEST.slots, money)
    return {"money": money, "money_ratio": money / still, "moving_ratio": money / moving}


def front(at: Callable[[int], Outcome], limit: float) -> dict[int, Outcome]:
    """Plans at each carbon price, then at more of them around where the money passes `limit`; by carbon price."""
    found = {usd_per_t: at(usd_per_t) for usd_per_t in CARBON_USD_PER_T}
    within = max((usd for usd, one in found.items() if one.money <= limit), default=None)
    if within is None:
        return found
    beyond = min((usd for usd, one in found.items() if usd > within and one.money > limit), default=None)
    while beyond is not None and len(found) < len(CARBON_USD_PER_T) + HALVINGS and beyond - within > 1:
        if found[within].money >= (1 - UNSPENT) * limit:
            break
        middle = (within + beyond) // 2
        found[middle] = at(middle)
        if found[middle].money <= limit:
            within = middle
        else:
            beyond = middle
    return dict(sorted(found.items()))


def _labels(world: World, policy: str, usd_per_t: int) -> dict[str, Cell]:
    return {
        "trace": world.trace, "places": world.places, "prices": world.prices, "use": world.use, "slack": world.slack,
        "seed": world.seed, "jobs": world.jobs, "policy": policy, "usd_per_t": usd_per_t,
    }  # fmt: skip


def _row(world: World, policy: str, usd_per_t: int, found: Outcome, work: Jobs, fixed: Outcome) -> dict[str, Cell]:
    return {
        **_labels(world, policy, usd_per_t),
        "money": found.money,
        "money_ratio": found.money / fixed.money,
        "co2_kg": found.grams / 1000,
        "co2_ratio": found.grams / fixed.grams,
        "missed_pct": 100 * found.missed / len(work.arrival),
        "waited_h": found.waited_slots / SLOTS_PER_HOUR,
        "moves": found.moves,
        "pauses": found.pauses,
    }
