"""Traps in the shape of Karpenter's NodePools: limits, references, mixed devices, overlaps, flexibility."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from dure.manifest.document import Document, mapping, text
from dure.manifest.manifests import Manifests
from dure.manifest.pool import FAMILY, GPU_MEMORY, GPU_NAME, PINNING, REQUIREMENTS, SIZE, TYPE, Pool
from dure.manifest.quantity import quantity
from dure.manifest.rule import Hit, Rule, Severity
from dure.model.offer import InstanceOffer

# What the provider takes off an instance's memory before it compares with limits.
_VM_OVERHEAD = 0.075
_GIB = 2.0**30
_FEW_TYPES = 5


def _unreachable_limit(manifests: Manifests) -> Iterator[Hit]:
    for pool in manifests.gpu_pools:
        key = next((name for name in pool.limits if "/" in name), "")
        wanted = quantity(pool.limits.get(key))
        if not wanted or not pool.offers:
            continue
        for resource in ("cpu", "memory"):
            bound = quantity(pool.limits.get(resource))
            if bound is None:
                continue
            most = max(bound / _host(offer, resource) * offer.devices for offer in pool.offers)
            if most >= wanted:
                continue
            best = max(pool.offers, key=lambda offer: (_nodes(offer, resource, bound) * offer.devices, offer.name))
            nodes = _nodes(best, resource, bound)
            message = (
                f"{key} {wanted:g} cannot be reached: {resource} {text(pool.limits[resource])} is used up by "
                f"{nodes} {best.name} with {nodes * best.devices} devices"
            )
            yield Hit(pool.document, ("spec", "limits", resource), message)


def _host(offer: InstanceOffer, resource: str) -> float:
    return float(offer.vcpus) if resource == "cpu" else offer.memory_gib * _GIB * (1 - _VM_OVERHEAD)


def _nodes(offer: InstanceOffer, resource: str, bound: float) -> int:
    return int(bound // _host(offer, resource))


def _broken_reference(manifests: Manifests) -> Iterator[Hit]:
    classes = manifests.of("EC2NodeClass", "KWOKNodeClass", "AKSNodeClass", "GCENodeClass")
    for document in manifests.of("NodePool"):
        if document.group != "karpenter.sh":
            continue
        if not mapping(document.spec.get("template")):
            yield Hit(document, ("spec",), "spec.template is missing; the API server refuses the NodePool")
            continue
        reference = mapping(document.at(("spec", "template", "spec", "nodeClassRef")))
        name, kind = text(reference.get("name")), text(reference.get("kind"))
        if not name:
            yield Hit(document, ("spec", "template", "spec"), "nodeClassRef is missing; nothing can be launched")
        elif classes and not any(each.name == name and kind in ("", each.kind) for each in classes):
            known = ", ".join(sorted(each.name for each in classes))
            path = ("spec", "template", "spec", "nodeClassRef", "name")
            yield Hit(document, path, f"{kind or 'the node class'} '{name}' is nowhere defined (defined: {known})")
    yield from _twice(manifests)


def _twice(manifests: Manifests) -> Iterator[Hit]:
    seen: dict[tuple[str, str, str, str], Document] = {}
    for document in manifests.documents:
        if not document.name or not document.kind:
            continue
        first = seen.setdefault((document.group, document.kind, document.namespace, document.name), document)
        if first is not document:
            where = f"{first.file}:{first.line}"
            yield Hit(document, ("metadata", "name"), f"{document} is already defined in {where}; the later one wins")


def _mixed_devices(manifests: Manifests) -> Iterator[Hit]:
    for pool in manifests.gpu_pools:
        kinds = {offer.class_name: offer for offer in pool.offers}
        memories = {offer.device_mib // 1024 for offer in kinds.values()}
        if len(memories) < 2 or pool.allowed(GPU_NAME) or _bounded(pool):
            continue
        sites = [site for site in manifests.pods if site.devices and site.document.kind != "DaemonSet"]
        landing = [site for site in sites if pool.takes(site) and not pool.missing(site)]
        if landing and all(set(PINNING) & site.selects().keys() for site in landing):
            continue
        names = ", ".join(sorted({offer.gpu for offer in kinds.values()}))
        sizes = f"{min(memories)} to {max(memories)} GiB"
        yield Hit(pool.document, REQUIREMENTS, f"Pods that ask for one GPU may get any of {names} ({sizes})")


def _bounded(pool: Pool) -> bool:
    return any(mapping(each).get("key") == GPU_MEMORY for each in pool.template.get("requirements") or ())


def _overlapping(manifests: Manifests) -> Iterator[Hit]:
    for mixed, spot in permutations(manifests.pools, 2):
        if not spot.spot_only or not {"spot", "on-demand"} <= mixed.capacity_types or mixed.weight <= spot.weight:
            continue
        if not _overlap(mixed, spot) or not set(mixed.taints) <= set(spot.taints):
            continue
        aimed = [site for site in manifests.pods if spot.takes(site) and not spot.missing(site) and site.devices]
        if aimed and not any(mixed.takes(site) and not mixed.missing(site) for site in aimed):
            continue
        message = (
            f"NodePool '{mixed.name}' (on-demand and spot, weight {mixed.weight:g}) takes the same pods first; "
            f"this spot pool with weight {spot.weight:g} is used last"
        )
        yield Hit(spot.document, ("spec", "weight"), message)


def _overlap(one: Pool, other: Pool) -> bool:
    """Whether some node could belong to either."""
    if one.offers and other.offers:
        return bool({offer.name for offer in one.offers} & {offer.name for offer in other.offers})
    for key in (TYPE, FAMILY, GPU_NAME, "topology.kubernetes.io/zone", "kubernetes.io/arch"):
        first, second = one.allowed(key), other.allowed(key)
        if first is not None and second is not None and not first & second:
            return False
    return one.gpu == other.gpu


def _inflexible_spot(manifests: Manifests) -> Iterator[Hit]:
    for pool in manifests.pools:
        types = pool.allowed(TYPE) or frozenset()
        if not types and pool.allowed(FAMILY) and pool.allowed(SIZE):
            types = frozenset(
                f"{family}.{size}" for family in pool.allowed(FAMILY) or () for size in pool.allowed(SIZE) or ()
            )
        if not pool.spot_only or not types:
            continue
        families = {each.partition(".")[0] for each in types}
        if len(families) == 1 and len(types) < _FEW_TYPES:
            message = f"{len(types)} spot types, all of family {families.pop()}: no way out when they are gone"
            yield Hit(pool.document, REQUIREMENTS, message)


RULES = (
    Rule(
        "DURE008",
        Severity.ERROR,
        "Limits of a NodePool contradict each other.",
        "Karpenter stops at whichever limit is reached first. 4000Gi of memory are two p5.48xlarge, so a limit of "
        "64 GPUs "
        "is never reached and pods stay pending for no visible reason.",
        "Limit nvidia.com/gpu alone, or give cpu and memory the room that those instances need.",
        "limits: {nvidia.com/gpu: 64, memory: 4000Gi, cpu: 1000}  # p5.48xlarge",
        "limits: {nvidia.com/gpu: 64}",
        _unreachable_limit,
    ),
    Rule(
        "DURE012",
        Severity.ERROR,
        "A NodePool is incomplete, refers to a node class that is not there, or is defined twice.",
        "Without template or node class nothing is launched; of two objects with one name the later replaces the "
        "earlier "
        "whole, so settings that look merged are lost.",
        "Define the node class, and write each NodePool once and completely.",
        "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu-spot}  # defined nowhere",
        "kind: EC2NodeClass\nmetadata: {name: gpu-spot}",
        _broken_reference,
    ),
    Rule(
        "DURE016",
        Severity.WARNING,
        "Devices of different memory are mixed in one pool, and pods ask only for a GPU.",
        "The cheapest instance wins: a model that needs 80 GB lands on a 24 GB device and fails, and consolidation "
        "may move "
        "it there later.",
        "One pool for each kind of device, or let pods require karpenter.k8s.aws/instance-gpu-name or -memory.",
        "- {key: node.kubernetes.io/instance-type, operator: In, values: [g5.48xlarge, p4d.24xlarge, p5.48xlarge]}",
        "- {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [h100]}",
        _mixed_devices,
    ),
    Rule(
        "DURE017",
        Severity.WARNING,
        "Pools overlap, and the one with spot only comes last.",
        "Karpenter tries pools by weight. A mixed pool with a higher weight takes every pod, on-demand included, "
        "before the "
        "spot pool is looked at.",
        "Make pools exclusive by capacity type, or give the spot pool the higher weight.",
        "gpu (on-demand, spot): weight 100\ngpu-spot (spot): weight 50",
        "gpu (on-demand): weight 50\ngpu-spot (spot): weight 100",
        _overlapping,
    ),
    Rule(
        "DURE030",
        Severity.WARNING,
        "A spot pool has few instance types of a single family.",
        "Types of one family are reclaimed together, and replacing spot by cheaper spot needs at least 15 cheaper "
        "types.",
        "Allow more families with the same device memory and more sizes, or fall back to on-demand.",
        "values: [g5.12xlarge, g5.24xlarge, g5.48xlarge]",
        "- {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}",
        _inflexible_spot,
    ),
)
