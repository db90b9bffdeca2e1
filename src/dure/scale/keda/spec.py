"""What a user writes in a KEDA ScaledObject, with its annotations.

Read by every other module of this folder. Values and targets are floats as in the manifests; they become
thousandths only when they are served to the HPA.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dure.scale.hpa.spec import Behavior, External, HpaSpec, Rules

MetricType = Literal["AverageValue", "Value"]
FallbackBehavior = Literal[
    "static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower", "scalingModifiers"
]


class Trigger(msgspec.Struct, frozen=True):
    """One trigger; `name` is how scaling modifiers refer to it."""

    name: str
    target: float
    activation: float = 0.0
    metric_type: MetricType = "AverageValue"


class Fallback(msgspec.Struct, frozen=True):
    """What to pretend after more than `failure_threshold` failures in a row."""

    replicas: int
    failure_threshold: int = 3
    behavior: FallbackBehavior = "static"


class Modifiers(msgspec.Struct, frozen=True):
    """One formula over all triggers instead of one metric each."""

    formula: str
    target: float
    activation: float = 0.0
    metric_type: MetricType = "AverageValue"


class Pause(msgspec.Struct, frozen=True):
    """The pausing annotations."""

    paused: bool = False
    replicas: int | None = None
    scale_in: bool = False
    scale_out: bool = False


class ScaledObject(msgspec.Struct, frozen=True):
    """A ScaledObject with KEDA's defaults."""

    triggers: tuple[Trigger, ...]
    min_replicas: int = 0
    max_replicas: int = 100
    idle_replicas: int | None = None
    polling_s: float = 30.0
    cooldown_s: float = 300.0
    initial_cooldown_s: float = 0.0
    created_s: float = 0.0
    fallback: Fallback | None = None
    modifiers: Modifiers | None = None
    behavior: Behavior | None = None
    pause: Pause = Pause()
    force_activation: bool = False


def generated_hpa(scaled: ScaledObject) -> HpaSpec:
    """The HPA that KEDA writes for the 1..N part; pausing one direction disables its policies."""
    return HpaSpec(
        max_replicas=scaled.max_replicas,
        min_replicas=max(scaled.min_replicas, 1),
        metrics=tuple(_external(index, trigger) for index, trigger in enumerate(_metrics(scaled))),
        behavior=_behavior(scaled),
    )


def _metrics(scaled: ScaledObject) -> tuple[Trigger, ...]:
    if scaled.modifiers is None:
        return scaled.triggers
    made = scaled.modifiers
    return (Trigger("composite-metric", made.target, made.activation, made.metric_type),)


def _external(index: int, trigger: Trigger) -> External:
    name = trigger.name if trigger.name == "composite-metric" else f"s{index}-{trigger.name}"
    target = int(trigger.target * 1000)
    if trigger.metric_type == "Value":
        return External(name, value=target)
    return External(name, average_value=target)


def _behavior(scaled: ScaledObject) -> Behavior | None:
    if not scaled.pause.scale_in and not scaled.pause.scale_out:
        return scaled.behavior
    given = scaled.behavior or Behavior()
    return Behavior(
        up=_disabled(given.up) if scaled.pause.scale_out else given.up,
        down=_disabled(given.down) if scaled.pause.scale_in else given.down,
    )


def _disabled(rules: Rules) -> Rules:
    return msgspec.structs.replace(rules, select="Disabled")
