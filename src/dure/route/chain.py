"""Down a chain of classes, H100 > A100 > L40S > T4 > CPU: the cheapest way to end in good time, money and carbon
counted.

The score of an alternative is the time until its predicted end, plus its money and its carbon at the weights asked
for. Without weights it is the first class of the chain whose end is not later than that of a lower one by more than
`patience_s`. Prices and watts per class come from the fleet's tariffs. O(alternatives x queue length).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dure.model.units import HOUR_S, Seconds
from dure.route.earliest_finish import offer
from dure.route.situation import Alternative, Candidate, Choice, Offer, Situation

ORDER = ("h100", "a100", "l40s", "t4", "cpu")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`per_cost` and `per_carbon` say how many seconds one unit of money and one gram of CO2 are worth."""

    order: tuple[str, ...] = ORDER
    patience_s: Seconds = 30.0
    per_cost: float = 0.0
    per_carbon: float = 0.0
    price_per_hour: Mapping[str, float] = {}
    watts: Mapping[str, float] = {}
    grams_per_kwh: float = 420.0


def choose(job: Candidate, situation: Situation, settings: Settings | None = None) -> Choice:
    rule = settings or Settings()
    offers = [scored(job, one, situation, rule) for one in job.alternatives]
    open_ = [index for index, one in enumerate(offers) if not one.refused]
    if not open_:
        return Choice(0, "nowhere-fits", "no acceptable queue can take it; it waits at home", tuple(offers))
    if rule.per_cost or rule.per_carbon:
        best = min(open_, key=lambda index: (offers[index].score or 0.0, index))
        because = f"least of time, money and carbon: {offers[best].score:.0f} s worth"
        return Choice(best, "cheapest-in-all", because, tuple(offers), offers[best].finish_s)
    down = sorted(open_, key=lambda index: (_rank(job.alternatives[index], rule), index))
    earliest = min(offers[index].finish_s or 0.0 for index in open_)
    best = next(index for index in down if (offers[index].finish_s or 0.0) <= earliest + rule.patience_s)
    because = f"first of the chain that ends within {rule.patience_s:.0f} s of the earliest"
    return Choice(best, "down-the-chain", because, tuple(offers), offers[best].finish_s)


def scored(job: Candidate, one: Alternative, situation: Situation, rule: Settings) -> Offer:
    found = offer(job, one, situation)
    if found.refused or found.finish_s is None:
        return found
    hours = one.run_s / HOUR_S
    money = rule.price_per_hour.get(one.class_name, 0.0) * hours
    grams = rule.watts.get(one.class_name, 0.0) / 1000 * hours * rule.grams_per_kwh
    score = found.finish_s - situation.now_s + money * rule.per_cost + grams * rule.per_carbon
    return msgspec.structs.replace(found, score=score)


def _rank(one: Alternative, rule: Settings) -> int:
    """The place in the chain by the beginning of the class's name; unknown classes come last."""
    return next((place for place, name in enumerate(rule.order) if one.class_name.startswith(name)), len(rule.order))
