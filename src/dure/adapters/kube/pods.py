"""From a Pod object to the model. Pods that Dure made carry their description; others are read from what they ask.

Called by `cluster` for every pod that changed. Invariant: a pod that is bound shows the slices its Binding wrote; a
pod bound by somebody else shows none here (`holdings` finds devices for it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from dure.adapters.kube import names
from dure.adapters.kube.instances import HOST
from dure.adapters.kube.objects import KubePod, condition, instant
from dure.adapters.podspec import rules_of
from dure.model.accelerator import Kind, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import Node, Pod, PodPhase, Slice, Toleration
from dure.model.demand import Demand
from dure.model.quantity import count, mib, milli
from dure.model.workload import WorkloadType

_SLICES = msgspec.json.Decoder(tuple[Slice, ...])
_POD = msgspec.json.Decoder(Pod)


def pod_of(found: KubePod, resources: Mapping[str, tuple[str, ...]], *, ours: bool) -> Pod:
    """`resources` maps a vendor's resource name to the classes that offer it.

    `ours` says that a Placement stands behind the pod: only then is its own description believed.
    """
    base = (_described(found) if ours else None) or _asked(found, resources)
    ends = [
        instant(one.state.terminated.finished_at) for one in found.status.container_statuses if one.state.terminated
    ]
    phase = _phase(found)
    spec = found.spec
    return replace(
        base,
        name=found.metadata.key,
        index=int(found.metadata.annotations.get(names.COMPLETION_INDEX, "0")),
        namespace=found.metadata.namespace,
        labels=found.metadata.labels,
        selector={**base.selector, **spec.node_selector},
        rules=rules_of(
            spec.affinity, spec.topology_spread_constraints, found.metadata.namespace, found.metadata.labels
        ),
        # A class of the cluster is its own word on the matter; without one the workload's holds.
        priority=spec.priority if spec.priority_class_name else base.priority,
        preempts=spec.preemption_policy != "Never",
        leaving=found.leaving,
        tolerations=tuple(Toleration(one.key, one.operator, one.value, one.effect) for one in spec.tolerations),
        phase=phase,
        node=spec.node_name,
        slices=slices_of(found),
        created_s=base.created_s or instant(found.metadata.creation_timestamp) or 0.0,
        started_s=instant(found.status.start_time) if phase is not PodPhase.STARTING else None,
        finished_s=max((at for at in ends if at is not None), default=None) if phase.ended else None,
        message=_message(found),
    )


def slices_of(found: KubePod) -> tuple[Slice, ...]:
    text = found.metadata.annotations.get(names.SLICE, "")
    if not text or not found.spec.node_name:
        return ()
    try:
        return _SLICES.decode(text)
    except msgspec.MsgspecError:
        return ()


def classes_by_resource(catalogue: Catalogue, nodes: Iterable[Node]) -> dict[str, tuple[str, ...]]:
    """Which classes of this cluster's devices, and of the catalogue, answer to a resource name."""
    here = {device.class_name for node in nodes for device in node.devices}
    found: dict[str, list[str]] = {}
    for name in sorted(here | catalogue.classes.keys()):
        profile = catalogue.accelerator(name)
        if profile.resource and profile.kind is not Kind.CPU:
            found.setdefault(profile.resource, []).append(name)
    return {resource: tuple(classes) for resource, classes in found.items()}


def requests_of(found: KubePod) -> dict[str, int]:
    """What a pod asks for in all: containers and sidecars together, or its hungriest init container.

    CPU in milli, memory in MiB, everything else in pieces.
    """
    sidecars = [one for one in found.spec.init_containers if one.restart_policy == "Always"]
    total = _sum({**one.resources.limits, **one.resources.requests} for one in (*found.spec.containers, *sidecars))
    for one in found.spec.init_containers:
        for name, wanted in _sum([{**one.resources.limits, **one.resources.requests}]).items():
            total[name] = max(total.get(name, 0), wanted)
    for name, wanted in _sum([found.spec.overhead]).items():
        total[name] = total.get(name, 0) + wanted
    return total


def _sum(asked: Iterable[Mapping[str, str]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in asked:
        for name, text in one.items():
            wanted = milli(text) if name == "cpu" else mib(text) if name == "memory" else count(text)
            total[name] = total.get(name, 0) + wanted
    return total


def _described(found: KubePod) -> Pod | None:
    text = found.metadata.annotations.get(names.POD, "")
    if not text:
        return None
    try:
        return _POD.decode(text)
    except msgspec.MsgspecError:
        return None


def _asked(found: KubePod, resources: Mapping[str, tuple[str, ...]]) -> Pod:
    """A pod of somebody who never heard of Dure: whole devices of whatever class offers the resource."""
    asked = requests_of(found)
    devices = 0
    # A pod that claims its devices may go wherever they are offered, and takes none of the others.
    classes: tuple[str, ...] = () if found.spec.resource_claims else (HOST,)
    for resource, wanted in sorted(asked.items()):
        if resource in resources and wanted:
            devices, classes = wanted, resources[resource]
    owner = next((one for one in found.metadata.owner_references if one.controller), None)
    return Pod(
        name="",
        uid=found.metadata.uid,
        tenant=found.metadata.labels.get(names.TENANT, found.metadata.namespace),
        type=WorkloadType.BATCH if owner is not None and owner.kind == "Job" else WorkloadType.SERVING,
        demand=Demand(devices=devices, cpu_milli=asked.get("cpu", 0), host_memory_mib=asked.get("memory", 0)),
        classes=classes,
        pool=found.metadata.labels.get(names.POOL, ""),
        priority=found.spec.priority,
        share=() if devices else (ShareMode.TIMESLICE,),
    )


def _phase(found: KubePod) -> PodPhase:
    match found.status.phase:
        case "Succeeded":
            return PodPhase.SUCCEEDED
        case "Failed":
            return PodPhase.FAILED
        case "Running":
            ready = condition(found.status.conditions, "Ready")
            return PodPhase.RUNNING if ready is not None and ready.status == "True" else PodPhase.STARTING
        case _:
            return PodPhase.STARTING if found.spec.node_name else PodPhase.PENDING


def _message(found: KubePod) -> str:
    """For a pod that waits: what the scheduler said last."""
    told = condition(found.status.conditions, "PodScheduled")
    if found.spec.node_name:
        return found.status.message
    return told.message if told is not None and told.status == "False" else ""
