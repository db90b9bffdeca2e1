"""From one metric to a proposed replica count, exactly as the HPA controller computes it.

Called by `engine` for each metric of a spec. Values are integers in thousandths and divide as Go integers do;
only the ratio is a float. Every function is O(pods). A metric that cannot be used is a `Refusal`, never an
exception.
"""

from __future__ import annotations

import math

import msgspec

from dure.scale.hpa.observe import Missing, PerPod, Pod, Reading, Sample, Sight, Total
from dure.scale.hpa.spec import External, Flags, Metric, Object, PodsMetric, Resource

INT32_MAX = 2**31 - 1


class Refusal(msgspec.Struct, frozen=True):
    """Why a metric gives no proposal; `reason` is the condition reason Kubernetes shows."""

    reason: str
    error: str


class Groups(msgspec.Struct, frozen=True):
    """Pods by what their metric may count for."""

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]


def propose(
    metric: Metric, reading: Reading, sight: Sight, tolerance: tuple[float, float], flags: Flags
) -> int | Refusal:
    """The replica count one metric asks for."""
    reason = f"FailedGet{_kind(metric)}Metric"
    if isinstance(reading, Missing):
        return Refusal(reason, reading.error)
    match metric:
        case External() | Object():
            if not isinstance(reading, Total) or not reading.values:
                return Refusal(reason, f"no values for metric {metric.name}")
            return _from_total(metric, sum(reading.values), sight, tolerance, reason)
        case PodsMetric() | Resource():
            if not isinstance(reading, PerPod) or not reading.samples:
                return Refusal(reason, f"no pod reported metric {metric.name}")
            return _from_pods(metric, reading.samples, sight, tolerance, flags, reason)


def within(ratio: float, tolerance: tuple[float, float]) -> bool:
    """True when the ratio is too close to 1 to act on; both ends inclusive."""
    up, down = tolerance
    return (1.0 - down) <= ratio <= (1.0 + up)


def group(pods: tuple[Pod, ...], samples: dict[str, Sample], cpu: bool, now_s: float, flags: Flags) -> Groups:
    """Sort pods into ready (counted), unready, missing and ignored, in the controller's order of tests."""
    ready = 0
    unready: list[str] = []
    missing: list[str] = []
    ignored: list[str] = []
    for pod in pods:
        if pod.deleting or pod.phase == "Failed":
            ignored.append(pod.name)
        elif pod.phase == "Pending":
            unready.append(pod.name)
        elif pod.name not in samples:
            missing.append(pod.name)
        elif cpu and _cpu_unready(pod, samples[pod.name], now_s, flags):
            unready.append(pod.name)
        else:
            ready += 1
    return Groups(ready, tuple(unready), tuple(missing), tuple(ignored))


def _kind(metric: Metric) -> str:
    match metric:
        case External():
            return "External"
        case Object():
            return "Object"
        case PodsMetric():
            return "Pods"
        case Resource():
            return "Resource" if metric.container is None else "ContainerResource"


def _ceil(value: float) -> int:
    """Ceiling that saturates at the int32 range instead of overflowing."""
    if math.isnan(value):
        return 0
    return int(min(max(math.ceil(min(max(value, -1e12), 1e12)), -INT32_MAX - 1), INT32_MAX))


def _divide(numerator: float, denominator: float) -> float:
    if denominator == 0.0:
        return math.nan if numerator == 0.0 else math.copysign(math.inf, numerator)
    return numerator / denominator


def _from_total(
    metric: External | Object, total: int, sight: Sight, tolerance: tuple[float, float], reason: str
) -> int | Refusal:
    if metric.average_value is not None:
        ratio = _divide(float(total), float(metric.average_value) * float(sight.status_replicas))
        if within(ratio, tolerance):
            return sight.status_replicas
        return _ceil(_divide(float(total), float(metric.average_value)))
    if metric.value is None:
        return Refusal(reason, f"metric {metric.name} has neither a value nor an average value target")
    ratio = _divide(float(total), float(metric.value))
    if sight.spec_replicas == 0:
        return _ceil(ratio)
    if within(ratio, tolerance):
        return sight.spec_replicas
    if not sight.pods:
        return Refusal(reason, "no pods returned by selector")
    ready = sum(1 for pod in sight.pods if pod.phase == "Running" and pod.ready)
    return _ceil(ratio * ready)


