"""Looks at a cluster through its API alone and says what is wrong with it. Shares no code with the scheduler."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from lab.rest import Api, Json
from tests.chaos.holding import Holding, given_twice

VENDOR = ("nvidia.com/", "rebellions.ai/")


def bound_pods(api: Api) -> list[Json]:
    pods = api.get("/api/v1/pods")["items"]
    return [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")]


def overcommitted(api: Api) -> list[str]:
    """Every resource of every node and every device of every annotation that is given twice."""
    pods = bound_pods(api)
    nodes = {node["metadata"]["name"]: node["status"]["allocatable"] for node in api.get("/api/v1/nodes")["items"]}
    lost = [f"{_name(pod)} is on a node that is gone" for pod in pods if pod["spec"]["nodeName"] not in nodes]
    return [*lost, *_too_many(pods, nodes), *_twice(pods)]


def _too_many(pods: list[Json], nodes: dict[str, Json]) -> list[str]:
    asked: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for resource, amount in container.get("resources", {}).get("requests", {}).items():
                if resource.startswith(VENDOR):
                    asked[pod["spec"]["nodeName"], resource] += int(amount)
    offered = {key: int(nodes.get(key[0], {}).get(key[1], "0")) for key in asked}
    return [
        f"{node}: {asked[node, one]} of {there} {one}"
        for (node, one), there in offered.items()
        if asked[node, one] > there
    ]


def _twice(pods: list[Json]) -> list[str]:
    return given_twice(
        Holding(part["device"], _name(pod), part["mode"], part.get("start", 0), part.get("slots", 0))
        for pod in pods
        for part in json.loads(pod["metadata"].get("annotations", {}).get("dure.dev/slice", "[]"))
    )


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def broken_gangs(api: Api) -> list[str]:
    """Jobs of which some pods are bound and others wait."""
    states: dict[str, Counter[bool]] = defaultdict(Counter)
    for pod in api.get("/api/v1/pods")["items"]:
        job = pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name")
        if job and "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] in ("Pending", "Running"):
            states[job][bool(pod["spec"].get("nodeName"))] += 1
    return [f"{job}: {count[True]} bound, {count[False]} wait" for job, count in states.items() if len(count) == 2]
