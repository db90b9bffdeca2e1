"""Names of other people's metrics as Dure's own signals: DCGM exporter, vLLM, kube-state-metrics.

Readers of scrapes ask `signal_of` once for each series. Units become base units (seconds, bytes, ratios), labels
become Dure's (`node`, `device`, `slice`, `namespace`, `pod`, `model`). A metric that no rule here knows is left
out: the store is for what somebody looks at. Pure.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Layer = Literal["hardware", "software", "cluster"]
_MIB = 1024.0 * 1024.0


class Rule(NamedTuple):
    """`name` and `layer` of the signal, and what a foreign value is multiplied by."""

    name: str
    layer: Layer
    factor: float = 1.0


def _histogram(foreign: str, name: str) -> dict[str, Rule]:
    return {f"{foreign}_{part}": Rule(f"{name}_{part}", "software") for part in ("bucket", "sum", "count")}


DCGM: dict[str, Rule] = {
    # Time with any kernel, not how full the device is. The exporter leaves out SM_ACTIVE and SM_OCCUPANCY by default.
    "DCGM_FI_DEV_GPU_UTIL": Rule("dure_device_busy_ratio", "hardware", 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": Rule("dure_device_copy_busy_ratio", "hardware", 0.01),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": Rule("dure_device_engine_active_ratio", "hardware"),
    "DCGM_FI_PROF_SM_ACTIVE": Rule("dure_device_sm_active_ratio", "hardware"),
    "DCGM_FI_PROF_SM_OCCUPANCY": Rule("dure_device_sm_occupancy_ratio", "hardware"),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": Rule("dure_device_tensor_active_ratio", "hardware"),
    "DCGM_FI_PROF_DRAM_ACTIVE": Rule("dure_device_bandwidth_active_ratio", "hardware"),
    "DCGM_FI_DEV_FB_USED": Rule("dure_device_memory_used_bytes", "hardware", _MIB),
    "DCGM_FI_DEV_FB_FREE": Rule("dure_device_memory_free_bytes", "hardware", _MIB),
    "DCGM_FI_DEV_FB_RESERVED": Rule("dure_device_memory_reserved_bytes", "hardware", _MIB),
    "DCGM_FI_DEV_POWER_USAGE": Rule("dure_device_power_watts", "hardware"),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Rule("dure_device_energy_joules_total", "hardware", 0.001),
    "DCGM_FI_DEV_GPU_TEMP": Rule("dure_device_temperature_celsius", "hardware"),
    "DCGM_FI_DEV_MEMORY_TEMP": Rule("dure_device_memory_temperature_celsius", "hardware"),
    "DCGM_FI_DEV_SM_CLOCK": Rule("dure_device_sm_clock_hertz", "hardware", 1e6),
    "DCGM_FI_DEV_XID_ERRORS": Rule("dure_device_xid_code", "hardware"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": Rule("dure_device_pcie_replays_total", "hardware"),
    "DCGM_FI_DEV_POWER_VIOLATION": Rule("dure_device_power_throttle_seconds_total", "hardware", 1e-6),
    "DCGM_FI_DEV_THERMAL_VIOLATION": Rule("dure_device_thermal_throttle_seconds_total", "hardware", 1e-6),
}
VLLM: dict[str, Rule] = {
    "vllm:num_requests_waiting": Rule("dure_serving_waiting_count", "software"),
    "vllm:num_requests_running": Rule("dure_serving_running_count", "software"),
    "vllm:kv_cache_usage_perc": Rule("dure_serving_cache_ratio", "software"),
    # What the cache figure was called before version 0.10.
    "vllm:gpu_cache_usage_perc": Rule("dure_serving_cache_ratio", "software"),
    "vllm:request_success_total": Rule("dure_serving_answered_total", "software"),
    "vllm:prompt_tokens_total": Rule("dure_serving_prompt_tokens_total", "software"),
    "vllm:generation_tokens_total": Rule("dure_serving_generated_tokens_total", "software"),
    "vllm:num_preemptions_total": Rule("dure_serving_preemptions_total", "software"),
    **_histogram("vllm:time_to_first_token_seconds", "dure_serving_first_token_seconds"),
    **_histogram("vllm:inter_token_latency_seconds", "dure_serving_token_seconds"),
    **_histogram("vllm:time_per_output_token_seconds", "dure_serving_token_seconds"),
    **_histogram("vllm:e2e_request_latency_seconds", "dure_serving_request_seconds"),
    **_histogram("vllm:request_queue_time_seconds", "dure_serving_queue_seconds"),
}
KUBE_STATE: dict[str, Rule] = {
    "kube_pod_status_phase": Rule("dure_kube_pod_phase_bool", "cluster"),
    "kube_pod_info": Rule("dure_kube_pod_info", "cluster"),
    "kube_pod_labels": Rule("dure_kube_pod_labels", "cluster"),
    "kube_pod_container_resource_requests": Rule("dure_kube_pod_requests", "cluster"),
    "kube_node_status_allocatable": Rule("dure_kube_node_allocatable", "cluster"),
    "kube_node_status_condition": Rule("dure_kube_node_condition_bool", "cluster"),
    "kube_deployment_spec_replicas": Rule("dure_kube_replicas_wanted", "cluster"),
    "kube_deployment_status_replicas_ready": Rule("dure_kube_replicas_ready", "cluster"),
    "kube_horizontalpodautoscaler_status_current_replicas": Rule("dure_kube_autoscaler_replicas", "cluster"),
    "kube_horizontalpodautoscaler_spec_max_replicas": Rule("dure_kube_autoscaler_max_replicas", "cluster"),
}
RULES: dict[str, Rule] = {**DCGM, **VLLM, **KUBE_STATE}
# Ours for theirs. A scrape without honorLabels puts `exported_` before what the exporter itself said.
_LABELS = {
    "Hostname": "node", "gpu": "device", "UUID": "uuid", "modelName": "class", "GPU_I_ID": "slice",
    "GPU_I_PROFILE": "profile", "model_name": "model", "exported_pod": "pod", "exported_namespace": "namespace",
    "exported_container": "container", "horizontalpodautoscaler": "autoscaler",
}  # fmt: skip
_DROPPED = frozenset({"pci_bus_id", "engine", "job", "instance", "endpoint", "service", "prometheus"})


def signal_of(name: str, labels: dict[str, str]) -> tuple[str, dict[str, str], float] | None:
    """Name and labels of the signal that a foreign series is, and what its values are multiplied by."""
    rule = RULES.get(name)
    return None if rule is None else (rule.name, _translated(labels), rule.factor)


def layer_of(name: str) -> Layer | None:
    """Which of the layers of monitoring a signal of ours belongs to."""
    return _LAYERS.get(name)


def _translated(labels: dict[str, str]) -> dict[str, str]:
    exported = {key for key in labels if key.startswith("exported_")}
    found = {}
    for key, value in labels.items():
        # With `exported_pod` there, `pod` is the exporter's own.
        if f"exported_{key}" in exported or key in _DROPPED or key.startswith("DCGM_FI_") or not value:
            continue
        found[_LABELS.get(key, key)] = value
    if "uuid" in found or "slice" in found:
        # `device` is also DCGM's word for the device file (nvidia0); the index is what people know.
        found["device"] = labels.get("gpu", found.get("device", ""))
    return found


_LAYERS: dict[str, Layer] = {rule.name: rule.layer for rule in RULES.values()}
SIGNALS = tuple(sorted(_LAYERS))
