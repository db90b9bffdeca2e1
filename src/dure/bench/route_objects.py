"""What the routing experiment creates on a real Kueue: its Jobs, nodes and queues. For `bench.route_lab`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dure.model.units import Seconds
from dure.sim.queues.mix import Mix, MixJob

RUN_SECONDS = "lab.dure.dev/run-seconds"
KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUES = {"gpu": "user-gpu", "cpu": "user-cpu"}


def job_of(spec: MixJob, factor: float, cost_s: Seconds) -> dict[str, Any]:
    ways = [
        {
            "class": queue,
            "queue": QUEUES[queue],
            "estimate": round(spec.run_s[queue] / factor + cost_s, 3),
            "annotations": {RUN_SECONDS: f"{spec.run_s[queue] / factor:.3f}"},
            **({"resources": {"nvidia.com/gpu": None}, "env": {"RUN_ENV": "cpu"}} if queue == "cpu" else {}),
        }
        for queue in sorted(spec.run_s, key=lambda one: one != spec.home)
    ]
    kind = "-".join(f"{queue}{seconds:g}" for queue, seconds in sorted(spec.run_s.items()))
    amounts = {"cpu": "4", "memory": "6Gi", **({"nvidia.com/gpu": "1"} if spec.home == "gpu" else {})}
    limits = {name: amount for name, amount in amounts.items() if "/" in name}
    container = {
        "name": "main",
        "image": "lab/none",
        "env": [{"name": "RUN_ENV", "value": spec.home}],
        "resources": {"requests": amounts, "limits": limits},
    }
    annotations = {"dure.dev/kind": kind, "dure.dev/accepts": json.dumps(ways)}
    run = {RUN_SECONDS: f"{spec.run_s[spec.home] / factor:.3f}"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": spec.name,
            "labels": {"kueue.x-k8s.io/queue-name": QUEUES[spec.home]},
            "annotations": annotations,
        },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": run},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def nodes_of(mix: Mix) -> list[dict[str, Any]]:
    gpus, cpus = mix.queues["gpu"].slots, mix.queues["cpu"].slots
    return [
        {"group": "t4", "count": gpus, "cpu": 16, "memory": "64Gi", "gpu": {"product": "Tesla-T4", "count": 1}},
        {"group": "cpu", "count": max(1, (cpus + 1) // 2), "cpu": 8, "memory": "32Gi"},
    ]


def queues_of(mix: Mix) -> list[dict[str, Any]]:
    gpus, cpus = mix.queues["gpu"].slots, mix.queues["cpu"].slots
    return queue_objects(
        {
            "gpu": {"cpu": 4 * gpus, "memory": "640Gi", "nvidia.com/gpu": gpus},
            "cpu": {"cpu": 4 * cpus, "memory": "640Gi"},
        }
    )


def queue_objects(amounts: Mapping[str, Mapping[str, int | str]]) -> list[dict[str, Any]]:
    """A flavor, a ClusterQueue and a LocalQueue each."""
    found: list[dict[str, Any]] = []
    for queue, quota in amounts.items():
        resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
        group = {"coveredResources": list(quota), "flavors": [{"name": queue, "resources": resources}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        found += [
            {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": queue}},
            {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": queue}, "spec": spec},
            {
                "apiVersion": KUEUE,
                "kind": "LocalQueue",
                "metadata": {"name": QUEUES[queue], "namespace": "default"},
                "spec": {"clusterQueue": queue},
            },
        ]
    return found
