"""Ten autoscalers and what their metrics say at every tick: the traces of the agreement with the real controller.

Read by `hpa_agreement`. Everything follows from a trace's seed, the tick and the replica count of that tick, so the
real controller and Dure's mirror can be shown the same. Windows and periods are odd multiples of `STEP_S` / 2, as is
the default period of 15 s: no record is close to the end of a window, even when a busy machine spoils the pace.
"""

from __future__ import annotations

import random
from typing import Literal

import msgspec

from dure.scale.hpa.observe import Missing, PerPod, Pod, Reading, Sample, Total
from dure.scale.hpa.spec import Behavior, External, Flags, HpaSpec, Object, PodsMetric, Policy, Resource, Rules
from lab.rest import Json

STEP_S = 2.0
LONGEST_S = 15
FLAGS = Flags(downscale_window_s=9, cpu_initialization_s=86_400, readiness_delay_s=30)
TARGET = 1000
NAMESPACE = "default"
AGES_AGO_S = 7200
WINDOW_S = 60

# r: ready, u: running but not ready, p: pending, f: failed, m: ready without a sample, h: ready for too short a time.
Letter = Literal["r", "u", "p", "f", "m", "h"]


class Trace(msgspec.Struct, frozen=True):
    """One autoscaler. `lag` is how many replicas the status may follow the spec in one tick; 0 at once."""

    name: str
    spec: HpaSpec
    start: int = 3
    lag: int = 0
    pods: str = ""
    failing: float = 0.0
    seed: int = 0

    @property
    def letters(self) -> bool:
        return bool(self.pods)


def load(trace: Trace, tick: int) -> float:
    """What arrives at a tick, in replicas that would be busy to the target: calm stretches, jumps, silence."""
    rng = random.Random(f"{trace.name} {trace.seed} {tick // 7}")
    level = rng.choice((0.0, 0.4, 1.0, 2.0, 3.5, 5.0, 8.0, 11.0, 16.0))
    return level * random.Random(f"{trace.name} {trace.seed} {tick}").uniform(0.85, 1.15)


def readings(trace: Trace, tick: int, replicas: int, pods: tuple[Pod, ...]) -> tuple[Reading, ...]:
    """What each metric of the trace says at a tick."""
    return tuple(_reading(trace, number, tick, replicas, pods) for number in range(len(trace.spec.metrics)))


