"""Under what no plan that keeps every deadline can go, in money and CO2 together.

For a weight w (money per gram) the Lagrangian bound B(w) says money + w x grams >= B(w) for every plan, the
clairvoyant one included, in which each job runs without a break (`place_moving_floor` is for the others). All bounds
together fence in the front: at money m no plan emits less than the largest (B(w) - m) / w. A plan that is late
somewhere is held against a floor of the jobs that it serves in time. Called by `bench place`; read back from its rows
by the summary and the plot.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from dure.bench.demand import assembled, running_sum
from dure.bench.replay import Fleet, Jobs, Outcome
from dure.place.instance import Floats, Longs
from dure.place.prices import congestion_prices
from dure.place.solver import Ascent

# USD per tonne of CO2. The first is money alone.
WEIGHTS = (0, 150, 300, 600, 1200, 2500, 5000, 10000, 40000)
STEPS = Ascent(steps=2000, momentum=0.9, patience=100)
# Of money alone, which plans are held against: where bursts fill the fleet, prices rise for long.
MONEY = Ascent(steps=6000, momentum=0.97, patience=300)
GRAMS_PER_T = 1e6


class Bound(msgspec.Struct, frozen=True):
    """money + usd_per_t / 1e6 x grams is never less than `value`."""

    usd_per_t: int
    value: float


class InTime(msgspec.Struct, frozen=True):
    """What a plan pays for the jobs it serves in time, and less than which no plan that does so can pay for them."""

    money: float
    floor: float


def in_time(work: Jobs, fleet: Fleet, plan: Outcome) -> InTime:
    """The floor where bursts make every plan late: for those alone that `plan` serves in time, all room theirs."""
    kept, money = served(work, plan), float(plan.paid[~plan.late].sum())
    slack = np.maximum(0, kept.latest - kept.arrival)
    return InTime(money, _bound(kept, slack, fleet, fleet.price, money, MONEY))


def served(work: Jobs, plan: Outcome) -> Jobs:
    """The jobs that `plan` serves in time."""
    kept = np.flatnonzero(~plan.late)
    return Jobs(work.arrival[kept], work.length[kept], work.width[kept], work.latest[kept])


def bounds(work: Jobs, fleet: Fleet, known: Sequence[Outcome]) -> list[Bound]:
    """One proven bound per weight; `known` plans only make the ascent quicker."""
    slack = np.maximum(0, work.latest - work.arrival)
    found = []
    for usd_per_t in WEIGHTS:
        weight = usd_per_t / GRAMS_PER_T
        upper = min(one.money + weight * one.grams for one in known)
        price, ascent = fleet.price + weight * fleet.grams, STEPS if usd_per_t else MONEY
        found.append(Bound(usd_per_t, _bound(work, slack, fleet, price, upper, ascent)))
    return found


def _bound(work: Jobs, slack: Longs, fleet: Fleet, price: Floats, upper: float, ascent: Ascent) -> float:
    # Behind the last deadline nobody competes for anything.
    last = int((work.arrival + slack + work.length).max())
    capacity = np.full((len(price), last, 1), fleet.devices, np.int32)
    hold = (20.0 * float(price.max()) * work.width * work.length).astype(np.float64)
    inst = assembled(work.arrival, work.length, work.width, slack, running_sum(price), capacity, hold)
    return congestion_prices(inst, upper, ascent).bound


def least_grams(found: Sequence[Bound], money: float) -> float:
    """No plan that spends at most `money` emits less than this."""
    return max((one.value - money) / one.usd_per_t * GRAMS_PER_T for one in found if one.usd_per_t > 0)
