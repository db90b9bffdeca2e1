"""One cell of `bench place`: which jobs over which regions, at which prices, how full, how much slack, which weeks.

A seed names a stretch of the trace and a week of the year (twenty weeks apart, so that few seeds see all seasons).
"""

from __future__ import annotations

from datetime import datetime
from functools import cache

import msgspec
import numpy as np

from dure.bench.data import data_file, read_rows
from dure.bench.regions import DIRTY, PLAIN, REGIONS, Region
from dure.bench.replay import SLOTS_PER_HOUR, Fleet, Jobs
from dure.model.errors import InvalidInput
from dure.place.instance import Floats, Longs

DEVICES = 64
LONGEST_H = 96.0
WEEK_H, WEEKS, WEEKS_APART = 24 * 7, 52, 20
PLACES = {"six": REGIONS[:6], "dirty": DIRTY, "plain": PLAIN, "twelve": REGIONS}


class World(msgspec.Struct, frozen=True):
    """`use` is the share of device-hours that the jobs fill; `slack` a factor of the length, or hours."""

    trace: str
    places: str
    prices: str
    use: float
    slack: str
    seed: int
    jobs: int

    @property
    def kind(self) -> str:
        """All but the seed: what is averaged over seeds."""
        return f"{self.trace}/{self.places}/{self.prices}/{self.use}/{self.slack}"


def jobs_of(world: World, regions: int) -> Jobs:
    """A stretch of the trace, stretched in time until it fills `use` of the fleet."""
    arrival_h, length_h, width = trace(world.trace)
    first = world.jobs * (world.seed - 1) % max(1, len(width) - world.jobs)
    keep = slice(first, first + world.jobs)
    arrival_h, length_h, width = arrival_h[keep], np.minimum(length_h[keep], LONGEST_H), width[keep]
    length = np.maximum(1, np.ceil(length_h * SLOTS_PER_HOUR)).astype(np.int64)
    span_h = (width * length).sum() / SLOTS_PER_HOUR / (DEVICES * regions * world.use)
    arrival_h = (arrival_h - arrival_h[0]) * span_h / max(1e-9, arrival_h[-1] - arrival_h[0])
    arrival = np.floor(arrival_h * SLOTS_PER_HOUR).astype(np.int64)
    slack = length // 2 if world.slack == "1.5x" else np.full(len(length), 24 * SLOTS_PER_HOUR)
    return Jobs(arrival, length, width.astype(np.int64), arrival + slack)


@cache
def trace(name: str) -> tuple[Floats, Floats, Longs]:
    """Arrival and length in hours and devices of every job that fits half of a region, by arrival."""
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
    rows = sorted(row for row in rows if row[1] > 0 and 0 < row[2] <= DEVICES // 2)
    if not rows:
        raise InvalidInput(f"the {name} trace has no jobs")
    arrival, length, width = zip(*rows, strict=True)
    return np.array(arrival), np.array(length), np.array(width)


def fleet_of(world: World, chosen: tuple[Region, ...], slots: int) -> Fleet:
    hours = slots // SLOTS_PER_HOUR + 2
    first = WEEK_H * (WEEKS_APART * world.seed % WEEKS)
    price = np.array([region.rent(first, hours, world.prices == "spot") for region in chosen])
    grams = np.array([region.grams_per_device_hour(first, hours) for region in chosen])
    per_slot = np.repeat(price, SLOTS_PER_HOUR, axis=1) / SLOTS_PER_HOUR
    return Fleet(per_slot, np.repeat(grams, SLOTS_PER_HOUR, axis=1) / SLOTS_PER_HOUR, DEVICES)


def slots_of(work: Jobs) -> int:
    """Far enough that even one region alone ends all jobs, half of its devices idle behind gangs that do not fit."""
    alone = 2 * int((work.width * work.length).sum()) // DEVICES
    return int(work.latest.max()) + alone + 2 * int(work.length.max())


def _seconds(text: str) -> float:
    return (datetime.fromisoformat(text) - datetime(2017, 1, 1)).total_seconds()  # noqa: DTZ001 - the log has no zone
