"""What the fleet's owner wants for some workloads and not for others: a policy's `goals`, applied to one at a time.

Called by `candidate` for every workload; a fleet without goals pays one comparison. Limits are limits: what they
leave no home for is held and says so, weights only turn the choice among what is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from dure.model.money import Rates, show
from dure.model.policy import Goal
from dure.model.reason import Reason, Verdict
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, Instant
from dure.model.workload import Workload
from dure.place.bill import Quote
from dure.place.instance import Bools
from dure.place.option import Option
from dure.place.settings import PlaceSettings

Goals = tuple[Goal, ...]


def goals_for(goals: Goals, workload: Workload) -> Goals:
    """Those that speak of this workload, in the order of the policy."""
    return tuple(goal for goal in goals if _speaks_of(goal, workload))


def aimed(settings: PlaceSettings, goals: Goals) -> PlaceSettings:
    """The policy's settings as the goals of one workload change them."""
    changes: dict[str, float] = {}
    for goal in goals:
        changes |= {f"{term}_weight": weight for term, weight in goal.weights.items()}
        if goal.start_within_s is not None:
            changes["longest_wait_h"] = goal.start_within_s / HOUR_S
    return msgspec.structs.replace(settings, **changes) if changes else settings


def goal_clash(goals: Goals, option: Option, rates: Rates, now_s: Instant) -> Verdict | None:
    """What no hour will change: clusters, regions, spot; and the price, which the next hour may."""
    for goal in goals:
        if goal.clusters and not _matches(option.cluster.name, goal.clusters):
            return _forbids(option, f"a cluster like {', '.join(goal.clusters)}", f"this is {option.cluster.name}")
        if goal.regions and not _matches(option.cluster.region, goal.regions):
            return _forbids(option, f"a region like {', '.join(goal.regions)}", f"it is in {option.cluster.region}")
        if not goal.spot and option.pool.capacity is Capacity.SPOT:
            return _forbids(option, "no spot", f"{option.where} is spot")
        if goal.max_price_micros is not None:
            weekly = option.tariff.per_hour(option.pool.capacity)
            price = rates.convert(weekly.at(now_s), option.tariff.currency) if weekly is not None else 0
            if price > goal.max_price_micros:
                return _forbids(option, f"at most {show(goal.max_price_micros)} per device and hour", show(price))
    return None


def clean_starts(goals: Goals, quote: Quote) -> Bools | None:
    """For each start whether the grid is clean enough while it would run; None where no goal asks."""
    most = min((goal.max_g_per_kwh for goal in goals if goal.max_g_per_kwh is not None), default=None)
    if most is None:
        return None
    # Energy at the wall and grams are both of the whole run, so this is the mean of its hours.
    return np.asarray(_intensity(quote) <= most)


def too_dirty(goals: Goals, option: Option, quote: Quote) -> Verdict:
    most = min(goal.max_g_per_kwh for goal in goals if goal.max_g_per_kwh is not None)
    return _forbids(
        option, f"at most {most:.0f} g CO2/kWh while it runs", f"{_intensity(quote)[0]:.0f} if started now"
    )


def _intensity(quote: Quote) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return quote.grams / max(quote.watt_hours / 1000, 1e-12)


def _speaks_of(goal: Goal, workload: Workload) -> bool:
    return (
        (not goal.tenants or _matches(workload.tenant, goal.tenants))
        and (not goal.types or workload.type in goal.types)
        and (not goal.models or _matches(workload.model, goal.models))
        and (goal.min_priority is None or workload.priority >= goal.min_priority)
    )


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _forbids(option: Option, needs: str, found: str) -> Verdict:
    return Verdict(option.where, Reason.POLICY_FORBIDS, needs, found)
