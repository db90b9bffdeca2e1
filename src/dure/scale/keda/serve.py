"""What KEDA's metrics server answers the HPA: values, fallbacks, composite metrics.

Called by `engine` on every HPA sync. A failure is counted for its trigger and reset by a success, exactly once per
question, so the caller keeps the returned counts.
"""

from __future__ import annotations

import math

import msgspec

from dure.model.errors import InvalidInput
from dure.scale.hpa.observe import Missing, Reading, Total
from dure.scale.keda.formula import evaluate
from dure.scale.keda.spec import Fallback, Modifiers, ScaledObject, Trigger


class Failed(msgspec.Struct, frozen=True):
    """A trigger that could not be read."""

    error: str


Value = float | Failed


class Served(msgspec.Struct, frozen=True):
    """The HPA's readings, the new failure counts, and whether a fallback was used."""

    readings: tuple[Reading, ...]
    failures: dict[str, int]
    fallback: bool


def serve(
    scaled: ScaledObject, values: tuple[Value, ...], failures: dict[str, int], replicas: int, ready: int
) -> Served:
    """Answer for every metric of the generated HPA. O(triggers)."""
    counts = _counted(scaled, values, failures)
    if scaled.modifiers is not None:
        return _composite(scaled, scaled.modifiers, values, counts, replicas, ready)
    readings: list[Reading] = []
    used = False
    for trigger, value in zip(scaled.triggers, values, strict=True):
        if not isinstance(value, Failed):
            readings.append(Total((int(value * 1000),)))
            continue
        pretended = _pretend(scaled.fallback, trigger, counts[trigger.name], replicas, ready)
        used = used or pretended is not None
        readings.append(Missing(value.error) if pretended is None else pretended)
    return Served(tuple(readings), counts, used)


def query_value(result: tuple[float, ...], ignore_null: bool = True) -> Value:
    """What the Prometheus scaler makes of a query result: one element; null values are 0 unless told not to."""
    if len(result) > 1:
        return Failed("the query returned more than one element")
    if not result or not math.isfinite(result[0]):
        return 0.0 if ignore_null else Failed("the query returned no usable value")
    return result[0]


def composite(scaled: ScaledObject, values: tuple[Value, ...]) -> Value:
    """The modifiers' formula over the triggers; failed ones are nil, which `??` replaces."""
    assert scaled.modifiers is not None
    by_name = {
        trigger.name: None if isinstance(value, Failed) else value
        for trigger, value in zip(scaled.triggers, values, strict=True)
    }
    try:
        return evaluate(scaled.modifiers.formula, by_name)
    except InvalidInput as error:
        return Failed(str(error))


def _counted(scaled: ScaledObject, values: tuple[Value, ...], failures: dict[str, int]) -> dict[str, int]:
    return {
        trigger.name: failures.get(trigger.name, 0) + 1 if isinstance(value, Failed) else 0
        for trigger, value in zip(scaled.triggers, values, strict=True)
    }


def _composite(
    scaled: ScaledObject,
    modifiers: Modifiers,
    values: tuple[Value, ...],
    counts: dict[str, int],
    replicas: int,
    ready: int,
) -> Served:
    nil_allowed = scaled.fallback is not None and scaled.fallback.behavior == "scalingModifiers"
    failed = next((value for value in values if isinstance(value, Failed)), None)
    if failed is None or nil_allowed:
        value = composite(scaled, values)
        if not isinstance(value, Failed):
            return Served((Total((int(value * 1000),)),), counts, failed is not None)
        failed = value
    worst = max(counts.values(), default=0)
    stand_in = Trigger("composite-metric", modifiers.target, modifiers.activation, modifiers.metric_type)
    pretended = None if nil_allowed else _pretend(scaled.fallback, stand_in, worst, replicas, ready)
    reading: Reading = Missing(failed.error) if pretended is None else pretended
    return Served((reading,), counts, pretended is not None)


def _pretend(fallback: Fallback | None, trigger: Trigger, failures: int, replicas: int, ready: int) -> Total | None:
    """A value that makes the HPA arrive at the fallback count; None while the threshold is not passed."""
    if fallback is None or fallback.replicas < 0 or fallback.failure_threshold < 0:
        return None
    if failures <= fallback.failure_threshold:
        return None
    count = _count(fallback, replicas)
    if trigger.metric_type == "AverageValue":
        return Total((int(trigger.target * 1000 * count),))
    if ready == 0:
        return None
    return Total((int(trigger.target * 1000 * count / ready),))


def _count(fallback: Fallback, replicas: int) -> int:
    match fallback.behavior:
        case "currentReplicas":
            return replicas
        case "currentReplicasIfHigher":
            return max(replicas, fallback.replicas)
        case "currentReplicasIfLower":
            return min(replicas, fallback.replicas)
        case _:
            return fallback.replicas
