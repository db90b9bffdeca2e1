"""The kind Fleet: clusters, their pools and prices, tenants, policies and classes of one's own.

Prices are read in the cluster's time zone and the fleet's currency and leave here in UTC, each tariff with the
names it belongs to; writing undoes exactly that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dure.files.accelerator import CLASS
from dure.files.hours import Hourly, TimeZone, to_local, to_utc
from dure.files.policy import POLICY
from dure.files.quantities import (
    CORES,
    DURATION,
    HOURLY_CHANCE,
    MEMORY,
    MILLISECONDS,
    PRICE_CARBON,
    PRICE_GIB,
    PRICE_HOUR,
    PRICE_KWH,
)
from dure.files.reading import Reading
from dure.files.shapes import (
    NAME,
    WORDS,
    Choice,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    Quantity,
    Record,
    Schema,
    Shape,
    Text,
    Whole,
    changed,
)
from dure.files.tenant import TENANT
from dure.files.yaml import Value
from dure.model.accelerator import AcceleratorProfile, ShareMode
from dure.model.cluster import ClusterInfo
from dure.model.fleet import ClusterSpec, Connect, Fleet, PoolSpec, SeriesSource
from dure.model.money import Rates
from dure.model.tariff import Capacity, Tariff, Weekly

_CURRENCY = Text(r"[A-Z]{3}", "use a code of three letters like KRW", longest=3)

PRICE = Record(
    "What one device costs per hour. Hours are of the cluster's time zone.",
    (
        Key("currency", _CURRENCY, "Currency of these prices; the fleet's if left out."),
        Key("owned", Hourly(Quantity(PRICE_HOUR)), "Own hardware: its cost spread over its life."),
        Key("onDemand", Hourly(Quantity(PRICE_HOUR)), "Rented by the hour.", "on_demand"),
        Key("spot", Hourly(Quantity(PRICE_HOUR)), "Rented until it is reclaimed."),
        Key(
            "reclaim", Quantity(HOURLY_CHANCE), "Chance that a spot node is reclaimed in an hour.", "reclaim_per_hour"
        ),
        Key("electricity", Hourly(Quantity(PRICE_KWH)), "Price of power where the owner pays for it."),
        Key("egress", Quantity(PRICE_GIB), "Price of data that leaves the cluster.", "egress_micros_per_gib"),
    ),
    dict,
    lambda tariff: _price_taken(tariff),
)


def _price_taken(tariff: Tariff) -> dict[str, Any]:
    """The currency is left out where it is the fleet's, which stands here as none."""
    taken = changed(tariff, PRICE.keys[1:])
    return {"currency": tariff.currency, **taken} if tariff.currency else taken


_POOL_KEYS = (
    Key("name", NAME, "Name, unique in the cluster.", required=True),
    Key("class", NAME, "Accelerator class of its devices.", "class_name", required=True),
    Key("nodes", Whole(), "Nodes there are; found by the selector if left out."),
    Key("nodesMax", Whole(), "Nodes there may be when more are booted.", "nodes_max"),
    Key("devices", Whole(1, 1024), "Devices per node; 1 if left out."),
    Key("share", ListOf(Choice(ShareMode), least=1), "Share modes offered; 'exclusive' if left out."),
    Key("cpu", Quantity(CORES), "Host CPU cores per node.", "cpu_milli"),
    Key("memory", Quantity(MEMORY), "Host memory per node.", "memory_mib"),
    Key("linkGroup", Whole(0, 1024), "Devices of a node joined by a fast link.", "link_group_size"),
    Key("boot", Quantity(DURATION), "Time until a new node is ready.", "boot_s"),
    Key("zones", ListOf(WORDS), "Zones over which the nodes are spread."),
    Key("selector", MapOf(Text(empty=True)), "Labels of the nodes that belong to the pool."),
)
_PRICE_KEY = Key("price", PRICE, "What one device costs.", "tariff", required=True)
_CAPACITY_KEY = Key("capacity", Choice(Capacity), "How nodes are paid for; follows from the price if left out.")


