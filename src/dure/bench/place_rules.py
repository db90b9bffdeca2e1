"""The rules that fleets place by today, each in a line or two: what `bench place` compares with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dure.bench.replay import Fleet, Jobs, Outcome, Pick, by_rule, greenest_wait
from dure.place.instance import Floats, Ints, Longs

CHEAPEST, FIXED = "lowest-price", "fixed-order"


def rules(work: Jobs, fleet: Fleet) -> dict[str, Outcome]:
    mean_order = np.argsort(fleet.price.mean(axis=1), kind="stable")
    given = np.arange(fleet.regions)
    return {
        "home-only": by_rule(work, fleet, lambda *_: 0),
        "round-robin": by_rule(work, fleet, lambda j, *_: j % fleet.regions),
        "most-available": by_rule(work, fleet, lambda _, __, ___, room: int(np.argmax(room))),
        CHEAPEST: by_rule(work, fleet, _least(lambda slot: fleet.price[:, slot])),
        "price-sorted": by_rule(work, fleet, _ordered(mean_order)),
        FIXED: by_rule(work, fleet, _ordered(given)),
        "lowest-carbon": by_rule(work, fleet, _least(lambda slot: fleet.grams[:, slot])),
        "wait-awhile": greenest_wait(work, fleet, 0),
    }


def _least(values: Callable[[int], Floats]) -> Pick:
    """The region with the smallest value among those that could start now, else the one that starts first."""

    def pick(_: int, slot: int, earliest: Longs, __: Ints) -> int:
        now = earliest == slot
        return int(np.argmin(np.where(now, values(slot), np.inf))) if now.any() else int(np.argmin(earliest))

    return pick


def _ordered(order: Longs) -> Pick:
    rank = np.argsort(order).astype(np.float64)
    return _least(lambda _: rank)
