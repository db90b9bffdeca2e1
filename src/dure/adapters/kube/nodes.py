"""From a Node object to the model: which pool, which devices, cut how.

Called by `cluster` for every node that changed. A pool's selector claims a node (or the label `dure.dev/pool`); the
class is the pool's, or is read from the labels of GPU feature discovery, or from the vendor's resource name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from dure.adapters.kube import names
from dure.adapters.kube.instances import HOST, cut_name, replica_name
from dure.adapters.kube.objects import KubeNode, condition
from dure.model.accelerator import AcceleratorProfile, Kind, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import Device, Node, NodePhase, Taint
from dure.model.fleet import PoolSpec
from dure.model.quantity import count, mib_down, milli
from dure.model.tariff import Capacity
from dure.model.units import Instant, MiB

_GPU_PRODUCT = "nvidia.com/gpu.product"
_GPU_MEMORY = "nvidia.com/gpu.memory"
_ZONE = "topology.kubernetes.io/zone"
_RACK = "topology.kubernetes.io/rack"
_CAPACITY_TYPE = "karpenter.sh/capacity-type"
# Written by those who hear the clouds' notices that a spot node is about to be taken back.
_TAKEN_BACK = ("aws-node-termination-handler/spot-itn", "cloud.google.com/impending-node-termination")


def node_of(found: KubeNode, pools: Sequence[PoolSpec], catalogue: Catalogue) -> Node:
    labels, amounts = found.metadata.labels, found.status.allocatable
    pool = pool_of(labels, pools)
    profile = _profile(labels, amounts, pool, catalogue)
    return Node(
        name=found.metadata.name,
        pool=pool.name if pool else labels.get(names.POOL, ""),
        devices=_devices(found, profile, pool),
        cpu_milli=milli(amounts.get("cpu", "0")),
        memory_mib=mib_down(amounts.get("memory", "0")),
        capacity=pool.capacity if pool else _capacity(labels),
        share=_share(labels, amounts, profile, pool),
        phase=_phase(found),
        zone=labels.get(_ZONE, ""),
        rack=labels.get(_RACK, ""),
        labels=labels,
        taints=tuple(Taint(one.key, one.value, one.effect) for one in found.spec.taints),
        reclaim_at_s=_reclaim_at(found),
    )


def pool_of(labels: dict[str, str], pools: Sequence[PoolSpec]) -> PoolSpec | None:
    """The first pool whose selector the node carries; a pool without a selector claims by the label of its name."""
    for pool in pools:
        selector = pool.selector or {names.POOL: pool.name}
        if selector.items() <= labels.items():
            return pool
    return None


def is_cut(amounts: dict[str, str], profile: AcceleratorProfile) -> bool:
    """Whether the vendor's plugin offers fixed instances here."""
    return any(count(amounts.get(resource, "0")) for resource in _cut_resources(profile))


def replicas_of(labels: dict[str, str]) -> int:
    """How often the vendor's plugin offers each device."""
    return int(labels.get(names.GPU_REPLICAS, "1"))


def has_mig_manager(labels: dict[str, str]) -> bool:
    return names.MIG_STATE in labels or names.MIG_CONFIG in labels


def _profile(
    labels: dict[str, str], amounts: dict[str, str], pool: PoolSpec | None, catalogue: Catalogue
) -> AcceleratorProfile | None:
    named = pool.class_name if pool else labels.get(names.CLASS, "")
    if named:
        return catalogue.accelerator(named)
    devices = [one for name, one in catalogue.classes.items() if one.kind is not Kind.CPU and "/" not in name]
    if _GPU_PRODUCT in labels:
        return _by_product(labels[_GPU_PRODUCT], int(labels.get(_GPU_MEMORY, "0")), devices)
    return next((one for one in devices if one.resource and count(amounts.get(one.resource, "0"))), None)


def _by_product(product: str, memory_mib: MiB, known: Sequence[AcceleratorProfile]) -> AcceleratorProfile | None:
    """The class whose name has the most words of the product's, the family's name among them; then by memory."""
    words = re.split(r"[-_ ]+", product.lower())
    best: tuple[int, int, str] | None = None
    found = None
    for profile in known:
        family, *rest = profile.name.split("-")
        if family not in words:
            continue
        hits = sum(any(word.startswith(part) for word in words) for part in rest)
        rank = (-hits, abs(profile.memory_mib - memory_mib), profile.name)
        if best is None or rank < best:
            best, found = rank, profile
    return found


