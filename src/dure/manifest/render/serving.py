"""Serving workloads for clusters that Kubernetes' own scheduler runs: Deployment, Service, budget, scaler, monitor.

Where Dure's agent runs, it makes these itself; here they are for people who use the rest of the stack alone.
"""

from __future__ import annotations

import json

from dure.manifest.document import Json
from dure.manifest.pods import CAPACITY_TYPE
from dure.manifest.render.setting import CLASS, TENANT, Setting, made
from dure.model.fleet import PoolSpec
from dure.model.tariff import Capacity
from dure.model.workload import Workload, WorkloadType

_HOOK_S = 15
_SPOT_GRACE_S = 90
_GRACE_S = 300
_WAITING_PER_REPLICA = 5
_HOLD_S = 300


def serving_objects(setting: Setting) -> list[Json]:
    return [
        each
        for workload in setting.workloads
        if workload.type is WorkloadType.SERVING and workload.template
        for pool in [_home(setting, workload)]
        if pool is not None
        for each in _serving(setting, workload, pool)
    ]


def _home(setting: Setting, workload: Workload) -> PoolSpec | None:
    """The first accepted class that the cluster has; spot only for what may be interrupted."""
    for accepted in workload.classes:
        pools = [pool for pool in setting.cluster.pools if pool.class_name == accepted.name]
        allowed = [pool for pool in pools if workload.interruptible or pool.capacity is not Capacity.SPOT]
        if allowed:
            return min(allowed, key=lambda pool: (pool.capacity is not Capacity.SPOT, pool.name))
    return None


def _serving(setting: Setting, workload: Workload, pool: PoolSpec) -> list[Json]:
    namespace = f"dure-{workload.tenant}" if workload.tenant else "default"
    labels = {"app.kubernetes.io/name": workload.name, TENANT: workload.tenant or "none"}
    chosen = {"app.kubernetes.io/name": workload.name}
    template = pod_template(setting, workload, pool, labels)
    spec = {"selector": {"matchLabels": chosen}, "template": template}
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": chosen}}
    objects = [
        made("apps/v1", "Deployment", workload.name, namespace, labels, spec=spec),
        made("policy/v1", "PodDisruptionBudget", workload.name, namespace, labels, spec=budget),
        scaled_object(setting, workload, namespace, labels)
        if setting.scaler == "keda"
        else autoscaler(workload, namespace, labels),
    ]
    ports = [port for each in template["spec"]["containers"] for port in each.get("ports", [])]
    if ports:
        named = [{"name": port.get("name", "http"), "port": port["containerPort"]} for port in ports[:1]]
        service = {"selector": chosen, "ports": named}
        objects.insert(1, made("v1", "Service", workload.name, namespace, labels, spec=service))
        objects.append(pod_monitor(setting, workload, namespace, labels, ports[0]))
    return objects


def pod_monitor(setting: Setting, workload: Workload, namespace: str, labels: dict[str, str], port: Json) -> Json:
    """What the autoscaler's query reads: the engine's own metrics, with the names of namespace and pod on them."""
    where = {"port": port["name"]} if "name" in port else {"portNumber": port["containerPort"]}
    spec = {
        "selector": {"matchLabels": {"app.kubernetes.io/name": workload.name}},
        "podMetricsEndpoints": [{**where, "path": "/metrics", "interval": "5s", "scrapeTimeout": "4s"}],
    }
    shown = {**labels, "release": setting.release}
    return made("monitoring.coreos.com/v1", "PodMonitor", workload.name, namespace, shown, spec=spec)


def pod_template(setting: Setting, workload: Workload, pool: PoolSpec, labels: dict[str, str]) -> Json:
    """The workload's own template with what the pool needs: device, tolerations, grace that fits a spot notice."""
    body: Json = json.loads(workload.template)
    spec: Json = dict(body.get("spec", {}))
    spot = pool.capacity is Capacity.SPOT
    resource = setting.resource(pool.class_name)
    tolerations = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}] if resource else []
    if spot:
        tolerations.append({"key": CAPACITY_TYPE, "operator": "Equal", "value": "spot", "effect": "NoSchedule"})
    first, *others = spec.get("containers", [{}])
    spec["containers"] = [_container(workload, first, resource), *others]
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), CLASS: pool.class_name}
    spec["tolerations"] = [*spec.get("tolerations", []), *tolerations]
    spec["terminationGracePeriodSeconds"] = _SPOT_GRACE_S if spot else _GRACE_S
    metadata: Json = dict(body.get("metadata", {}))
    return {"metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}, "spec": spec}


def _container(workload: Workload, given: Json, resource: str) -> Json:
    demand = workload.demand
    requests: Json = {}
    if demand.cpu_milli:
        requests["cpu"] = f"{demand.cpu_milli}m"
    if demand.host_memory_mib:
        requests["memory"] = f"{demand.host_memory_mib}Mi"
    if resource:
        requests[resource] = max(1, demand.devices)
    limits = {key: amount for key, amount in requests.items() if key != "cpu"}
    port = next((each["containerPort"] for each in given.get("ports", [])), None)
    made_up: Json = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_HOOK_S)]}}}}
    if port is not None:
        made_up["readinessProbe"] = {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 5}
    return {**made_up, **given, "resources": {"requests": requests, "limits": limits}}


def scaled_object(setting: Setting, workload: Workload, namespace: str, labels: dict[str, str]) -> Json:
    """Replicas follow the requests that wait: a total, so that it grows with the load."""
    pods = f'namespace="{namespace}", pod=~"{workload.name}-[a-z0-9]+-[a-z0-9]+"'
    trigger = {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": setting.prometheus,
            "query": f"sum(vllm:num_requests_waiting{{{pods}}}) + sum(vllm:num_requests_running{{{pods}}})",
            "threshold": str(_per_replica(workload)),
            "ignoreNullValues": "false",
        },
    }
    spec = {
        "scaleTargetRef": {"name": workload.name},
        "minReplicaCount": max(1, workload.replicas.min),
        "maxReplicaCount": max(1, workload.replicas.max),
        "fallback": {
            "behavior": "currentReplicasIfHigher",
            "failureThreshold": 3,
            "replicas": max(1, workload.replicas.min),
        },
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behaviour()}},
        "triggers": [trigger],
    }
    return made("keda.sh/v1alpha1", "ScaledObject", workload.name, namespace, labels, spec=spec)


def autoscaler(workload: Workload, namespace: str, labels: dict[str, str]) -> Json:
    """The same without KEDA, for clusters with an adapter that serves pods' metrics."""
    target = {"type": "AverageValue", "averageValue": str(_per_replica(workload))}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name},
        "minReplicas": max(1, workload.replicas.min),
        "maxReplicas": max(1, workload.replicas.max),
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": "vllm_num_requests"}, "target": target}}],
        "behavior": _behaviour(),
    }
    return made("autoscaling/v2", "HorizontalPodAutoscaler", workload.name, namespace, labels, spec=spec)


def _per_replica(workload: Workload) -> int:
    """Requests in flight that one replica should have at its target rate (Little's law), at least a few."""
    latency_s = (workload.slo.latency_p95_ms or 0.0) / 1000
    share = workload.rate_per_s * latency_s / max(1, workload.replicas.min)
    return max(_WAITING_PER_REPLICA, round(share))


def _behaviour() -> Json:
    """Up at once, down one by one after a calm while: a model takes minutes to load again."""
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 15},
                {"type": "Pods", "value": 2, "periodSeconds": 15},
            ],
            "selectPolicy": "Max",
        },
        "scaleDown": {
            "stabilizationWindowSeconds": _HOLD_S,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        },
    }
