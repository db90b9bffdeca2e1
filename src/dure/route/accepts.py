"""Reads a Kubernetes Job: its queue, what it asks for, what kind it is, and where else it may run.

A job is movable when it carries the label `workload-type: light-gpu` (then the gateway's own CPU queue is its one
alternative, changed as published) or the annotation `dure.dev/accepts` with a list of classes:

    - {class: t4, queue: user-gpu, speed: 1.0, estimate: 26s}
    - {class: cpu, queue: user-cpu, speed: 0.29, resources: {nvidia.com/gpu: null}, env: {RUN_ENV: cpu}}

Everything a person can get wrong raises `InvalidInput` with the place.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from dure.model.errors import InvalidInput
from dure.model.units import Seconds
from dure.route.amounts import added, milli, times
from dure.route.situation import Changes

QUEUE = "kueue.x-k8s.io/queue-name"
LIGHT_LABEL, LIGHT = "workload-type", "light-gpu"
ACCEPTS = "dure.dev/accepts"
KIND = "dure.dev/kind"
ESTIMATE = "dure.dev/estimate-seconds"
GPU = "nvidia.com/gpu"
MOST_ALTERNATIVES = 16
Json = dict[str, Any]


class Way(msgspec.Struct, frozen=True):
    """One class that a Job accepts, as declared: no queue's figures known yet."""

    class_name: str
    queue: str
    speed: float
    estimate_s: Seconds | None
    changes: Changes = Changes()


class LightRule(msgspec.Struct, frozen=True):
    """What the label `workload-type: light-gpu` means here: which queue, how much slower."""

    queue: str = ""
    class_name: str = "cpu"
    speed: float = 26.0 / 90.0
    changes: Changes = Changes(resources={GPU: None}, env={"RUN_ENV": "cpu"}, name="-gpu:-cpu")


class _Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    class_: str = msgspec.field(name="class")
    queue: str = ""
    speed: float = 1.0
    estimate: str | float | None = None
    resources: Mapping[str, str | int | None] = {}
    env: Mapping[str, str | None] = {}
    node_selector: Mapping[str, str | None] = {}
    annotations: Mapping[str, str | None] = {}
    image: str = ""
    name: str = ""


def check_job(job: Any, where: str) -> Json:
    """The document is a Job that can be created at all; the API server checks the rest."""
    if not isinstance(job, dict):
        raise InvalidInput("the document is not an object", where=where, remedy="Send a Kubernetes Job.")
    if job.get("kind") != "Job" or not str(job.get("apiVersion", "")).startswith("batch/"):
        found = f"{job.get('apiVersion', '?')} {job.get('kind', '?')}"
        raise InvalidInput(f"expected a batch/v1 Job, found {found}", where=where)
    metadata = _object(job, "metadata", where)
    if not metadata.get("name") and not metadata.get("generateName"):
        raise InvalidInput("the Job has no name", where=where, remedy="Set metadata.name.")
    pod = _object(_object(_object(job, "spec", where), "template", where), "spec", where)
    containers = pod.get("containers")
    if not isinstance(containers, list) or not containers or not all(isinstance(one, dict) for one in containers):
        raise InvalidInput("the Job has no containers", where=f"{where}.spec.template.spec")
    return job


def queue_of(job: Json) -> str:
    """The queue label; the annotation of old manifests, which Kueue ignores since 0.15, counts as well."""
    metadata = job["metadata"]
    return str((metadata.get("labels") or {}).get(QUEUE) or (metadata.get("annotations") or {}).get(QUEUE) or "")


def kind_of(job: Json) -> str:
    """What is learnt together: the declared kind, or image and arguments of the first container."""
    named = (job["metadata"].get("annotations") or {}).get(KIND) or (job["metadata"].get("labels") or {}).get(KIND)
    if named:
        return str(named)
    first = job["spec"]["template"]["spec"]["containers"][0]
    words = [str(first.get("image", ""))] + [str(one) for one in (*_list(first, "command"), *_list(first, "args"))]
    return " ".join(words)[:200]


