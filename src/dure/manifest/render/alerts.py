"""The alerts, each with its runbook: what causes it, how to check, which command remedies it.

On what users feel (promises, queues, caches) and what breaks (devices, nodes, Dure itself). Ratios are taken device
by device, never over the fleet: a mean of forty idle devices hides a full one. `rules` makes the PrometheusRule of
them, `docs/runbook.md` is made of the same texts. `promtool` plays each of them in the tests.
"""

from __future__ import annotations

from typing import NamedTuple


class Alert(NamedTuple):
    """`hold` is how long it must be so. `cause`, `check` and `remedy` are the runbook; a remedy is a command."""

    name: str
    expr: str
    hold: str
    severity: str
    summary: str
    cause: str
    check: str
    remedy: str


def _burn(factor: float, long: str, short: str) -> str:
    """The error budget of 5 % late requests is spent `factor` times too fast, over a long window and still now."""

    def late(window: str) -> str:
        asked = f"sum by (tenant, workload) (rate(dure_serving_requests_total[{window}]))"
        return f"1 - sum by (tenant, workload) (rate(dure_serving_requests_good_total[{window}])) / {asked}"

    return f"({late(long)} > {factor} * 0.05) and ({late(short)} > {factor} * 0.05)"


PROMISES = (
    Alert(
        "PromiseBurnsFast", _burn(14.4, "1h", "5m"), "2m", "critical",
        "{{ $labels.workload }} of {{ $labels.tenant }} answers {{ $value | humanizePercentage }} too late",
        "Too few replicas for the load, a slow neighbour on the same device, or a device that is throttled.",
        "dure why {{ $labels.workload }}; then look at waiting requests and at the weight on its shared device.",
        "dure feedback {{ $labels.workload }} --too-slow",
    ),
    Alert(
        "PromiseBurnsSlowly", _burn(6, "6h", "30m"), "15m", "warning",
        "{{ $labels.workload }} of {{ $labels.tenant }} spends its error budget too fast",
        "A load that has outgrown its smallest number of replicas, or a slower class than was planned for.",
        "dure plan -f WORKLOAD.yaml tells what more replicas or a faster class would cost.",
        "dure apply -f WORKLOAD.yaml, with a larger replicas.min or an SLO that can be kept",
    ),
    Alert(
        "PromiseAtRisk", "max by (tenant, workload) (dure_watch_risk_ratio) > 0.8", "10m", "warning",
        "{{ $labels.workload }} of {{ $labels.tenant }} will probably break its promise",
        "The load that is coming needs more replicas than there is room for, or than replicas.max allows.",
        "dure get workloads; compare ready replicas with replicas.max, and free devices of its pool.",
        "dure apply -f WORKLOAD.yaml, with a larger replicas.max; or dure defrag plan CLUSTER",
    ),
)  # fmt: skip
SERVING = (
    Alert(
        "ServingQueueGrows", "sum by (namespace, pod) (vllm:num_requests_waiting) > 10", "5m", "warning",
        "{{ $value }} requests wait in {{ $labels.namespace }}/{{ $labels.pod }}",
        "More requests come than the replicas answer; the scaler is at its maximum, or pods are pending.",
        "kubectl -n {{ $labels.namespace }} get hpa,pods",
        "kubectl -n {{ $labels.namespace }} edit scaledobject NAME, with a larger maxReplicaCount",
    ),
    Alert(
        "ServingCacheFull", "max by (namespace, pod) (vllm:kv_cache_usage_perc) > 0.95", "10m", "warning",
        "The KV cache of {{ $labels.namespace }}/{{ $labels.pod }} is full",
        "Long contexts or too many requests at once: some are preempted and computed again.",
        "Compare rate(vllm:num_preemptions_total[5m]) and the length of prompts with a week ago.",
        "kubectl -n {{ $labels.namespace }} scale deployment NAME --replicas N, or a smaller --max-model-len",
    ),
)  # fmt: skip
DEVICES = (
    Alert(
        "GPUMemoryPressure",
        "max by (Hostname, gpu, GPU_I_ID) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) > 0.97",
        "10m", "warning",
        "Memory of device {{ $labels.gpu }} of {{ $labels.Hostname }} is {{ $value | humanizePercentage }} full",
        "A workload needs more memory than it asked for. Engines that take 92 % for their cache stay below.",
        "dure get devices tells who holds slices of it; nvidia-smi on the node tells which process.",
        "dure apply -f WORKLOAD.yaml, with a larger demand.memory",
    ),
    Alert(
        "GPUHighUtilization",
        "avg by (Hostname, gpu, GPU_I_ID) (avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[10m])) > 0.95",
        "30m", "info",
        "Device {{ $labels.gpu }} of {{ $labels.Hostname }} is busy {{ $value | humanizePercentage }} of the time",
        "Good for a training; for a serving it means that queues will grow with any further load.",
        "dure get devices; if servings share it, look at dure share status --device.",
        "dure share policy set slo --device DEVICE",
    ),
    Alert(
        "DeviceThrottled",
        "sum by (Hostname, gpu) (rate(DCGM_FI_DEV_POWER_VIOLATION[5m]) + rate(DCGM_FI_DEV_THERMAL_VIOLATION[5m]))"
        " / 1e6 > 0.1",
        "15m", "warning",
        "Device {{ $labels.gpu }} of {{ $labels.Hostname }} is throttled: {{ $value | humanizePercentage }} of time",
        "A power limit that is too low for the work, a failed fan, or air that is too warm.",
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE on {{ $labels.Hostname }}.",
        "kubectl cordon {{ $labels.Hostname }}",
    ),
    Alert(
        "DeviceError", "max by (Hostname, gpu) (DCGM_FI_DEV_XID_ERRORS) > 0", "1m", "critical",
        "Device {{ $labels.gpu }} of {{ $labels.Hostname }} reports Xid {{ $value }}",
        "A fault of hardware, driver or program. 48, 63, 64, 79, 94 and 95 are faults of the device itself.",
        "dmesg on the node for the Xid and the process; Dure places nothing on the device meanwhile.",
        "kubectl drain {{ $labels.Hostname }} --ignore-daemonsets --delete-emptydir-data",
    ),
    Alert(
        "DeviceIdle", "avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL{pod!=\"\"}) < 5", "2h", "info",
        "{{ $labels.namespace }}/{{ $labels.pod }} holds a device and does not use it",
        "A notebook left open, a job that waits for data, or a device asked for in vain.",
        "dure get devices, and ask its owner.",
        "dure cancel WORKLOAD, or let it share: share modes mps or timeslice in its pool",
    ),
)  # fmt: skip
NODES = (
    Alert(
        "NodePoolNearLimit", "karpenter_nodepools_usage / karpenter_nodepools_limit > 0.9", "15m", "warning",
        "NodePool {{ $labels.nodepool }} has used {{ $value | humanizePercentage }} of its "
        "{{ $labels.resource_type }}",
        "More demand than the limit of the pool allows; pending pods will soon get no nodes.",
        "kubectl get nodepool {{ $labels.nodepool }} -o yaml; dure get pools",
        "dure render nodes --fleet fleet.yaml --cluster CLUSTER | kubectl apply -f -, with a larger nodesMax",
    ),
)  # fmt: skip
DURE = (
    Alert(
        "ClusterUnreachable", "min by (cluster) (dure_observe_reachable_bool) == 0", "5m", "critical",
        "The agent of {{ $labels.cluster }} does not report",
        "The agent is down, or the way from it to the plane is. What runs there goes on.",
        "kubectl -n dure-system logs deploy/dure-agent on {{ $labels.cluster }}; dure doctor",
        "kubectl -n dure-system rollout restart deploy/dure-agent",
    ),
    Alert(
        "DureAway", "absent(dure_place_workloads_count)", "10m", "critical",
        "Nobody has seen the figures of Dure for ten minutes",
        "The plane is down, or Prometheus cannot reach or is not allowed to read its /metrics.",
        "dure status; then the target's state in Prometheus.",
        "dure up, or kubectl -n dure-system rollout restart deploy/dure-plane",
    ),
    Alert(
        "WorkloadsHeld", "sum(dure_place_workloads_count{phase=\"held\"}) > 20", "1h", "warning",
        "{{ $value }} workloads have waited for an hour",
        "No room, a quota that is used up, or devices in pieces that are too small.",
        "dure ps; dure why WORKLOAD names the numbers that clash.",
        "dure defrag plan CLUSTER, or more nodes in the fleet file",
    ),
)  # fmt: skip


def runbook(alert: Alert) -> str:
    return f"Cause: {alert.cause}\nCheck: {alert.check}\nRemedy: {alert.remedy}"
