"""What the Grafana dashboards show: a panel is a title, a unit and a query; a board is a list of them.

`dashboards` turns them into Grafana's JSON. The first board has the five panels of a GPU fleet that people ask for
first: utilisation, memory, scaling, nodes, cost. Every query is run in the tests against a real Prometheus that the
demo fleet has filled, and none comes back empty. Cost is in the fleet's own currency, hence names by pattern.
"""

from __future__ import annotations

from typing import NamedTuple


class Panel(NamedTuple):
    """`needs` names whose figures it takes: dure, dcgm or vllm."""

    title: str
    description: str
    unit: str
    expr: str
    legend: str
    needs: str = "dure"


class Board(NamedTuple):
    """`variable` and `metric`: the label that the board can be narrowed by, and where its values are found."""

    name: str
    title: str
    variable: str
    metric: str
    panels: tuple[Panel, ...]


_HERE = 'cluster=~"$cluster"'
_SPACE = 'namespace=~"$namespace"'


def _cost(prefix: str) -> str:
    return f'{{__name__=~"{prefix}_[a-z]+_per_hour",{_HERE}}}'


OVERVIEW = Board("dure-overview", "Dure: overview", "cluster", "dure_pack_devices_count", (
    Panel("Utilisation", "Time with a kernel running, by class of device; not how full the devices are.", "percent",
          "avg by (modelName) (DCGM_FI_DEV_GPU_UTIL)", "{{modelName}}", "dcgm"),
    Panel("Memory", "Used over used and free, of the ten fullest devices.", "percentunit",
          "topk(10, max by (Hostname, gpu) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)))",
          "{{Hostname}}/{{gpu}}", "dcgm"),
    Panel("Devices in use", "Devices' worth that workloads hold, over all.", "percentunit",
          f"sum by (cluster, pool) (dure_pack_devices_used{{{_HERE}}})"
          f" / sum by (cluster, pool) (dure_pack_devices_count{{{_HERE}}} > 0)", "{{cluster}}/{{pool}}"),
    Panel("Scaling events", "Steps of replicas up and down.", "short",
          "sum by (cluster, direction) (increase(dure_scale_replica_steps_total[$__rate_interval]))",
          "{{cluster}} {{direction}}"),
    Panel("Replicas", "Wanted by each serving.", "short",
          f"sum by (workload) (dure_scale_replicas_count{{{_HERE}}})", "{{workload}}"),
    Panel("Node provisioning", "Nodes that came and went.", "short",
          f"sum by (cluster, pool, direction) (increase(dure_scale_node_changes_total{{{_HERE}}}[$__rate_interval]))",
          "{{cluster}}/{{pool}} {{direction}}"),
    Panel("Nodes", "Ready, by pool.", "short", f"sum by (cluster, pool) (dure_scale_nodes_ready{{{_HERE}}})",
          "{{cluster}}/{{pool}}"),
    Panel("Cost", "Per hour, in the fleet's currency.", "short",
          f"sum by (cluster) ({_cost('dure_watch_cost')})", "{{cluster}}"),
    Panel("Spent this month", "By tenant, in the fleet's currency.", "short",
          'max by (tenant) ({__name__=~"dure_watch_month_spent_[a-z]+"})', "{{tenant}}"),
    Panel("Carbon", "Grams of CO2e per hour.", "massg",
          f"sum by (cluster) (dure_watch_carbon_grams_per_hour{{{_HERE}}})", "{{cluster}}"),
    Panel("Power", "Electric power of the devices.", "watt",
          f"sum by (cluster) (dure_watch_power_watts{{{_HERE}}})", "{{cluster}}"),
))  # fmt: skip
PROMISES = Board("dure-promises", "Dure: promises", "workload", "dure_serving_requests_total", (
    Panel("Answered in time", "Part of the requests, over the last minutes.", "percentunit",
          'sum by (workload) (rate(dure_serving_requests_good_total{workload=~"$workload"}[$__rate_interval]))'
          ' / sum by (workload) (rate(dure_serving_requests_total{workload=~"$workload"}[$__rate_interval]))',
          "{{workload}}"),
    Panel("Requests", "Asked per second.", "reqps",
          'sum by (workload) (rate(dure_serving_requests_total{workload=~"$workload"}[$__rate_interval]))',
          "{{workload}}"),
    Panel("Risk", "That the promise is broken soon with the replicas there are.", "percentunit",
          'max by (workload) (dure_watch_risk_ratio{workload=~"$workload"})', "{{workload}}"),
    Panel("Requests foreseen", "Per second, at the horizon.", "reqps",
          'max by (workload) (dure_watch_foreseen_requests_per_second{workload=~"$workload"})', "{{workload}}"),
    Panel("Replicas not ready", "Wanted, and not answering yet.", "short",
          'sum by (workload) (dure_scale_replicas_count{workload=~"$workload"}'
          ' - dure_scale_replicas_ready{workload=~"$workload"})', "{{workload}}"),
    Panel("Weights on shared devices", "Equation 3; 1 is the mean.", "short",
          "avg by (tenant) (dure_share_weight_ratio)", "{{tenant}}"),
    Panel("Requests waiting on shared devices", "By tenant of a device.", "short",
          "sum by (tenant) (dure_share_waiting_count)", "{{tenant}}"),
))  # fmt: skip
PLACING = Board("dure-placing", "Dure: placing", "cluster", "dure_pack_devices_count", (
    Panel("Workloads", "By phase.", "short",
          'sum by (phase) (dure_place_workloads_count{phase!~"done|failed"})', "{{phase}}"),
    Panel("Decisions", "Per minute, by kind.", "cpm",
          "60 * sum by (kind) (rate(dure_decisions_total[$__rate_interval]))", "{{kind}}"),
    Panel("Devices held", "By tenant.", "short", "sum by (tenant) (dure_place_devices_held)", "{{tenant}}"),
    Panel("Congestion prices", "1 is neutral; more steers work away.", "short",
          f"max by (cluster, class) (dure_place_congestion_ratio{{{_HERE}}})", "{{cluster}}/{{class}}"),
    Panel("Learned weights", "Of promises and of locality.", "short",
          "max by (weight) (dure_place_weight_ratio)", "{{weight}}"),
    Panel("Clusters that report", "0 is a lost one.", "short",
          f"min by (cluster) (dure_observe_reachable_bool{{{_HERE}}})", "{{cluster}}"),
))  # fmt: skip
DEVICES = Board("dure-devices", "Dure: devices", "namespace", "DCGM_FI_DEV_GPU_UTIL", (
    Panel("Time with a kernel running", "Not how full the device is.", "percent",
          f"avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL{{{_SPACE}}})", "{{namespace}}/{{pod}}", "dcgm"),
    Panel("Tensor cores active", "How much of the compute is used.", "percentunit",
          f"avg by (namespace, pod) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{_SPACE}}})", "{{namespace}}/{{pod}}", "dcgm"),
    Panel("Memory bandwidth active", "Decoding is bound by it.", "percentunit",
          f"avg by (namespace, pod) (DCGM_FI_PROF_DRAM_ACTIVE{{{_SPACE}}})", "{{namespace}}/{{pod}}", "dcgm"),
    Panel("Frame buffer used", "In MiB, as the exporter gives it.", "mbytes",
          f"sum by (namespace, pod) (DCGM_FI_DEV_FB_USED{{{_SPACE}}})", "{{namespace}}/{{pod}}", "dcgm"),
    Panel("Power", "Per node.", "watt", "sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE)", "{{Hostname}}", "dcgm"),
    Panel("Temperature", "Hottest device of each node.", "celsius",
          "max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)", "{{Hostname}}", "dcgm"),
))  # fmt: skip
SERVING = Board("dure-serving", "Dure: serving", "namespace", "vllm:num_requests_running", (
    Panel("Requests waiting", "The signal that replicas follow.", "short",
          f"sum by (namespace, pod) (vllm:num_requests_waiting{{{_SPACE}}})", "{{namespace}}/{{pod}}", "vllm"),
    Panel("Requests running", "In one batch.", "short",
          f"sum by (namespace, pod) (vllm:num_requests_running{{{_SPACE}}})", "{{namespace}}/{{pod}}", "vllm"),
    Panel("KV cache", "Full means preemption.", "percentunit",
          f"max by (namespace, pod) (vllm:kv_cache_usage_perc{{{_SPACE}}})", "{{namespace}}/{{pod}}", "vllm"),
    Panel("Time to first token, p95", "Over all pods of a namespace.", "s",
          "histogram_quantile(0.95, sum by (le, namespace) (rate(vllm:time_to_first_token_seconds_bucket"
          f"{{{_SPACE}}}[$__rate_interval])))", "{{namespace}}", "vllm"),
))  # fmt: skip
BOARDS = (OVERVIEW, PROMISES, PLACING, DEVICES, SERVING)