def demand_of(job: Json, where: str = "") -> dict[str, int]:
    """What Kueue counts: requests (limits where a request is missing) of all pods that run at once."""
    spec = job["spec"]
    pods = spec.get("parallelism", 1)
    if not isinstance(pods, int) or isinstance(pods, bool) or not 0 <= pods <= 100_000:
        raise InvalidInput(f"parallelism {pods!r} makes no sense", where=where)
    pod = spec["template"]["spec"]
    running = added(_asked(one, where) for one in pod["containers"])
    for init in _list(pod, "initContainers"):
        for name, amount in _asked(init, where).items():
            running[name] = max(running.get(name, 0), amount)
    return times(running, pods)


def ways_of(job: Json, light: LightRule, where: str = "") -> tuple[Way, ...]:
    """Home first. A job without alternatives has one way."""
    annotations = job["metadata"].get("annotations") or {}
    labels = job["metadata"].get("labels") or {}
    home = queue_of(job)
    estimate = _seconds(annotations.get(ESTIMATE), f"{where}.metadata.annotations[{ESTIMATE}]")
    if ACCEPTS in annotations:
        return _declared(str(annotations[ACCEPTS]), home, estimate, f"{where}.metadata.annotations[{ACCEPTS}]")
    first = Way("gpu" if GPU in demand_of(job, where) else "cpu", home, 1.0, estimate)
    if labels.get(LIGHT_LABEL) != LIGHT or not light.queue:
        return (first,)
    slower = None if estimate is None else estimate / light.speed
    return (first, Way(light.class_name, light.queue, light.speed, slower, light.changes))


@functools.lru_cache(maxsize=1024)
def _declared(text: str, home: str, estimate: Seconds | None, where: str) -> tuple[Way, ...]:
    try:
        raw = yaml.load(text, yaml.CSafeLoader)
        found = msgspec.convert(raw, list[_Declared])
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidInput(f"cannot be read: {error}", where=where, remedy=_SHAPE) from error
    if not 1 <= len(found) <= MOST_ALTERNATIVES:
        raise InvalidInput(f"names {len(found)} classes, 1 to {MOST_ALTERNATIVES} are allowed", where=where)
    ways = []
    for number, one in enumerate(found):
        if not one.speed > 0:
            raise InvalidInput(f"the speed of class '{one.class_}' must be positive", where=where)
        own = _seconds(one.estimate, where)
        if own is None and estimate is not None:
            own = estimate * found[0].speed / one.speed
        changes = Changes(one.resources, one.env, one.node_selector, one.annotations, one.image, one.name)
        queue = one.queue or (home if number == 0 else "")
        if not queue:
            raise InvalidInput(f"class '{one.class_}' names no queue", where=where, remedy=_SHAPE)
        ways.append(Way(one.class_, queue, one.speed, own, changes))
    return tuple(sorted(ways, key=lambda way: way.queue != home)) if home else tuple(ways)


def _asked(container: Json, where: str) -> dict[str, int]:
    resources = container.get("resources") or {}
    if not isinstance(resources, dict):
        raise InvalidInput("resources must be an object", where=where)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if not isinstance(requests, dict) or not isinstance(limits, dict):
        raise InvalidInput("requests and limits must be objects", where=where)
    asked = {**limits, **requests}
    found = {
        str(name): milli(amount, f"{where} container {container.get('name', '?')}") for name, amount in asked.items()
    }
    for name, amount in found.items():
        if amount < 0:
            raise InvalidInput(f"{name} is negative", where=where)
    return found


def _seconds(value: Any, where: str) -> Seconds | None:
    if value is None:
        return None
    text = str(value).strip().removesuffix("s")
    try:
        seconds = float(text)
    except ValueError as error:
        raise InvalidInput(f"'{value}' is not a time in seconds", where=where) from error
    if not 0 < seconds < 1e8:
        raise InvalidInput(f"'{value}' is not a possible time", where=where)
    return seconds


def _object(parent: Json, key: str, where: str) -> Json:
    found = parent.get(key)
    if not isinstance(found, dict):
        raise InvalidInput(f"'{key}' is missing or not an object", where=where)
    return found


def _list(parent: Json, key: str) -> list[Any]:
    found = parent.get(key)
    return found if isinstance(found, list) else []


_SHAPE = "Write a list like: [{class: t4, queue: a}, {class: cpu, queue: b, speed: 0.3, env: {RUN_ENV: cpu}}]."
