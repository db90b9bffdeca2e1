"""The two queues of the published experiment, nodes for them, and its Jobs."""

from __future__ import annotations

from lab.rest import Json

KUEUE = "kueue.x-k8s.io/v1beta2"
NODES = """
nodes:
- {group: t4, count: 5, cpu: 16, memory: 64Gi, gpu: {product: Tesla-T4, count: 1}}
- {group: cpu, count: 3, cpu: 8, memory: 32Gi}
"""


def queues(namespace: str = "default") -> list[Json]:
    def flavor(name: str) -> Json:
        return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}}

    def cluster_queue(name: str, flavor_name: str, amounts: dict[str, int | str]) -> Json:
        resources = [{"name": resource, "nominalQuota": amount} for resource, amount in amounts.items()]
        group = {"coveredResources": list(amounts), "flavors": [{"name": flavor_name, "resources": resources}]}
        return {
            "apiVersion": KUEUE,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        }

    def local_queue(name: str, target: str) -> Json:
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": target}}

    return [
        flavor("gpu-flavor"),
        flavor("cpu-flavor"),
        cluster_queue("gpu-cluster-queue", "gpu-flavor", {"cpu": 40, "memory": "160Gi", "nvidia.com/gpu": 4}),
        cluster_queue("cpu-cluster-queue", "cpu-flavor", {"cpu": 24, "memory": "60Gi"}),
        cluster_queue("other-gpu-queue", "gpu-flavor", {"cpu": 40, "memory": "160Gi", "nvidia.com/gpu": 1}),
        local_queue("user-gpu-queue", "gpu-cluster-queue"),
        local_queue("user-cpu-queue", "cpu-cluster-queue"),
        local_queue("user-other-queue", "other-gpu-queue"),
    ]


def job(
    name: str, *, run_s: float = 2.0, accepts: str = "", light: bool = False, estimate: float | None = None
) -> Json:
    amounts = {"cpu": "4", "memory": "6Gi", "nvidia.com/gpu": "1"}
    annotations = {**({"dure.dev/accepts": accepts} if accepts else {}), "dure.dev/kind": "test"}
    if estimate is not None:
        annotations["dure.dev/estimate-seconds"] = str(estimate)
    container = {
        "name": "main",
        "image": "lab/none",
        "env": [{"name": "RUN_ENV", "value": "gpu"}],
        "resources": {"requests": amounts, "limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {
                "kueue.x-k8s.io/queue-name": "user-gpu-queue",
                **({"workload-type": "light-gpu"} if light else {}),
            },
            "annotations": annotations,
        },
        "spec": {
            "template": {
                "metadata": {"annotations": {"lab.dure.dev/run-seconds": str(run_s)}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }
        },
    }
