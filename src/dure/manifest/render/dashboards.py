"""Grafana dashboards as ConfigMaps that Grafana's sidecar picks up by label."""

from __future__ import annotations

import json
from typing import NamedTuple

from dure.manifest.document import Json
from dure.manifest.render.setting import MONITORING, Setting, made


class Panel(NamedTuple):
    title: str
    description: str
    unit: str
    expr: str
    legend: str


_DEVICES = (
    Panel("Time with a kernel running", "Not how full the device is.", "percent",
          "avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL{namespace=~\"$namespace\"})", "{{namespace}}/{{pod}}"),
    Panel("Tensor cores active", "How much of the compute is used.", "percentunit",
          "avg by (namespace, pod) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{namespace=~\"$namespace\"})",
          "{{namespace}}/{{pod}}"),
    Panel("Memory bandwidth active", "Decoding is bound by it.", "percentunit",
          "avg by (namespace, pod) (DCGM_FI_PROF_DRAM_ACTIVE{namespace=~\"$namespace\"})", "{{namespace}}/{{pod}}"),
    Panel("Frame buffer used", "In MiB, as the exporter gives it.", "mbytes",
          "sum by (namespace, pod) (DCGM_FI_DEV_FB_USED{namespace=~\"$namespace\"})", "{{namespace}}/{{pod}}"),
    Panel("Power", "Per node.", "watt", "sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE)", "{{Hostname}}"),
    Panel("Temperature", "Hottest device of each node.", "celsius",
          "max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)", "{{Hostname}}"),
)  # fmt: skip
_SERVING = (
    Panel("Requests waiting", "The signal that replicas follow.", "short",
          "sum by (namespace, pod) (vllm:num_requests_waiting{namespace=~\"$namespace\"})", "{{namespace}}/{{pod}}"),
    Panel("Requests running", "In one batch.", "short",
          "sum by (namespace, pod) (vllm:num_requests_running{namespace=~\"$namespace\"})", "{{namespace}}/{{pod}}"),
    Panel("KV cache", "Full means preemption.", "percentunit",
          "max by (namespace, pod) (vllm:kv_cache_usage_perc{namespace=~\"$namespace\"})", "{{namespace}}/{{pod}}"),
    Panel("Time to first token, p95", "Over all pods of a namespace.", "s",
          "histogram_quantile(0.95, sum by (le, namespace) (rate(vllm:time_to_first_token_seconds_bucket"
          "{namespace=~\"$namespace\"}[$__rate_interval])))", "{{namespace}}"),
)  # fmt: skip


def dashboard_objects(setting: Setting) -> list[Json]:
    boards: list[tuple[str, str, tuple[Panel, ...], str]] = [
        ("dure-serving", "Dure: serving", _SERVING, "vllm:num_requests_running")
    ]
    if setting.has_nvidia:
        boards.append(("dure-devices", "Dure: devices", _DEVICES, "DCGM_FI_DEV_GPU_UTIL"))
    return [
        made(
            "v1", "ConfigMap", name, MONITORING, {"grafana_dashboard": "1"},
            data={f"{name}.json": json.dumps(_board(name, title, panels, metric), indent=1)},
        )
        for name, title, panels, metric in boards
    ]  # fmt: skip


def _board(name: str, title: str, panels: tuple[Panel, ...], metric: str) -> Json:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    namespace = {
        "name": "namespace", "type": "query", "label": "Namespace", "multi": True, "includeAll": True,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values({metric}, namespace)", "refresh": 2,
    }  # fmt: skip
    return {
        "uid": name,
        "title": title,
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, namespace]},
        "panels": [_panel(index, panel) for index, panel in enumerate(panels)],
    }


def _panel(index: int, panel: Panel) -> Json:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": source,
        "gridPos": {"x": index % 2 * 12, "y": index // 2 * 8, "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.expr, "legendFormat": panel.legend}],
    }
