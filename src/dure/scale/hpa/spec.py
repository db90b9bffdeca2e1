"""What a user writes in a HorizontalPodAutoscaler, plus the controller's own flags.

Read by every other module of this folder. Metric values and targets are integers in thousandths, as Kubernetes
quantities are compared; `complete` fills what the API server would fill, so the engine never sees a missing rule.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Select = Literal["Max", "Min", "Disabled"]


class Policy(msgspec.Struct, frozen=True):
    """One rate limit: at most `value` pods or per cent within `period_s`."""

    kind: Literal["Pods", "Percent"]
    value: int
    period_s: int


class Rules(msgspec.Struct, frozen=True):
    """The rules of one direction; None means the default of that direction."""

    window_s: int | None = None
    select: Select = "Max"
    policies: tuple[Policy, ...] | None = None
    tolerance: float | None = None


class Behavior(msgspec.Struct, frozen=True):
    """`spec.behavior`; a missing direction gets its default."""

    up: Rules = Rules()
    down: Rules = Rules()


class External(msgspec.Struct, frozen=True, tag="External"):
    """A metric from outside the cluster; exactly one of the two targets is set."""

    name: str
    value: int | None = None
    average_value: int | None = None


class Object(msgspec.Struct, frozen=True, tag="Object"):
    """A metric that describes one Kubernetes object."""

    name: str
    value: int | None = None
    average_value: int | None = None


class PodsMetric(msgspec.Struct, frozen=True, tag="Pods"):
    """A metric reported by each pod, averaged."""

    name: str
    average_value: int


class Resource(msgspec.Struct, frozen=True, tag="Resource"):
    """CPU or memory of the pods, against their request (`utilization`, per cent) or raw (`average_value`)."""

    name: str
    utilization: int | None = None
    average_value: int | None = None
    container: str | None = None


Metric = External | Object | PodsMetric | Resource


class HpaSpec(msgspec.Struct, frozen=True):
    """The autoscaler object."""

    max_replicas: int
    min_replicas: int = 1
    metrics: tuple[Metric, ...] = ()
    behavior: Behavior | None = None


class Flags(msgspec.Struct, frozen=True):
    """The controller-manager's HPA flags, with their defaults."""

    tolerance: float = 0.1
    downscale_window_s: int = 300
    cpu_initialization_s: int = 300
    readiness_delay_s: int = 30


class Limits(msgspec.Struct, frozen=True):
    """Rules of one direction with nothing missing."""

    window_s: int
    select: Select
    policies: tuple[Policy, ...]


UP_POLICIES = (Policy("Pods", 4, 15), Policy("Percent", 100, 15))
DOWN_POLICIES = (Policy("Percent", 100, 15),)
CPU_DEFAULT = Resource("cpu", utilization=80)
DEFAULT_FLAGS = Flags()


def complete(behavior: Behavior, flags: Flags) -> tuple[Limits, Limits]:
    """Both directions with the API server's and the controller's defaults filled in: (up, down)."""
    return (
        _complete(behavior.up, UP_POLICIES, 0),
        _complete(behavior.down, DOWN_POLICIES, flags.downscale_window_s),
    )


def tolerances(spec: HpaSpec, flags: Flags) -> tuple[float, float]:
    """(up, down): the directions' own tolerance where given, else the flag."""
    behavior = spec.behavior or Behavior()
    up = flags.tolerance if behavior.up.tolerance is None else behavior.up.tolerance
    down = flags.tolerance if behavior.down.tolerance is None else behavior.down.tolerance
    return up, down


def _complete(rules: Rules, policies: tuple[Policy, ...], window_s: int) -> Limits:
    return Limits(
        window_s=window_s if rules.window_s is None else rules.window_s,
        select=rules.select,
        policies=policies if rules.policies is None else rules.policies,
    )
