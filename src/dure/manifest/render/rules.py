"""Alerts on what users feel and what breaks: queues, caches, device errors, limits; each with what to do."""

from __future__ import annotations

from typing import NamedTuple

from dure.manifest.document import Json
from dure.manifest.render.setting import MONITORING, Setting, made


class Alert(NamedTuple):
    name: str
    expr: str
    hold: str
    severity: str
    summary: str
    description: str


_SERVING = (
    Alert(
        "ServingQueueGrows",
        "sum by (namespace, pod) (vllm:num_requests_waiting) > 10",
        "5m",
        "warning",
        "Requests wait in {{ $labels.namespace }}/{{ $labels.pod }}",
        "{{ $value }} requests have waited for five minutes. Look at the scaler's maximum and at pending pods.",
    ),
    Alert(
        "ServingCacheFull",
        "max by (namespace, pod) (vllm:kv_cache_usage_perc) > 0.95",
        "10m",
        "warning",
        "The KV cache of {{ $labels.namespace }}/{{ $labels.pod }} is full",
        "Requests are preempted and computed again. Add replicas, or shorten contexts.",
    ),
)
_DEVICES = (
    Alert(
        "DeviceError",
        "max by (Hostname, gpu) (DCGM_FI_DEV_XID_ERRORS) > 0",
        "1m",
        "critical",
        "Device {{ $labels.gpu }} of {{ $labels.Hostname }} reports Xid {{ $value }}",
        "Drain the node; most Xid errors need a reset of the device. Dure places nothing there meanwhile.",
    ),
    Alert(
        "DeviceIdle",
        "avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL) < 5",
        "2h",
        "info",
        "{{ $labels.namespace }}/{{ $labels.pod }} holds a device and does not use it",
        "Ask its owner, or let Dure share the device (share modes mps or timeslice).",
    ),
)
_NODES = (
    Alert(
        "NodePoolNearLimit",
        "karpenter_nodepools_usage / karpenter_nodepools_limit > 0.9",
        "15m",
        "warning",
        "NodePool {{ $labels.nodepool }} has used {{ $value | humanizePercentage }} of its {{ "
        "$labels.resource_type }}",
        "Pending pods will get no nodes soon. Raise nodesMax of the pool in the fleet file and render again.",
    ),
)


def alert_objects(setting: Setting) -> list[Json]:
    groups: list[tuple[str, tuple[Alert, ...]]] = [("dure-serving", _SERVING)]
    if setting.has_nvidia:
        groups.append(("dure-devices", _DEVICES))
    if setting.rented:
        groups.append(("dure-nodes", _NODES))
    spec = {"groups": [{"name": name, "rules": [_rule(alert) for alert in alerts]} for name, alerts in groups]}
    labels = {"release": setting.release}
    return [made("monitoring.coreos.com/v1", "PrometheusRule", "dure", MONITORING, labels, spec=spec)]


def _rule(alert: Alert) -> Json:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.hold,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.description},
    }
