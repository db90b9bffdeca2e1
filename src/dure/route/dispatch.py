"""Which worker clusters of MultiKueue a Workload is offered to: the cheapest in money and carbon first. Pure.

Kueue's own dispatchers offer a Workload to all clusters at once, or in the fixed order of a list every five minutes.
Here clusters are ranked by what an hour there costs, carbon at its price; the best is named first, and one more each
time nobody took the Workload within `patience_s`. O(clusters x log clusters).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dure.model.units import Seconds

MOST = 20


class Worker(msgspec.Struct, frozen=True):
    """`price` is money per hour of a job, `grams` its CO2 per hour."""

    name: str
    price: float = 0.0
    grams: float = 0.0
    active: bool = True


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`per_gram` is the price of one gram of CO2."""

    per_gram: float = 0.0
    patience_s: Seconds = 30.0


def nominated(workers: Iterable[Worker], waited_s: Seconds, settings: Settings | None = None) -> tuple[str, ...]:
    """The clusters to offer it to by now; equal ones in the order of their names."""
    rule = settings or Settings()
    ranked = sorted(
        (one for one in workers if one.active), key=lambda one: (one.price + rule.per_gram * one.grams, one.name)
    )
    count = 1 + int(max(0.0, waited_s) / rule.patience_s)
    return tuple(one.name for one in ranked[: min(count, MOST)])
