"""What the figures of a stretch of time suggest, in sentences with their numbers, the most money first. Pure.

`dure report` calls it. Each piece of advice names what was seen, what it costs and the command that helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from dure.model.money import show
from dure.model.posting import Account
from dure.model.units import Micros
from dure.watch.drift import ENOUGH, Drift
from dure.watch.waste import Use, Waste

# Below this part of what was paid a cause is not worth a sentence.
WORTH = 0.02
# A pool that is used less than this all the time can do with fewer nodes.
SLACK_USE = 0.5
FAR_OFF = 0.25


class Advice(msgspec.Struct, frozen=True):
    sentence: str
    remedy: str
    micros: Micros = 0


class Promise(NamedTuple):
    """A service's part of requests in time, and its target."""

    workload: str
    attained: float | None
    target: float


def advice(
    pools: Sequence[Use], wasted: Iterable[Waste], promises: Iterable[Promise], drifts: Iterable[Drift], currency: str
) -> tuple[Advice, ...]:
    paid = max(1, sum(pool.paid_micros for pool in pools))
    found = [*_pools(pools, paid, currency), *_waste(wasted, paid, currency)]
    found.sort(key=lambda one: (-one.micros, one.sentence))
    return (*_promises(promises), *found, *_drifts(drifts))


def _pools(pools: Iterable[Use], paid: int, currency: str) -> Iterable[Advice]:
    for pool in pools:
        spare = round(pool.idle_micros * (1 - pool.utilisation / SLACK_USE)) if pool.utilisation < SLACK_USE else 0
        if spare > WORTH * paid:
            yield Advice(
                f"{pool.cluster}/{pool.pool} was used to {pool.utilisation:.0%}; at {SLACK_USE:.0%} it would have "
                f"cost {show(spare, currency)} less",
                f"Fewer nodes there, or consolidation: dure scale nodes; dure whatif --remove-cluster {pool.cluster}",
                spare,
            )


def _waste(wasted: Iterable[Waste], paid: int, currency: str) -> Iterable[Advice]:
    for one in wasted:
        if one.cause is not Account.IDLE and one.micros > WORTH * paid:
            yield Advice(
                f"{show(one.micros, currency)} went to '{one.cause}' of {one.cluster}/{one.pool} ({one.part:.1%})",
                one.advice,
                one.micros,
            )


def _promises(promises: Iterable[Promise]) -> Iterable[Advice]:
    for one in sorted(promises):
        if one.attained is not None and one.attained < one.target:
            yield Advice(
                f"{one.workload} answered {one.attained:.2%} in time, {one.target:.2%} were promised",
                f"More replicas or a faster class: dure why {one.workload}",
            )


def _drifts(drifts: Iterable[Drift]) -> Iterable[Advice]:
    for one in drifts:
        bias = one.now if one.now is not None else one.bias
        if one.pairs >= ENOUGH and abs(bias) > FAR_OFF:
            more = "more" if bias > 0 else "less"
            yield Advice(
                f"the {one.what} of {one.group} is {abs(bias):.0%} {more} than predicted ({one.pairs} workloads)",
                "Correct the duration in its file or template: placement and deadlines follow from it",
            )
