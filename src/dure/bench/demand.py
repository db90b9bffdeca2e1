"""Placement instances of any size: synthetic demand over real prices and grids, the same for the same seed.

Used by `gap` and by the tests of the solvers. Lengths are log-normal between 1 and 12 hours, releases uniform, slack
up to 11 hours; gangs are powers of two, at most half of a cluster. *Tight* fills 80 % of the device-hours,
*loose* 50 %, which with deadlines this short leaves few free hours at the peaks.
"""

from __future__ import annotations

import enum

import msgspec
import numpy as np

from dure.bench.regions import HOURS, Region, first_regions
from dure.model.errors import InvalidInput
from dure.place.instance import Floats, Instance, Ints, Longs, instance

USD_PER_GRAM = 100 / 1e6
LONGEST_H, SLACK_H = 12, 11
TIGHT, LOOSE = 0.8, 0.5
# A job that is not placed costs three times the dearest way to run it: worse than any placement, yet finite.
HOLD_FACTOR = 3.0


class Prices(enum.StrEnum):
    """What a device-hour costs: the list price, the spot price of the day, or (own hardware) power alone."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    OWNED = "owned"


class Shape(msgspec.Struct, frozen=True):
    jobs: int
    regions: int
    hours: int
    gangs: bool = False
    tight: bool = False
    prices: Prices = Prices.ON_DEMAND


def gap_instance(shape: Shape, seed: int) -> Instance:
    if shape.jobs < 1 or not LONGEST_H + SLACK_H <= shape.hours <= HOURS:
        raise InvalidInput(f"needs at least 1 job and {LONGEST_H + SLACK_H} to {HOURS} hours")
    rng = np.random.default_rng([seed, shape.jobs, shape.regions, shape.hours, shape.gangs, shape.tight])
    first_hour = int(rng.integers(0, HOURS - shape.hours + 1))
    price = _prices(first_regions(shape.regions), shape, first_hour)
    length = np.clip(np.round(rng.lognormal(1.2, 0.7, shape.jobs)), 1, LONGEST_H).astype(np.int64)
    width = _widths(rng, shape)
    use = TIGHT if shape.tight else LOOSE
    devices = max(shape.regions, int(np.ceil((length * width).sum() / (shape.hours * use))))
    each = np.full(shape.regions, devices // shape.regions) + (np.arange(shape.regions) < devices % shape.regions)
    width = np.minimum(width, 2 ** int(np.log2(max(1, each.min() // 2))))
    slack = rng.integers(1, SLACK_H + 1, shape.jobs)
    release = rng.integers(0, shape.hours - length - slack + 1)
    # Neighbours in time are neighbours in memory: the search works on blocks of them.
    order = np.lexsort((width, length, release))
    capacity: Ints = np.repeat(each, shape.hours).reshape(shape.regions, shape.hours, 1).astype(np.int32)
    hold = HOLD_FACTOR * (width * length)[order] * price.max()
    running = running_sum(price)
    return assembled(release[order], length[order], width[order], slack[order], running, capacity, hold)


def _prices(chosen: tuple[Region, ...], shape: Shape, first_hour: int) -> Floats:
    rows = []
    for region in chosen:
        carbon = region.grams_per_device_hour(first_hour, shape.hours) * USD_PER_GRAM
        if shape.prices is Prices.OWNED:
            rows.append(np.maximum(region.power_usd(first_hour, shape.hours), 0) + carbon)
        else:
            rows.append(region.rent(first_hour, shape.hours, shape.prices is Prices.SPOT) + carbon)
    return np.array(rows)


def _widths(rng: np.random.Generator, shape: Shape) -> Longs:
    if not shape.gangs:
        return np.ones(shape.jobs, np.int64)
    sizes, chances = ([1, 2, 4, 8], [0.4, 0.2, 0.2, 0.2])
    if shape.jobs >= 400:
        sizes, chances = ([1, 2, 4, 8, 16], [0.36, 0.2, 0.18, 0.16, 0.1])
    return rng.choice(np.array(sizes, np.int64), shape.jobs, p=chances)


def running_sum(price: Floats) -> Floats:
    """Sums over time from the first column, with a zero in front."""
    return np.concatenate([np.zeros((len(price), 1)), np.cumsum(price, axis=1)], axis=1)


def assembled(
    release: Longs, length: Longs, width: Longs, slack: Longs, running: Floats, capacity: Ints, hold: Floats
) -> Instance:
    """All rows x all starts from `release` to `release + slack`, row by row, as one flat table."""
    rows = len(running)
    starts = slack + 1
    counts = rows * starts
    first = np.concatenate([[0], np.cumsum(counts)])
    owner = np.repeat(np.arange(len(release)), counts)
    within = np.arange(first[-1]) - first[owner]
    row = within // starts[owner]
    start = release[owner] + within % starts[owner]
    cost = width[owner] * (running[row, start + length[owner]] - running[row, start])
    option = np.empty((len(owner), 5), np.int32)
    option[:, 0], option[:, 1], option[:, 2] = row, -1, start
    option[:, 3], option[:, 4] = length[owner], width[owner]
    units = np.arange(int(width.max(initial=1)) + 1, dtype=np.int32).reshape(-1, 1)
    return instance(first, option, cost, hold, units, capacity)
