"""One sync of a HorizontalPodAutoscaler: sight and memory in, decision and memory out.

Called by the agent's loop, the simulator and the what-if commands. The caller writes the scale; it keeps the
returned `state` when the write succeeded and `state_unwritten` when it did not.
"""

from __future__ import annotations

import msgspec

from dure.scale.hpa.normalize import (
    HpaState,
    Recommendation,
    bound,
    bound_with,
    record_change,
    stabilize,
    stabilize_with,
)
from dure.scale.hpa.observe import Sight
from dure.scale.hpa.proposal import Refusal, propose
from dure.scale.hpa.spec import (
    CPU_DEFAULT,
    DEFAULT_FLAGS,
    External,
    Flags,
    HpaSpec,
    Object,
    complete,
    tolerances,
)


class Condition(msgspec.Struct, frozen=True):
    """One condition of the autoscaler's status."""

    kind: str
    status: bool
    reason: str


class Outcome(msgspec.Struct, frozen=True):
    """What a sync decided. `replicas` equals the current count when nothing is to be done."""

    replicas: int
    rescale: bool
    reason: str
    conditions: tuple[Condition, ...]
    error: str | None
    state: HpaState
    state_unwritten: HpaState


class Wanted(msgspec.Struct, frozen=True):
    """The highest proposal, the metric that made it, and what failed on the way."""

    replicas: int
    metric: str
    active: Condition
    error: str | None


def sync(spec: HpaSpec, state: HpaState, sight: Sight, flags: Flags = DEFAULT_FLAGS) -> Outcome:
    """Decide one sync. O(metrics x pods + records)."""
    current = sight.spec_replicas
    if state.recommendations is None:
        state = msgspec.structs.replace(state, recommendations=(Recommendation(current, sight.now_s),))
    able = Condition("AbleToScale", True, "SucceededGetScale")
    if current == 0 and not (state.scaled_to_zero and (spec.min_replicas != 0 or _from_outside(spec))):
        disabled = Condition("ScalingActive", False, "ScalingDisabled")
        return Outcome(0, False, "", (able, disabled), None, state, state)
    if current > spec.max_replicas:
        return _outside(spec, state, sight, flags, spec.max_replicas, "Current number of replicas above the maximum")
    if 0 < current < spec.min_replicas:
        return _outside(spec, state, sight, flags, spec.min_replicas, "Current number of replicas below the minimum")
    wanted = desire(spec, sight, flags)
    if wanted.replicas < 0:
        return Outcome(current, False, "", (able, wanted.active), wanted.error, state, state)
    return _normalized(spec, state, sight, flags, wanted)


def desire(spec: HpaSpec, sight: Sight, flags: Flags) -> Wanted:
    """The maximum over all metrics; -1 when none can be trusted."""
    if not sight.selector_ok:
        return Wanted(-1, "", Condition("ScalingActive", False, "InvalidSelector"), "selector is required")
    if sight.ambiguous:
        active = Condition("ScalingActive", False, "AmbiguousSelector")
        return Wanted(-1, "", active, "the pods belong to more than one autoscaler")
    metrics = spec.metrics or (CPU_DEFAULT,)
    best, name = 0, ""
    refusals: list[Refusal] = []
    for metric, reading in zip(metrics, sight.readings, strict=True):
        proposal = propose(metric, reading, sight, tolerances(spec, flags), flags)
        if isinstance(proposal, Refusal):
            refusals.append(proposal)
        elif not name or proposal > best:
            best, name = proposal, metric.name
    error = refusals[0].error if refusals else None
    if len(refusals) == len(metrics) or (refusals and best < sight.spec_replicas):
        return Wanted(-1, "", Condition("ScalingActive", False, refusals[0].reason), error)
    return Wanted(best, name, Condition("ScalingActive", True, "ValidMetricFound"), error)


def _outside(spec: HpaSpec, state: HpaState, sight: Sight, flags: Flags, target: int, why: str) -> Outcome:
    """Back into the spec's range at once: no metrics, no windows, no rate limits."""
    after = _written(spec, state, sight, flags, target)
    able = Condition("AbleToScale", True, "SucceededRescale")
    return Outcome(target, True, why, (able,), None, after, state)


def _normalized(spec: HpaSpec, state: HpaState, sight: Sight, flags: Flags, wanted: Wanted) -> Outcome:
    current = sight.spec_replicas
    if spec.behavior is None:
        stable, state = stabilize(state, wanted.replicas, sight.now_s, flags.downscale_window_s)
        able_reason = "ScaleDownStabilized" if stable != wanted.replicas else "ReadyForNewScale"
        bounded = bound(current, stable, spec.min_replicas, spec.max_replicas)
    else:
        up, down = complete(spec.behavior, flags)
        held, state = stabilize_with(state, current, wanted.replicas, sight.now_s, up, down)
        stable = held.replicas
        able_reason = held.reason if stable != wanted.replicas else "ReadyForNewScale"
        bounded = bound_with(state, current, stable, spec.min_replicas, spec.max_replicas, sight.now_s, up, down)
    if current == 0 and bounded.replicas < spec.min_replicas:
        # Scaled to zero while zero was allowed; the smallest number was raised since.
        bounded = msgspec.structs.replace(bounded, replicas=spec.min_replicas)
    rescale = bounded.replicas != current
    limited = Condition("ScalingLimited", bounded.replicas != stable, bounded.reason)
    able = Condition("AbleToScale", True, "SucceededRescale" if rescale else able_reason)
    after = _written(spec, state, sight, flags, bounded.replicas) if rescale else state
    why = f"{wanted.metric} above target" if wanted.replicas > current else "All metrics below target"
    conditions = (able, wanted.active, limited)
    return Outcome(bounded.replicas, rescale, why if rescale else "", conditions, wanted.error, after, state)


def _from_outside(spec: HpaSpec) -> bool:
    """Whether any metric can be read without pods."""
    return any(isinstance(metric, (External, Object)) for metric in spec.metrics)


def _written(spec: HpaSpec, state: HpaState, sight: Sight, flags: Flags, target: int) -> HpaState:
    zero = sight.spec_replicas > 0 and target == 0 and spec.min_replicas == 0 and _from_outside(spec)
    state = msgspec.structs.replace(state, scaled_to_zero=zero)
    if spec.behavior is None:
        return state
    up, down = complete(spec.behavior, flags)
    return record_change(state, sight.spec_replicas, target, sight.now_s, up, down)