def _devices(found: KubeNode, profile: AcceleratorProfile | None, pool: PoolSpec | None) -> tuple[Device, ...]:
    name, labels, amounts = found.metadata.name, found.metadata.labels, found.status.allocatable
    if profile is None or profile.kind is Kind.CPU:
        return (Device(f"{name}.host", HOST, ShareMode.TIMESLICE),)
    if is_cut(amounts, profile):
        return _instances(name, amounts, profile)
    offered = count(amounts.get(profile.resource, "0"))
    replicas = replicas_of(labels)
    if replicas > 1:
        class_name = replica_name(profile.name, replicas)
        return tuple(Device(f"{name}.{one // replicas}r{one % replicas}", class_name) for one in range(offered))
    there = int(labels.get(names.GPU_COUNT, "0")) or offered or (pool.devices if pool else 0)
    modes = _modes(found, profile, pool)
    group = pool.link_group_size if pool and pool.link_group_size else max(1, there)
    return tuple(
        Device(
            id=f"{name}.{index}",
            class_name=profile.name,
            mode=modes.get(f"{name}.{index}", modes[""]),
            link_group=index // group,
            # A plugin takes a sick device out of what is allocatable.
            healthy=index < offered or not profile.resource,
        )
        for index in range(there)
    )


def _instances(name: str, amounts: dict[str, str], profile: AcceleratorProfile) -> tuple[Device, ...]:
    """Fixed instances, and the whole devices that are left beside them."""
    found = [
        Device(f"{name}.{cut}.{index}", cut_name(profile.name, cut))
        for resource, cut in sorted(_cut_resources(profile).items())
        for index in range(count(amounts.get(resource, "0")))
    ]
    whole = count(amounts.get(profile.resource, "0"))
    return (*(Device(f"{name}.{index}", profile.name) for index in range(whole)), *found)


def _cut_resources(profile: AcceleratorProfile) -> dict[str, str]:
    geometries = [one for one in (profile.mig, profile.vnpu) if one is not None]
    return {cut.resource: cut.name for geometry in geometries for cut in geometry.profiles if cut.resource}


def _modes(found: KubeNode, profile: AcceleratorProfile, pool: PoolSpec | None) -> dict[str, ShareMode]:
    """The mode of each device that Dure has cut; under the empty name that of all others."""
    share = pool.share if pool else profile.share
    modes = {"": share[0]}
    text = found.metadata.annotations.get(names.MODES, "")
    if text:
        try:
            modes |= msgspec.json.decode(text, type=dict[str, ShareMode])
        except msgspec.MsgspecError:
            return modes
    return modes


def _share(
    labels: dict[str, str], amounts: dict[str, str], profile: AcceleratorProfile | None, pool: PoolSpec | None
) -> tuple[ShareMode, ...]:
    if profile is None or profile.kind is Kind.CPU:
        return (ShareMode.TIMESLICE,)
    if is_cut(amounts, profile) or replicas_of(labels) > 1:
        return (ShareMode.EXCLUSIVE,)
    return pool.share if pool else (ShareMode.EXCLUSIVE,)


def _capacity(labels: dict[str, str]) -> Capacity:
    kind = labels.get(_CAPACITY_TYPE, "")
    return Capacity.SPOT if kind == "spot" else Capacity.ON_DEMAND if kind == "on-demand" else Capacity.OWNED


def _reclaim_at(found: KubeNode) -> Instant | None:
    """When the cloud takes the node back, if it has announced that; a taint alone says now."""
    told = found.metadata.annotations.get(names.RECLAIM_AT, "")
    if told.replace(".", "", 1).isdigit():
        return float(told)
    return 0.0 if any(taint.key in _TAKEN_BACK for taint in found.spec.taints) else None


def _phase(found: KubeNode) -> NodePhase:
    ready = condition(found.status.conditions, "Ready")
    if ready is None:
        return NodePhase.BOOTING
    if ready.status != "True":
        return NodePhase.GONE
    leaving = found.spec.unschedulable or found.metadata.deletion_timestamp is not None
    return NodePhase.DRAINING if leaving else NodePhase.READY
