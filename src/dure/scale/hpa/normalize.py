"""Stabilisation windows and rate limits: from what the metrics ask for to what may be done now.

Called by `engine` after the proposals. State is a frozen value, the new state is returned. Slots of outdated
records are re-used in place, as the controller does, so a long-running state stays as short as its windows.
"""

from __future__ import annotations

import msgspec

from dure.scale.hpa.spec import Limits, Policy

INT32_MAX = 2**31 - 1


class Recommendation(msgspec.Struct, frozen=True):
    """What the metrics asked for at one sync."""

    replicas: int
    at_s: float


class ScaleEvent(msgspec.Struct, frozen=True):
    """A change that was written: its size, when, and whether every policy has forgotten it."""

    change: int
    at_s: float
    outdated: bool = False


class HpaState(msgspec.Struct, frozen=True):
    """What the controller keeps in memory for one autoscaler; `recommendations` are None before the first sync.

    `scaled_to_zero` is its condition of that name: only who was brought to zero by the autoscaler wakes up again; one
    whose owner did that stays off.
    """

    recommendations: tuple[Recommendation, ...] | None = None
    ups: tuple[ScaleEvent, ...] = ()
    downs: tuple[ScaleEvent, ...] = ()
    scaled_to_zero: bool = False


class Bounded(msgspec.Struct, frozen=True):
    """A count after limits, and the reason Kubernetes would show."""

    replicas: int
    reason: str


def stabilize(state: HpaState, desired: int, now_s: float, window_s: int) -> tuple[int, HpaState]:
    """Without `behavior`: the highest recommendation of the downscale window. O(records)."""
    records = state.recommendations or ()
    cutoff = now_s - window_s
    best = desired
    slot = None
    for index, record in enumerate(records):
        if record.at_s < cutoff:
            slot = index
        else:
            best = max(best, record.replicas)
    return best, _remember(state, records, slot, Recommendation(desired, now_s))


def stabilize_with(
    state: HpaState, current: int, desired: int, now_s: float, up: Limits, down: Limits
) -> tuple[Bounded, HpaState]:
    """With `behavior`: pull the current count only as far as both windows agree. O(records)."""
    records = state.recommendations or ()
    up_cutoff, down_cutoff = now_s - up.window_s, now_s - down.window_s
    lowest = highest = desired
    slot = None
    for index, record in enumerate(records):
        if record.at_s > up_cutoff:
            lowest = min(lowest, record.replicas)
        if record.at_s > down_cutoff:
            highest = max(highest, record.replicas)
        if record.at_s < up_cutoff and record.at_s < down_cutoff:
            slot = index
    count = max(current, lowest)
    count = min(count, highest)
    reason = "ScaleUpStabilized" if desired >= current else "ScaleDownStabilized"
    return Bounded(count, reason), _remember(state, records, slot, Recommendation(desired, now_s))


def bound(current: int, desired: int, least: int, most: int) -> Bounded:
    """Without `behavior`: at most double (or 4), then the spec's own range."""
    step = max(2 * current, 4)
    ceiling, reason = (step, "ScaleUpLimit") if most > step else (most, "TooManyReplicas")
    if desired < least:
        return Bounded(least, "TooFewReplicas")
    if desired > ceiling:
        return Bounded(ceiling, reason)
    return Bounded(desired, "DesiredWithinRange")


def bound_with(
    state: HpaState, current: int, desired: int, least: int, most: int, now_s: float, up: Limits, down: Limits
) -> Bounded:
    """With `behavior`: the policies of the direction that is wanted, then the spec's own range."""
    if desired > current:
        step = max(up_limit(current, state, up, now_s), current)
        ceiling, reason = (step, "ScaleUpLimit") if most > step else (most, "TooManyReplicas")
        if desired > ceiling:
            return Bounded(ceiling, reason)
    elif desired < current:
        step = min(down_limit(current, state, down, now_s), current)
        floor, reason = (step, "ScaleDownLimit") if least < step else (least, "TooFewReplicas")
        if desired < floor:
            return Bounded(floor, reason)
    return Bounded(desired, "DesiredWithinRange")


def up_limit(current: int, state: HpaState, rules: Limits, now_s: float) -> int:
    """The most replicas the scale-up policies allow now."""
    if rules.select == "Disabled":
        return current
    proposals = [_raise(policy, _start(current, state, policy, now_s)) for policy in rules.policies]
    if rules.select == "Min":
        return min(proposals, default=INT32_MAX)
    return max(proposals, default=-INT32_MAX - 1)


def down_limit(current: int, state: HpaState, rules: Limits, now_s: float) -> int:
    """The fewest replicas the scale-down policies allow now."""
    if rules.select == "Disabled":
        return current
    proposals = [_lower(policy, _start(current, state, policy, now_s)) for policy in rules.policies]
    if rules.select == "Min":
        return max(proposals, default=-INT32_MAX - 1)
    return min(proposals, default=INT32_MAX)


def record_change(state: HpaState, before: int, after: int, now_s: float, up: Limits, down: Limits) -> HpaState:
    """Store a written change, over an outdated slot if there is one."""
    if after > before:
        events = _store(state.ups, ScaleEvent(after - before, now_s), up, now_s)
        return msgspec.structs.replace(state, ups=events)
    events = _store(state.downs, ScaleEvent(before - after, now_s), down, now_s)
    return msgspec.structs.replace(state, downs=events)


def _remember(
    state: HpaState, records: tuple[Recommendation, ...], slot: int | None, record: Recommendation
) -> HpaState:
    if slot is None:
        return msgspec.structs.replace(state, recommendations=(*records, record))
    kept = (*records[:slot], record, *records[slot + 1 :])
    return msgspec.structs.replace(state, recommendations=kept)


def _start(current: int, state: HpaState, policy: Policy, now_s: float) -> int:
    """The replica count at the start of the policy's period."""
    cutoff = now_s - policy.period_s
    added = sum(event.change for event in state.ups if event.at_s > cutoff)
    removed = sum(event.change for event in state.downs if event.at_s > cutoff)
    return current - added + removed


def _raise(policy: Policy, start: int) -> int:
    if policy.kind == "Pods":
        return start + policy.value
    product = float(start) * (1.0 + float(policy.value) / 100.0)
    return -int(-product // 1)


def _lower(policy: Policy, start: int) -> int:
    if policy.kind == "Pods":
        return start - policy.value
    return int(float(start) * (1.0 - float(policy.value) / 100.0))


def _store(events: tuple[ScaleEvent, ...], new: ScaleEvent, rules: Limits, now_s: float) -> tuple[ScaleEvent, ...]:
    longest = max((policy.period_s for policy in rules.policies), default=0)
    marked = [
        msgspec.structs.replace(event, outdated=True) if event.at_s < now_s - longest else event for event in events
    ]
    slots = [index for index, event in enumerate(marked) if event.outdated]
    if not slots:
        return (*marked, new)
    marked[slots[-1]] = new
    return tuple(marked)
