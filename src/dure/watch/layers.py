"""Three layers of monitoring joined: hardware counters, software metrics, people's words, by tenant and device.

Exporters know pods, not tenants; kube-state-metrics tells which workload and tenant a pod belongs to. Collectors
hand over the samples of a window (`NAMES`), oldest first; the answer has one line for each workload and device. The
plane takes `slowness` of it into its risks: a device that was throttled for a fifth of the time carries a fifth
less. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from dure.model.sample import Sample
from dure.watch.foreign import layer_of

OWNERS = "dure_kube_pod_labels"
THROTTLED = ("dure_device_power_throttle_seconds_total", "dure_device_thermal_throttle_seconds_total")
HARDWARE = ("dure_device_busy_ratio", "dure_device_sm_active_ratio", "dure_device_memory_used_bytes", *THROTTLED)
SOFTWARE = ("dure_serving_waiting_count", "dure_serving_running_count", "dure_serving_cache_ratio")
NAMES = (OWNERS, *HARDWARE, *SOFTWARE)
# However badly a device is throttled, this much of it is left.
_LEAST_SPEED = 0.2


class Joined(msgspec.Struct, frozen=True):
    """Newest figures of one workload on one device; `throttled` is the part of the window, `said` people's words."""

    tenant: str
    workload: str
    node: str
    device: str
    hardware: dict[str, float] = {}
    software: dict[str, float] = {}
    throttled: float = 0.0
    said: tuple[str, ...] = ()


def joined(samples: Iterable[Sample], said: Mapping[str, Sequence[str]]) -> tuple[Joined, ...]:
    """`said` has the words of the last hour by workload. Sorted by tenant, workload, node and device."""
    by_series: dict[tuple[str, tuple[tuple[str, str], ...]], list[Sample]] = {}
    for sample in samples:
        by_series.setdefault((sample.name, tuple(sorted(sample.labels.items()))), []).append(sample)
    owners = {_pod(some[-1]): _owner(some[-1]) for (name, _), some in by_series.items() if name == OWNERS}
    software: dict[tuple[str, str], dict[str, float]] = {}
    hardware: dict[tuple[str, str, str, str], dict[str, float]] = {}
    throttled: dict[tuple[str, str, str, str], float] = {}
    for (name, _), some in sorted(by_series.items()):
        owner = owners.get(_pod(some[-1]))
        if owner is None or name == OWNERS:
            continue
        if layer_of(name) == "software":
            figures = software.setdefault(owner, {})
            figures[name] = figures.get(name, 0.0) + some[-1].value
            continue
        place = (*owner, some[-1].labels.get("node", ""), some[-1].labels.get("device", ""))
        hardware.setdefault(place, {})[name] = some[-1].value
        if name in THROTTLED:
            throttled[place] = throttled.get(place, 0.0) + _part(some)
    return tuple(
        Joined(*place, figures, software.get(place[:2], {}), min(1.0, throttled.get(place, 0.0)),
               tuple(said.get(place[1], ())))
        for place, figures in sorted(hardware.items())
    )  # fmt: skip


def slowness(lines: Iterable[Joined]) -> dict[str, float]:
    """By workload: how many times slower its slowest device is than one that is not throttled."""
    found: dict[str, float] = {}
    for line in lines:
        factor = 1.0 / max(_LEAST_SPEED, 1.0 - line.throttled)
        found[line.workload] = max(found.get(line.workload, 1.0), factor)
    return found


def _pod(sample: Sample) -> tuple[str, str]:
    return sample.labels.get("namespace", ""), sample.labels.get("pod", "")


def _owner(sample: Sample) -> tuple[str, str]:
    """kube-state-metrics writes a label of a pod with all but letters and digits as underscores."""
    labels = sample.labels
    workload = labels.get("label_dure_dev_workload", labels.get("pod", ""))
    return labels.get("label_dure_dev_tenant", labels.get("namespace", "")), workload


def _part(some: Sequence[Sample]) -> float:
    """Part of the window in which a counter of seconds grew; one that began again is counted from there."""
    span_s = some[-1].at_s - some[0].at_s
    grown = sum(max(0.0, after.value - before.value) for before, after in pairwise(some))
    return grown / span_s if span_s > 0.0 else 0.0
