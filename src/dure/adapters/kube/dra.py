"""Claims as `pack` takes them: which offered devices would do for each request, and what is given already.

Called by `view`. Only what can be judged honestly is: devices of a node that are given whole, requests for an exact
count or for all, selectors in the CEL that `cel` understands. Everything else holds the pod with its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from dure.adapters.kube import cel
from dure.adapters.kube.dra_objects import Allocation, DeviceRequest, KubeClaim, KubeClass, KubeSlice, SliceDevice
from dure.adapters.kube.objects import KubePod
from dure.adapters.podspec import node_terms
from dure.model.claim import Allotted, Claim, Request
from dure.model.cluster import Node, Pod
from dure.model.quantity import amount

Device = Mapping[str, Any]


class Offered(NamedTuple):
    """All devices by id, as selectors see them, and where they are."""

    devices: dict[str, Device]
    node_of: dict[str, str]

    def by_node(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for device, node in sorted(self.node_of.items()):
            found.setdefault(node, []).append(device)
        return {node: tuple(devices) for node, devices in found.items()}


class Devices(NamedTuple):
    """All that a cluster says of devices that are claimed."""

    slices: Mapping[str, KubeSlice]
    claims: Mapping[str, KubeClaim]
    classes: Mapping[str, KubeClass]


def with_claims(
    nodes: dict[str, Node], pods: dict[str, Pod], found: Mapping[str, KubePod], devices: Devices
) -> tuple[dict[str, Node], dict[str, Pod]]:
    """Nodes with what they offer to be claimed, pods with what they claim and hold."""
    claiming = [name for name in pods if found[name].spec.resource_claims]
    if not devices.slices and not claiming:
        return nodes, pods
    here = offered(devices.slices.values())
    claimed = dict(pods)
    for name in claiming:
        claims = claims_of(found[name], devices.claims, here, devices.classes)
        held = tuple(part for claim in claims for part in claim.allotted) if pods[name].node else ()
        claimed[name] = replace(pods[name], claims=claims, allotted=held)
    # What somebody holds who is no pod here, or who waits, is not to be had.
    shown = {part.device for pod in claimed.values() for part in pod.allotted}
    given = {part.device for claim in devices.claims.values() for part in _given(claim)} - shown
    offers = here.by_node()
    return {
        name: replace(node, offers=tuple(one for one in offers[name] if one not in given)) if name in offers else node
        for name, node in nodes.items()
    }, claimed


def _given(claim: KubeClaim) -> tuple[Allotted, ...]:
    return allotted_of(claim.metadata.key, claim.status.allocation) if claim.status.allocation else ()


def offered(slices: Iterable[KubeSlice]) -> Offered:
    """Devices of pools that are complete, of their newest generation, on one node."""
    pools: dict[tuple[str, str], list[KubeSlice]] = {}
    for one in slices:
        pools.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
    made = Offered({}, {})
    for (driver, pool), found in sorted(pools.items()):
        newest = max(one.spec.pool.generation for one in found)
        current = [one for one in found if one.spec.pool.generation == newest]
        if len(current) < current[0].spec.pool.resource_slice_count:
            continue
        for part in current:
            for device in part.spec.devices if part.spec.node_name else ():
                if device.simple:
                    name = f"{driver}/{pool}/{device.name}"
                    made.devices[name] = _described(driver, device)
                    made.node_of[name] = part.spec.node_name
    return made


def claims_of(
    pod: KubePod, claims: Mapping[str, KubeClaim], here: Offered, classes: Mapping[str, KubeClass]
) -> tuple[Claim, ...]:
    """The claims of one pod, in the order of its spec."""
    named = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    found = []
    for wish in pod.spec.resource_claims:
        name = wish.resource_claim_name if wish.resource_claim_name else named.get(wish.name, "")
        if name is None:
            continue  # The template's owner decided that no claim is needed.
        key = f"{pod.metadata.namespace}/{name}"
        claim = claims.get(key)
        if claim is None:
            found.append(Claim(key if name else wish.name, problem="it is not there yet"))
        else:
            found.append(_claim(key, claim, here, classes))
    return tuple(found)


def allotted_of(name: str, allocation: Allocation) -> tuple[Allotted, ...]:
    return tuple(
        Allotted(name, one.request, f"{one.driver}/{one.pool}/{one.device}") for one in allocation.devices.results
    )


def _claim(key: str, claim: KubeClaim, here: Offered, classes: Mapping[str, KubeClass]) -> Claim:
    allocation = claim.status.allocation
    if allocation is not None:
        home = allocation.node_selector
        return Claim(key, allotted=allotted_of(key, allocation), home=node_terms(home) if home else None)
    if claim.metadata.deletion_timestamp is not None:
        return Claim(key, problem="it is being deleted")
    if claim.spec.devices.constraints:
        return Claim(key, problem="its constraints cannot be judged by Dure", unsupported=True)
    try:
        return Claim(key, tuple(_request(one, here, classes) for one in claim.spec.devices.requests))
    except cel.Unsupported as error:
        return Claim(key, problem=f"Dure cannot judge {error}", unsupported=True)
    except KeyError as error:
        return Claim(key, problem=f"there is no DeviceClass {error.args[0]}")


def _request(request: DeviceRequest, here: Offered, classes: Mapping[str, KubeClass]) -> Request:
    exact = request.exactly
    if exact is None:
        raise cel.Unsupported(f"firstAvailable of request {request.name}")
    if exact.admin_access or exact.capacity or exact.allocation_mode not in ("ExactCount", "All"):
        raise cel.Unsupported(f"adminAccess, capacity or allocationMode of request {request.name}")
    selectors = [*classes[exact.device_class_name].spec.selectors, *exact.selectors]
    judges = [cel.compile_selector(one["cel"]["expression"]) for one in selectors]
    fitting = (name for name, device in here.devices.items() if all(cel.matches(judge, device) for judge in judges))
    return Request(request.name, exact.count, frozenset(fitting), exact.allocation_mode == "All")


def _described(driver: str, device: SliceDevice) -> Device:
    """Names without a domain belong to the driver's."""
    attributes: dict[str, dict[str, Any]] = {}
    capacity: dict[str, dict[str, Any]] = {}
    for name, value in device.attributes.items():
        domain, _, short = name.rpartition("/")
        attributes.setdefault(domain or driver, {})[short] = _value(value)
    for name, value in device.capacity.items():
        domain, _, short = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[short] = amount(value["value"])
    return {"driver": driver, "attributes": attributes, "capacity": capacity}


def _value(value: Mapping[str, Any]) -> Any:
    if "version" in value:
        return cel.Version(value["version"])
    return next(iter(value.values()), None)
