"""The fleet: its status and recent past, clusters, pools, devices, classes, tenants, policies."""

from __future__ import annotations

import asyncio
import difflib
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from dure.api.answers import After, Limit, Name, NameFilter, Page, one, page, plain
from dure.api.caller import who_of
from dure.api.seen import cluster_for, device_for, own_records, status_for
from dure.api.service import Service, service_of
from dure.model.accelerator import AcceleratorProfile
from dure.model.answer import ClusterStatus, FleetStatus, PoolStatus
from dure.model.errors import NotFound
from dure.model.policy import Policy
from dure.model.report import DeviceView
from dure.model.sample import Point, Sample
from dure.model.tenant import Tenant
from dure.model.units import DAY_S
from dure.model.weights import HISTORY_SETTING, WeightHistory, Weights
from dure.model.who import Who
from dure.watch.foreign import SIGNALS, layer_of
from dure.watch.history import SERIES

Item = TypeVar("Item", ClusterStatus, Tenant, Policy, AcceleratorProfile)


@get("/v1/status", tags=["fleet"])
async def fetch_status(request: Request[Any, Any, Any]) -> Response[FleetStatus]:
    """The whole fleet at this moment: is it well, what does it cost, what runs and waits."""
    return plain(await asyncio.to_thread(_status, service_of(request), who_of(request)))


@get("/v1/history", tags=["fleet"], sync_to_thread=False)
def fetch_history(request: Request[Any, Any, Any], since_s: FromQuery[float] = 0.0) -> Response[Page[Point]]:
    """The headline figures of the whole fleet, oldest first. A long past comes in coarser steps.

    Nothing for who belongs to a tenant.
    """
    if who_of(request).tenants is not None:
        return plain(Page(()))
    return plain(Page(service_of(request).pulse.history(since_s)))


@get("/v1/series/{name:str}", tags=["fleet"])
async def fetch_series(
    request: Request[Any, Any, Any],
    name: Name,
    since_s: FromQuery[float] = 0.0,
    until_s: FromQuery[float | None] = None,
) -> Response[Page[Sample]]:
    """One series over time, by labels and then by time: use and price of each pool, cost of each cluster.

    Also what was scraped: of devices (`dure_device_*`), servings (`dure_serving_*`), clusters (`dure_kube_*`).
    """
    if name not in SERIES and layer_of(name) is None:
        close = difflib.get_close_matches(name, (*SERIES, *SIGNALS), n=1)
        known = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(SERIES)}."
        raise NotFound(f"no series '{name}'", remedy=known)
    end_s = math.inf if until_s is None else until_s
    return plain(Page(await asyncio.to_thread(service_of(request).pulse.series, name, since_s, end_s)))


@get("/v1/weights", tags=["fleet"])
async def fetch_weights(request: Request[Any, Any, Any]) -> Response[WeightHistory]:
    """The weights that placement has learned and how they went, one point per window, oldest first."""
    kept = await asyncio.to_thread(service_of(request).backend.store.fetch_setting, HISTORY_SETTING)
    return plain(msgspec.json.decode(kept, type=WeightHistory) if kept else WeightHistory(Weights()))


@get("/v1/clusters", tags=["fleet"])
async def list_clusters(
    request: Request[Any, Any, Any], limit: Limit = 100, after: After = None
) -> Response[Page[ClusterStatus]]:
    return page(await _clusters(request), limit, after, lambda cluster: cluster.name)


@get("/v1/clusters/{name:str}", tags=["fleet"])
async def fetch_cluster(request: Request[Any, Any, Any], name: Name) -> Response[ClusterStatus]:
    return one(request, _named("cluster", name, await _clusters(request)))


@get("/v1/pools", tags=["fleet"])
async def list_pools(
    request: Request[Any, Any, Any], limit: Limit = 100, after: After = None, cluster: NameFilter = None
) -> Response[Page[PoolStatus]]:
    """Pools of all clusters, or of one."""
    pools = [
        msgspec.structs.replace(pool, cluster=member.name)
        for member in await _clusters(request)
        if cluster in (None, member.name)
        for pool in member.pools
    ]
    return page(pools, limit, after, lambda pool: f"{pool.cluster}/{pool.name}")