def _reading(trace: Trace, number: int, tick: int, replicas: int, pods: tuple[Pod, ...]) -> Reading:
    rng = random.Random(f"{trace.name} {trace.seed} {tick} metric {number}")
    if rng.random() < trace.failing:
        return Missing("no metrics")
    metric = trace.spec.metrics[number]
    total = load(trace, tick) * TARGET * rng.choice((0.5, 1.0)) if number else load(trace, tick) * TARGET
    match metric:
        case External() | Object():
            averaged = metric.average_value is not None
            value = int(total if averaged else total / max(replicas, 1))
            if isinstance(metric, External) and averaged and value > 2:
                return Total((value // 3, value - value // 3))
            return Total((value,))
        case PodsMetric() | Resource():
            each = int(total / max(replicas, 1))
            values = {pod.name: int(each * rng.uniform(0.6, 1.4)) for pod in pods}
            samples = {name: Sample(value, SAMPLE_AT_S, float(WINDOW_S)) for name, value in values.items()}
            return PerPod({name: sample for name, sample in samples.items() if not name.endswith("-m")})


SAMPLE_AT_S = -10.0
"""Samples and pods carry times relative to the start of a run; samples are ten seconds older than it."""


def pods_of(trace: Trace, replicas: int) -> tuple[Pod, ...]:
    """The pods of a deployment with that many replicas; a pod's letter is the last part of its name."""
    letters = [trace.pods[index % len(trace.pods)] for index in range(replicas)] if trace.pods else []
    return tuple(_pod(f"{trace.name}-{index}-{letter}", letter) for index, letter in enumerate(letters))


def _pod(name: str, letter: str) -> Pod:
    since = SAMPLE_AT_S - 30.0 if letter == "h" else -float(AGES_AGO_S) + 60.0
    phase: Literal["Pending", "Failed", "Running"] = (
        "Pending" if letter == "p" else "Failed" if letter == "f" else "Running"
    )
    return Pod(name, phase, letter in "rmh", since, -float(AGES_AGO_S), request=TARGET)


def _average(name: str) -> External:
    return External(name, average_value=TARGET)


def _rules(window_s: int, *policies: Policy, **more: object) -> Rules:
    return Rules(window_s=window_s, policies=policies, **more)  # type: ignore[arg-type]  # keywords of the struct


def _pods(value: int, period_s: int) -> Policy:
    return Policy("Pods", value, period_s)


def _percent(value: int, period_s: int) -> Policy:
    return Policy("Percent", value, period_s)


def traces() -> tuple[Trace, ...]:
    """Every kind of metric, both ways of limiting, missing data, slow pods, zero."""
    both = Behavior(_rules(3, _pods(2, 7), _percent(50, 11)), _rules(5, _pods(1, 3), _percent(30, 15)))
    tight = Behavior(_rules(7, _pods(3, 5), _percent(100, 9), select="Min"), _rules(15, _pods(2, 7), select="Min"))
    one_way = Behavior(Rules(window_s=0, tolerance=0.3), Rules(select="Disabled", tolerance=0.02))
    loose = Behavior(Rules(tolerance=0.02), Rules(window_s=3, tolerance=0.4))
    two = (_average("several-0"), Object("several-1", value=TARGET))
    return (
        Trace("plain", HpaSpec(12, 1, (_average("plain-0"),))),
        Trace("value", HpaSpec(12, 1, (External("value-0", value=TARGET),)), pods="rrurp", start=4),
        Trace("policies", HpaSpec(20, 2, (_average("policies-0"),), both), lag=1),
        Trace("tight", HpaSpec(20, 1, (_average("tight-0"),), tight), start=20),
        Trace("one-way", HpaSpec(9, 1, (_average("one-way-0"),), one_way), start=2),
        Trace("several", HpaSpec(15, 2, two), failing=0.15, pods="r"),
        Trace("per-pod", HpaSpec(10, 1, (PodsMetric("per-pod-0", TARGET),)), pods="rrmrrpru", failing=0.05),
        Trace("cpu", HpaSpec(10, 1, (Resource("cpu", utilization=60),), loose), pods="rrhrmrufr"),
        Trace("zero", HpaSpec(8, 0, (_average("zero-0"),), Behavior(down=Rules(window_s=3))), lag=2, start=1),
        Trace("object", HpaSpec(12, 3, (Object("object-0", average_value=TARGET),), both), lag=2, start=16),
    )


def manifest(trace: Trace) -> Json:
    """The trace's HorizontalPodAutoscaler."""
    spec: Json = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": trace.name},
        "minReplicas": trace.spec.min_replicas,
        "maxReplicas": trace.spec.max_replicas,
        "metrics": [_metric(metric) for metric in trace.spec.metrics],
    }
    if trace.spec.behavior is not None:
        behavior = trace.spec.behavior
        spec["behavior"] = {"scaleUp": _direction(behavior.up), "scaleDown": _direction(behavior.down)}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": trace.name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _direction(rules: Rules) -> Json:
    raw: Json = {"selectPolicy": rules.select}
    if rules.window_s is not None:
        raw["stabilizationWindowSeconds"] = rules.window_s
    if rules.policies is not None:
        raw["policies"] = [{"type": p.kind, "value": p.value, "periodSeconds": p.period_s} for p in rules.policies]
    if rules.tolerance is not None:
        raw["tolerance"] = f"{round(rules.tolerance * 1000)}m"
    return raw


def _metric(metric: External | Object | PodsMetric | Resource) -> Json:
    match metric:
        case External():
            return {"type": "External", "external": {"metric": {"name": metric.name}, "target": _target(metric)}}
        case Object():
            about = {"apiVersion": "v1", "kind": "Service", "name": "front"}
            inner = {"metric": {"name": metric.name}, "describedObject": about, "target": _target(metric)}
            return {"type": "Object", "object": inner}
        case PodsMetric():
            target = {"type": "AverageValue", "averageValue": f"{metric.average_value}m"}
            return {"type": "Pods", "pods": {"metric": {"name": metric.name}, "target": target}}
        case Resource():
            used: Json = {"type": "Utilization", "averageUtilization": metric.utilization}
            return {"type": "Resource", "resource": {"name": metric.name, "target": used}}


def _target(metric: External | Object) -> Json:
    if metric.average_value is not None:
        return {"type": "AverageValue", "averageValue": f"{metric.average_value}m"}
    return {"type": "Value", "value": f"{metric.value}m"}