def _pool(tariff: dict[str, Any], capacity: Capacity | None = None, **rest: Any) -> PoolSpec:
    priced = Tariff(cluster="", pool=rest["name"], class_name=rest["class_name"], **{"currency": "", **tariff})
    return PoolSpec(tariff=priced, capacity=capacity or _implied(priced), **rest)


def _implied(tariff: Tariff) -> Capacity:
    """Spot where there is a spot price, as that is why one is given; owned where nothing is said."""
    if tariff.owned is not None:
        return Capacity.OWNED
    if tariff.spot is not None:
        return Capacity.SPOT
    return Capacity.ON_DEMAND if tariff.on_demand is not None else Capacity.OWNED


def _pool_taken(pool: PoolSpec) -> dict[str, Any]:
    taken = {**changed(pool, _POOL_KEYS), "tariff": pool.tariff}
    return taken if pool.capacity is _implied(pool.tariff) else {**taken, "capacity": pool.capacity}


POOL = Record("Nodes of equal shape.", (*_POOL_KEYS, _PRICE_KEY, _CAPACITY_KEY), _pool, _pool_taken)


class Embedded(Shape):
    """`{}` or true."""

    kind = "{} or true"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        return True if value.data is True or value.data == {} else self.mismatch(value, path, into)

    def schema(self) -> Schema:
        return {"anyOf": [{"const": True}, {"type": "object", "maxProperties": 0}]}

    def write(self, value: Any) -> Any:
        return {}


CONNECT = Record(
    "How the cluster is reached: one of kubeconfig, embedded and agent.",
    (
        Key("kubeconfig", WORDS, "Path of a kubeconfig file."),
        Key("context", WORDS, "Context in that file; its current one if left out."),
        Key("embedded", Embedded(), "A simulated cluster inside of Dure."),
        Key("agent", WORDS, "An agent that has joined by itself: 'joined'."),
    ),
    Connect,
)

_INFO_KEYS = (
    Key("name", NAME, "Name, unique in the fleet.", required=True),
    Key("region", WORDS, "Region, matched by the workloads' regions."),
    Key("timezone", TimeZone(longest=64), "Time zone of its prices and schedules; UTC if left out."),
    Key("grid", WORDS, "Electricity grid, for carbon figures: KR, DE, US-CAL-CISO."),
    Key("pue", Number(1, 10), "Energy of the site per energy of its machines; 1 if left out."),
    Key("datasets", ListOf(Text(longest=200)), "Data sets that are there."),
    Key("edge", Flag(), "Whether it is a small site at the edge."),
    Key("latency", Quantity(MILLISECONDS), "Round trip from its users.", "latency_ms"),
    Key("metered", Quantity(PRICE_GIB), "Price of traffic on its line.", "metered_micros_per_gib"),
)
_CONNECT_KEY = Key("connect", CONNECT, "How it is reached; embedded if left out.")
_POOLS_KEY = Key("pools", ListOf(POOL, unique="name", least=1), "Its pools.", required=True)
_PRICES = ("owned", "on_demand", "spot", "electricity")


def _cluster(pools: tuple[PoolSpec, ...], connect: Connect | None = None, **info: Any) -> ClusterSpec:
    about = ClusterInfo(**info)
    named = tuple(_retimed(pool, about.name, about.timezone, to_utc) for pool in pools)
    return ClusterSpec(about, connect or Connect(embedded=True), named)


def _cluster_taken(cluster: ClusterSpec) -> dict[str, Any]:
    pools = tuple(_retimed(pool, "", cluster.info.timezone, to_local) for pool in cluster.pools)
    return {**changed(cluster.info, _INFO_KEYS), "connect": cluster.connect, "pools": pools}


def _retimed(pool: PoolSpec, cluster: str, zone: str, shift: Callable[[Weekly, str], Weekly]) -> PoolSpec:
    prices = {name: getattr(pool.tariff, name) for name in _PRICES}
    shifted = {name: shift(weekly, zone) for name, weekly in prices.items() if weekly is not None}
    return msgspec.structs.replace(pool, tariff=msgspec.structs.replace(pool.tariff, cluster=cluster, **shifted))