@get("/v1/devices", tags=["fleet"])
async def list_devices(
    request: Request[Any, Any, Any], limit: Limit = 1000, after: After = None, cluster: NameFilter = None
) -> Response[Page[DeviceView]]:
    """Every device as its cluster last reported it, with the slices that are held and by whom."""
    reports = await asyncio.to_thread(service_of(request).backend.store.list_reports)
    devices = [
        device_for(msgspec.structs.replace(device, cluster=report.cluster), who_of(request))
        for report in reports
        if cluster in (None, report.cluster)
        for device in report.devices
    ]
    return page(devices, limit, after, lambda device: f"{device.cluster}/{device.node}/{device.id}")


@get("/v1/classes", tags=["fleet"], sync_to_thread=False)
def list_classes(
    request: Request[Any, Any, Any], limit: Limit = 100, after: After = None
) -> Response[Page[AcceleratorProfile]]:
    """The accelerator classes of the catalogue."""
    return page(_classes(request), limit, after, lambda profile: profile.name)


@get("/v1/classes/{name:str}", tags=["fleet"], sync_to_thread=False)
def fetch_class(request: Request[Any, Any, Any], name: Name) -> Response[AcceleratorProfile]:
    return one(request, _named("class", name, _classes(request)))


@get("/v1/tenants", tags=["fleet"])
async def list_tenants(
    request: Request[Any, Any, Any], limit: Limit = 100, after: After = None
) -> Response[Page[Tenant]]:
    tenants = await _tenants(request)
    return page(tenants, limit, after, lambda tenant: tenant.name)


@get("/v1/tenants/{name:str}", tags=["fleet"])
async def fetch_tenant(request: Request[Any, Any, Any], name: Name) -> Response[Tenant]:
    return one(request, _named("tenant", name, await _tenants(request)))


@get("/v1/policies", tags=["fleet"])
async def list_policies(
    request: Request[Any, Any, Any], limit: Limit = 100, after: After = None
) -> Response[Page[Policy]]:
    """The newest version of every policy."""
    policies = await asyncio.to_thread(service_of(request).backend.store.list_policies)
    return page(policies, limit, after, lambda policy: policy.name)


@get("/v1/policies/{name:str}", tags=["fleet"])
async def fetch_policy(request: Request[Any, Any, Any], name: Name) -> Response[Policy]:
    policies = await asyncio.to_thread(service_of(request).backend.store.list_policies)
    return one(request, _named("policy", name, policies))


def _status(service: Service, who: Who) -> FleetStatus:
    status = service.pulse.status()
    status = msgspec.structs.replace(status, troubles=(*status.troubles, *service.insight.troubles()))
    if who.tenants is None:
        return status
    store = service.backend.store
    charges = store.list_charges(0, int(status.now_s // DAY_S) + 1)
    return status_for(status, who, own_records(store, who), [one for one in charges if who.sees(one.tenant)])


async def _clusters(request: Request[Any, Any, Any]) -> tuple[ClusterStatus, ...]:
    service, who = service_of(request), who_of(request)
    status = await asyncio.to_thread(service.pulse.status)
    if who.tenants is None:
        return status.clusters
    records = await asyncio.to_thread(own_records, service.backend.store, who, ended=False)
    return tuple(cluster_for(one, who, records) for one in status.clusters)


async def _tenants(request: Request[Any, Any, Any]) -> list[Tenant]:
    tenants = await asyncio.to_thread(service_of(request).backend.store.list_tenants)
    return [one for one in tenants if who_of(request).sees(one.name)]


def _classes(request: Request[Any, Any, Any]) -> list[AcceleratorProfile]:
    classes = service_of(request).backend.catalogue().classes
    return [classes[name] for name in sorted(classes)]


def _named(kind: str, name: str, items: Sequence[Item]) -> Item:
    for item in items:
        if item.name == name:
            return item
    close = difflib.get_close_matches(name, [item.name for item in items], n=1)
    raise NotFound(f"no {kind} '{name}'", remedy=f"Did you mean '{close[0]}'?" if close else "")


HANDLERS: list[HTTPRouteHandler] = [
    fetch_status,
    fetch_history,
    fetch_series,
    fetch_weights,
    list_clusters,
    fetch_cluster,
    list_pools,
    list_devices,
    list_classes,
    fetch_class,
    list_tenants,
    fetch_tenant,
    list_policies,
    fetch_policy,
]
