"""`dure bench place`: money, CO2, misses and waiting over real regions, ours against the rules that fleets use today.

PAI or Philly jobs over 6 or 12 regions with real tariffs and grids. Rows are one policy in one world; the Lagrangian
floor is what no policy that keeps every deadline can go under. Ratios are to the fixed order (Seoul first).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click
import msgspec
import numpy as np

from dure.bench.data import data_file, read_rows
from dure.bench.demand import assembled, running_sum
from dure.bench.regions import DIRTY, REGIONS, Region, regions
from dure.bench.replay import SLOTS_PER_HOUR, Fleet, Jobs, Outcome, Pick, by_rule, greenest_wait, jointly
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.model.errors import InvalidInput
from dure.place.instance import Floats, Ints, Longs
from dure.place.prices import congestion_prices
from dure.place.solver import Ascent

DEVICES = 64
CARBON_USD_PER_T = (0, 100, 400, 800, 1600, 3200, 6400, 12800)
REFINEMENTS = 4
PLACES = {"six": REGIONS[:6], "dirty": DIRTY, "twelve": REGIONS}


class World(msgspec.Struct, frozen=True):
    """One cell of the benchmark. `use` is the share of device-hours that the jobs fill; `slack` a factor or hours."""

    trace: str
    places: str
    prices: str
    use: float
    slack: str
    seed: int
    jobs: int


@click.command("place")
@click.option("--trace", "traces", type=click.Choice(["pai", "philly"]), multiple=True, help="Default: both.")
@click.option("--places", type=click.Choice([*PLACES]), multiple=True, help="Default: six, dirty, twelve.")
@click.option("--prices", type=click.Choice(["spot", "on-demand"]), multiple=True, help="Default: both.")
@click.option("--use", "uses", type=click.FloatRange(0.01, 0.95), multiple=True, help="Default: 0.3 and 0.6.")
@click.option("--slack", "slacks", type=click.Choice(["1.5x", "24h"]), multiple=True, help="Default: 1.5x.")
@click.option("--jobs", default=4000, show_default=True, help="Jobs of the trace to replay.")
@click.option("--iterations", default=40, show_default=True, help="Of ruin and recreate, per waiting job and hour.")
@click.option("--seed", default=1, show_default=True)
@bench_options
def command(
    traces: tuple[str, ...], places: tuple[str, ...], prices: tuple[str, ...], uses: tuple[float, ...],
    slacks: tuple[str, ...], jobs: int, iterations: int, seed: int, as_json: bool, report: Path | None,
) -> None:  # fmt: skip
    """Money, CO2 and misses over real regions against the rules fleets use today.

    \b
    Example:
      dure bench place --trace pai --places six --prices spot --json
    """
    rows: list[Row] = []
    for trace in traces or ("pai", "philly"):
        for where in places or tuple(PLACES):
            for price in prices or ("spot", "on-demand"):
                for use in uses or (0.3, 0.6):
                    for slack in slacks or ("1.5x",):
                        world = World(trace, where, price, use, slack, seed, jobs)
                        rows += cells(world, iterations)
                        click.echo(_told(world, rows), err=True)
    figures = _figures(rows) if report else ()
    emit(Result("place", rows, summary(rows)), as_json=as_json, report=report, figures=figures)


def cells(world: World, iterations: int) -> list[Row]:
    """Every policy in one world, the floor last."""
    chosen = regions(PLACES[world.places])
    work = _jobs(world, len(chosen))
    fleet = _fleet(world, chosen, _slots(work))
    base = _baselines(work, fleet)
    fixed = base["fixed-order"]
    rows = [_row(world, name, 0, found, work, fixed) for name, found in base.items()]

    def ours(usd_per_t: int) -> float:
        found = jointly(work, fleet, usd_per_t / 1e6, iterations, world.seed)
        rows.append(_row(world, "ours", usd_per_t, found, work, fixed))
        return found.money

    paid = {usd_per_t: ours(usd_per_t) for usd_per_t in CARBON_USD_PER_T}
    _refined(paid, 1.01 * base["lowest-price"].money, ours)
    floor = _floor(work, fleet, min(found.money for found in base.values()))
    rows.append({**_place_of(world, "floor", 0), "money": floor, "money_ratio": floor / fixed.money})
    return rows


def _refined(paid: dict[int, float], limit: float, ours: Callable[[int], float]) -> None:
    """More points of our front next to where it crosses `limit`: halve the carbon prices between."""
    within = max((usd for usd, money in paid.items() if money <= limit), default=None)
    beyond = min(
        (usd for usd, money in paid.items() if money > limit and (within is None or usd > within)), default=None
    )
    if within is None or beyond is None:
        return
    for _ in range(REFINEMENTS):
        middle = (within + beyond) // 2
        if ours(middle) <= limit:
            within = middle
        else:
            beyond = middle


def summary(rows: list[Row]) -> dict[str, Cell]:
    """The bars: nobody dominates ours, distance to the floor, CO2 saved at lowest price + 1 %, misses."""
    told: dict[str, Cell] = {}
    keys = ("trace", "places", "prices", "use", "slack")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        mine = [row for row in rows if tuple(row[name] for name in keys) == key]
        ours = [row for row in mine if row["policy"] == "ours"]
        rules = [row for row in mine if row["policy"] not in ("ours", "floor")]
        cheapest = next(row for row in rules if row["policy"] == "lowest-price")
        floor = next(row for row in mine if row["policy"] == "floor")
        limit = 1.01 * _n(cheapest["money"])
        within = [_n(row["co2_kg"]) for row in ours if _n(row["money"]) <= limit]
        name = "/".join(str(part) for part in key)
        told[f"{name}: money ratio"] = round(_n(ours[0]["money_ratio"]), 4)
        told[f"{name}: above the floor %"] = round(100 * (_n(ours[0]["money"]) / _n(floor["money"]) - 1), 2)
        told[f"{name}: CO2 saved at lowest price + 1 % %"] = (
            round(100 * (1 - min(within) / _n(cheapest["co2_kg"])), 1) if within else None
        )
        told[f"{name}: dominated by"] = ", ".join(_dominating(ours, rules)) or "nobody"
        told[f"{name}: misses %"] = f"{_n(ours[0]['missed_pct']):.2f} (lowest-price {_n(cheapest['missed_pct']):.2f})"
    return told


def _dominating(ours: list[Row], rules: list[Row]) -> list[str]:
    """Baselines that are at least as good as one of our points in money, CO2 and misses and better in one."""
    found = []
    for rule in rules:
        for point in ours:
            pairs = [(_n(rule[axis]), _n(point[axis])) for axis in ("money", "co2_kg", "missed_pct")]
            if all(a <= b * (1 + 1e-9) for a, b in pairs) and any(a < b * (1 - 1e-6) for a, b in pairs):
                found.append(f"{rule['policy']} over {point['usd_per_t']} USD/t")
    return found


def _baselines(work: Jobs, fleet: Fleet) -> dict[str, Outcome]:
    mean_order = np.argsort(fleet.price.mean(axis=1), kind="stable")
    given = np.arange(fleet.regions)

    def least(values: Callable[[int], Floats]) -> Pick:
        """The region with the smallest value among those that could start now, else the one that starts first."""

        def pick(_: int, slot: int, earliest: Longs, __: Ints) -> int:
            now = earliest == slot
            return int(np.argmin(np.where(now, values(slot), np.inf))) if now.any() else int(np.argmin(earliest))

        return pick

    def ordered(order: Longs) -> Pick:
        rank = np.argsort(order).astype(np.float64)
        return least(lambda _: rank)

    return {
        "home-only": by_rule(work, fleet, lambda *_: 0),
        "round-robin": by_rule(work, fleet, lambda j, *_: j % fleet.regions),
        "most-available": by_rule(work, fleet, lambda _, __, ___, room: int(np.argmax(room))),
        "lowest-price": by_rule(work, fleet, least(lambda slot: fleet.price[:, slot])),
        "price-sorted": by_rule(work, fleet, ordered(mean_order)),
        "fixed-order": by_rule(work, fleet, ordered(given)),
        "lowest-carbon": by_rule(work, fleet, least(lambda slot: fleet.grams[:, slot])),
        "wait-awhile": greenest_wait(work, fleet, 0),
    }


def _floor(work: Jobs, fleet: Fleet, upper: float) -> float:
    """No plan that keeps every deadline it can is cheaper than this."""
    slack = np.maximum(0, work.latest - work.arrival)
    capacity = np.full((*fleet.price.shape, 1), fleet.devices, np.int32)
    hold = (20.0 * float(fleet.price.max()) * work.width * work.length).astype(np.float64)
    inst = assembled(work.arrival, work.length, work.width, slack, running_sum(fleet.price), capacity, hold)
    return congestion_prices(inst, upper, Ascent(steps=300)).bound


def _jobs(world: World, count: int) -> Jobs:
    """The trace stretched in time until it fills `use` of the fleet."""
    arrival_h, length_h, width = _trace(world.trace)
    keep = slice(0, world.jobs)
    fits = width <= DEVICES // 2
    arrival_h, length_h, width = arrival_h[fits][keep], np.minimum(length_h[fits][keep], 96.0), width[fits][keep]
    length = np.maximum(1, np.ceil(length_h * SLOTS_PER_HOUR)).astype(np.int64)
    span_h = (width * length).sum() / SLOTS_PER_HOUR / (DEVICES * count * world.use)
    arrival_h = (arrival_h - arrival_h[0]) * span_h / max(1e-9, arrival_h[-1] - arrival_h[0])
    arrival = np.floor(arrival_h * SLOTS_PER_HOUR).astype(np.int64)
    slack = length // 2 if world.slack == "1.5x" else np.full(len(length), 24 * SLOTS_PER_HOUR)
    return Jobs(arrival, length, width.astype(np.int64), arrival + slack)


def _trace(name: str) -> tuple[Floats, Floats, Longs]:
    if name == "pai":
        rows = [
            (float(row["arrival_time"]), float(row["length"]), int(float(row["cpus"])))
            for row in read_rows(data_file("pai-gaia/pai-100k.csv"))
        ]
    else:
        rows = [
            (_seconds(row["timestamp"]) / 3600, float(row["duration"]) / 3600, int(float(row["num_gpus"])))
            for row in read_rows(data_file("philly/philly_jobs.csv"))
        ]
    rows = sorted(row for row in rows if row[1] > 0 and row[2] > 0)
    if not rows:
        raise InvalidInput(f"the {name} trace has no jobs")
    arrival, length, width = zip(*rows, strict=True)
    return np.array(arrival), np.array(length), np.array(width)


def _seconds(text: str) -> float:
    return (datetime.fromisoformat(text) - datetime(2017, 1, 1)).total_seconds()  # noqa: DTZ001 - the log has no zone


def _slots(work: Jobs) -> int:
    """Far enough that even one region alone ends all jobs, half of its devices idle behind gangs that do not fit."""
    alone = 2 * int((work.width * work.length).sum()) // DEVICES
    return int(work.latest.max()) + alone + 2 * int(work.length.max())


def _fleet(world: World, chosen: tuple[Region, ...], slots: int) -> Fleet:
    hours = slots // SLOTS_PER_HOUR + 2
    first = 24 * 7 * world.seed
    price = np.array([region.rent(first, hours, world.prices == "spot") for region in chosen])
    grams = np.array([region.grams_per_device_hour(first, hours) for region in chosen])
    per_slot = np.repeat(price, SLOTS_PER_HOUR, axis=1) / SLOTS_PER_HOUR
    return Fleet(per_slot, np.repeat(grams, SLOTS_PER_HOUR, axis=1) / SLOTS_PER_HOUR, DEVICES)


def _place_of(world: World, policy: str, usd_per_t: int) -> dict[str, Cell]:
    return {
        "trace": world.trace, "places": world.places, "prices": world.prices, "use": world.use, "slack": world.slack,
        "seed": world.seed, "jobs": world.jobs, "policy": policy, "usd_per_t": usd_per_t,
    }  # fmt: skip


def _row(world: World, policy: str, usd_per_t: int, found: Outcome, work: Jobs, fixed: Outcome) -> Row:
    return {
        **_place_of(world, policy, usd_per_t),
        "money": found.money,
        "money_ratio": found.money / fixed.money,
        "co2_kg": found.grams / 1000,
        "co2_ratio": found.grams / fixed.grams,
        "missed_pct": 100 * found.missed / len(work.arrival),
        "waited_h": found.waited_slots / SLOTS_PER_HOUR,
    }


def _told(world: World, rows: list[Row]) -> str:
    here = (world.trace, world.places, world.prices, world.use, world.slack)
    keys = ("trace", "places", "prices", "use", "slack")
    last = next(row for row in rows if row["policy"] == "ours" and tuple(row[key] for key in keys) == here)
    where = f"{world.trace} {world.places} {world.prices} {world.use} {world.slack}"
    return f"{where}: ours {_n(last['money_ratio']):.3f} of the fixed order's money"


def _n(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else float("nan")


def _figures(rows: list[Row]) -> list[object]:
    import plotly.graph_objects as go

    found = []
    keys = ("trace", "places", "prices", "use", "slack")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        mine = [row for row in rows if tuple(row[name] for name in keys) == key]
        figure = go.Figure()
        ours = sorted((row for row in mine if row["policy"] == "ours"), key=lambda row: _n(row["money"]))
        rules = [row for row in mine if row["policy"] not in ("ours", "floor")]
        figure.add_scatter(
            x=[row["money_ratio"] for row in ours], y=[row["co2_ratio"] for row in ours], mode="lines+markers",
            name="ours", text=[f"{row['usd_per_t']} USD/t" for row in ours],
        )  # fmt: skip
        figure.add_scatter(
            x=[row["money_ratio"] for row in rules], y=[row["co2_ratio"] for row in rules], mode="markers+text",
            name="rules", text=[str(row["policy"]) for row in rules], textposition="top center",
        )  # fmt: skip
        floor = next(row for row in mine if row["policy"] == "floor")
        figure.add_vline(x=_n(floor["money_ratio"]), line_dash="dot", annotation_text="Lagrangian floor")
        title = ", ".join(str(part) for part in key)
        figure.update_layout(title=title, xaxis_title="money / fixed order", yaxis_title="CO2 / fixed order")
        found.append(figure)
    return found