CLUSTER = Record("A member cluster.", (*_INFO_KEYS, _CONNECT_KEY, _POOLS_KEY), _cluster, _cluster_taken)

_SOURCE_KEYS = (
    Key("from", Text(longest=2000), "A .csv, .csv.gz, .json or .parquet file, or a URL.", "where", required=True),
    Key("columns", MapOf(Text(longest=200)), "Column of each grid or cluster/pool whose name differs."),
    Key("fresh", Quantity(DURATION), "Read again after this long; 1h if left out.", "fresh_s"),
    Key("stale", Quantity(DURATION), "Not believed after this long without an answer; 6h if left out.", "stale_s"),
    Key("local", Flag(), "Whether the URL may be one of this very machine; refused if left out."),
)
_SOLD = Key("capacity", Choice(Capacity), "Which price the figures are; 'spot' if left out.")
CARBON_SOURCE = Record("Grid intensity in g/kWh over time, one column per grid.", _SOURCE_KEYS, SeriesSource)
PRICE_SOURCE = Record(
    "Prices per device and hour over time, one column per cluster/pool.", (*_SOURCE_KEYS, _SOLD), SeriesSource
)

SPEC = Record(
    "What the fleet is made of.",
    (
        Key("currency", _CURRENCY, "Currency of all money without one; KRW if left out."),
        Key(
            "exchange", MapOf(Number(above=True), key="[A-Z]{3}"), "Units of the fleet's currency for one of another."
        ),
        Key(
            "carbonPrice",
            Quantity(PRICE_CARBON),
            "What a tonne of CO2 equivalent counts for.",
            "carbon_micros_per_kg",
        ),
        Key("carbonSource", CARBON_SOURCE, "Where carbon figures come from.", "carbon_source"),
        Key("priceSource", PRICE_SOURCE, "Where prices that change come from.", "price_source"),
        Key("demo", Flag(), "Marks invented figures, which Dure then shows as such."),
        Key("clusters", ListOf(CLUSTER, unique="name", least=1), "Member clusters.", required=True),
        Key("tenants", ListOf(TENANT, unique="name"), "Tenants of the fleet."),
        Key("policies", ListOf(POLICY, unique="name"), "Policies in force from the start."),
        Key(
            "classes",
            ListOf(CLASS, unique="name"),
            "Accelerator classes of one's own, or other figures for known ones.",
        ),
    ),
    dict,
    lambda fleet: _spec_taken(fleet),
)
METADATA = Record(
    "Which fleet it is.",
    (Key("name", NAME, "The fleet's name.", required=True),),
    dict,
)


def make(metadata: dict[str, Any], spec: dict[str, Any]) -> Fleet:
    currency = spec.get("currency", "KRW")
    classes: tuple[AcceleratorProfile, ...] = spec.pop("classes", ())
    rates = Rates(currency, spec.pop("exchange", {}))
    clusters = tuple(_repriced(cluster, "", currency) for cluster in spec.pop("clusters"))
    return Fleet(clusters=clusters, rates=rates, classes={each.name: each for each in classes}, **metadata, **spec)


def _spec_taken(fleet: Fleet) -> dict[str, Any]:
    made = ("clusters", "exchange", "classes")
    taken = changed(fleet, tuple(key for key in SPEC.keys if key.name not in made))
    taken["clusters"] = tuple(_repriced(cluster, fleet.currency, "") for cluster in fleet.clusters)
    if fleet.rates.per_unit:
        taken["exchange"] = fleet.rates.per_unit
    if fleet.classes:
        taken["classes"] = tuple(fleet.classes.values())
    return taken


def _repriced(cluster: ClusterSpec, old: str, new: str) -> ClusterSpec:
    """The cluster with currency `new` on every tariff that has `old`."""
    pools = tuple(
        msgspec.structs.replace(pool, tariff=msgspec.structs.replace(pool.tariff, currency=new))
        if pool.tariff.currency == old
        else pool
        for pool in cluster.pools
    )
    return msgspec.structs.replace(cluster, pools=pools)