def _cpu_unready(pod: Pod, sample: Sample, now_s: float, flags: Flags) -> bool:
    """A CPU sample counts only once the pod has been ready for a whole metric window."""
    if pod.ready is None or pod.started_s is None:
        return True
    if pod.started_s + flags.cpu_initialization_s > now_s:
        return not pod.ready or sample.at_s < pod.ready_since_s + sample.window_s
    return not pod.ready and pod.started_s + flags.readiness_delay_s > pod.ready_since_s


def _from_pods(
    metric: PodsMetric | Resource,
    samples: dict[str, Sample],
    sight: Sight,
    tolerance: tuple[float, float],
    flags: Flags,
    reason: str,
) -> int | Refusal:
    if not sight.pods:
        return Refusal(reason, "no pods returned by selector")
    cpu = isinstance(metric, Resource) and metric.name == "cpu"
    groups = group(sight.pods, samples, cpu, sight.now_s, flags)
    left_out = set(groups.unready) | set(groups.ignored)
    values = {name: sample.value for name, sample in samples.items() if name not in left_out}
    requests = _requests(metric, sight.pods)
    if isinstance(requests, Refusal):
        return requests
    if not values:
        return Refusal(reason, "no metrics for any ready pod")
    ratio = _ratio(metric, values, requests, reason)
    if isinstance(ratio, Refusal):
        return ratio
    current = sight.spec_replicas
    rebalance = bool(groups.unready) and ratio > 1.0
    if not rebalance and not groups.missing:
        return current if within(ratio, tolerance) else _ceil(ratio * groups.ready)
    values |= _assumed(metric, groups.missing, requests, ratio)
    if rebalance:
        values |= dict.fromkeys(groups.unready, 0)
    again = _ratio(metric, values, requests, reason)
    if isinstance(again, Refusal):
        return again
    if within(again, tolerance) or (ratio < 1.0 < again) or (again < 1.0 < ratio):
        return current
    count = _ceil(again * len(values))
    if (again < 1.0 and count > current) or (again > 1.0 and count < current):
        return current
    return count


def _requests(metric: PodsMetric | Resource, pods: tuple[Pod, ...]) -> dict[str, int] | Refusal:
    """Requests by pod; a utilisation target needs one on every pod."""
    if isinstance(metric, PodsMetric) or metric.utilization is None:
        return {}
    for pod in pods:
        if pod.request is None:
            return Refusal(f"FailedGet{_kind(metric)}Metric", f"missing request for {metric.name} in pod {pod.name}")
    return {pod.name: pod.request for pod in pods if pod.request is not None}


def _ratio(
    metric: PodsMetric | Resource, values: dict[str, int], requests: dict[str, int], reason: str
) -> float | Refusal:
    if isinstance(metric, Resource) and metric.utilization is not None:
        used = sum(value for name, value in values.items() if name in requests)
        asked = sum(requests[name] for name in values if name in requests)
        if asked == 0:
            return Refusal(reason, "no metrics returned matched known pods")
        return float(used * 100 // asked) / float(metric.utilization)
    if metric.average_value is None:
        return Refusal(reason, f"metric {metric.name} has neither a utilization nor an average value target")
    return float(sum(values.values()) // len(values)) / float(metric.average_value)


def _assumed(
    metric: PodsMetric | Resource, missing: tuple[str, ...], requests: dict[str, int], ratio: float
) -> dict[str, int]:
    """Values that keep missing pods from pushing the count further in the direction it already goes."""
    if ratio > 1.0:
        return dict.fromkeys(missing, 0)
    if ratio == 1.0:
        return {}
    if isinstance(metric, Resource) and metric.utilization is not None:
        share = max(100, metric.utilization)
        return {name: requests[name] * share // 100 for name in missing}
    return dict.fromkeys(missing, metric.average_value or 0)
