"""Under what no plan that keeps every deadline can go, in money and CO2 together.

For a weight w (money per gram) the Lagrangian bound B(w) says money + w x grams >= B(w) for every plan, the
clairvoyant one included. All bounds together fence in the front: at money m no plan emits less than the largest
(B(w) - m) / w. Called by `bench place`; read back from its rows by the summary and the plot.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from dure.bench.demand import assembled, running_sum
from dure.bench.replay import Fleet, Jobs, Outcome
from dure.place.prices import congestion_prices
from dure.place.solver import Ascent

# USD per tonne of CO2. The first is money alone.
WEIGHTS = (0, 150, 300, 600, 1200, 2500, 5000, 10000, 40000)
STEPS = Ascent(steps=200)
GRAMS_PER_T = 1e6


class Bound(msgspec.Struct, frozen=True):
    """money + usd_per_t / 1e6 x grams is never less than `value`."""

    usd_per_t: int
    value: float


def bounds(work: Jobs, fleet: Fleet, known: Sequence[Outcome]) -> list[Bound]:
    """One proven bound per weight; `known` plans only make the ascent quicker."""
    slack = np.maximum(0, work.latest - work.arrival)
    capacity = np.full((*fleet.price.shape, 1), fleet.devices, np.int32)
    found = []
    for usd_per_t in WEIGHTS:
        weight = usd_per_t / GRAMS_PER_T
        both = fleet.price + weight * fleet.grams
        hold = (20.0 * float(both.max()) * work.width * work.length).astype(np.float64)
        inst = assembled(work.arrival, work.length, work.width, slack, running_sum(both), capacity, hold)
        upper = min(one.money + weight * one.grams for one in known)
        found.append(Bound(usd_per_t, congestion_prices(inst, upper, STEPS).bound))
    return found


def least_grams(found: Sequence[Bound], money: float) -> float:
    """No plan that spends at most `money` emits less than this."""
    return max((one.value - money) / one.usd_per_t * GRAMS_PER_T for one in found if one.usd_per_t > 0)
