"""What one sync of an autoscaler sees: the scale, the pods, the metric values.

Built by the agent from the API server and by the simulator from its model; read by `proposal` and `engine`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]


class Pod(msgspec.Struct, frozen=True):
    """The parts of a pod's status that the rules look at; times in seconds, `ready` None without the condition."""

    name: str
    phase: Phase = "Running"
    ready: bool | None = True
    ready_since_s: float = 0.0
    started_s: float | None = 0.0
    deleting: bool = False
    request: int | None = None


class Sample(msgspec.Struct, frozen=True):
    """One pod's metric value in thousandths, when it was taken and over which window."""

    value: int
    at_s: float = 0.0
    window_s: float = 60.0


class Total(msgspec.Struct, frozen=True, tag="total"):
    """An external or object metric: the values of all its series."""

    values: tuple[int, ...]


class PerPod(msgspec.Struct, frozen=True, tag="pods"):
    """A pods or resource metric: one sample for each pod that reported."""

    samples: dict[str, Sample]


class Missing(msgspec.Struct, frozen=True, tag="missing"):
    """The metrics API answered with an error."""

    error: str


Reading = Total | PerPod | Missing


class Sight(msgspec.Struct, frozen=True):
    """Everything one sync may look at. `readings` follows the order of the spec's metrics."""

    now_s: float
    spec_replicas: int
    status_replicas: int
    readings: tuple[Reading, ...] = ()
    pods: tuple[Pod, ...] = ()
    ambiguous: bool = False
    selector_ok: bool = True
