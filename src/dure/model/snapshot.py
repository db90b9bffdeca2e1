"""Everything a global decision may look at, `now` and the seed included.

The plane observes one, `sim` makes one up, `whatif` changes one: the decision does not know which. Collections
are sorted by name so that the same world gives the same bytes.
"""

from __future__ import annotations

import hashlib

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterInfo, VNodePool
from dure.model.money import Rates
from dure.model.once import once
from dure.model.policy import Policy, Verb
from dure.model.spell import PoolSpells
from dure.model.tariff import CarbonSeries, Tariff
from dure.model.tenant import Tenant, TenantUsage
from dure.model.units import Instant, Micros
from dure.model.weights import Weights
from dure.model.workload import WorkloadRecord


class Snapshot(msgspec.Struct, frozen=True):
    """`records` are the workloads that have not ended. `carbon_micros_per_kg` is the fleet's carbon price.

    `spells` is what was seen of spot pools, of those alone whose clusters tell of it. `turns` says where somebody
    keeps its turn since an earlier decision, as `cluster/pool` by workload.
    """

    now_s: Instant
    seed: int
    catalogue: Catalogue
    rates: Rates
    carbon_micros_per_kg: Micros
    clusters: tuple[ClusterInfo, ...]
    pools: tuple[VNodePool, ...]
    tariffs: tuple[Tariff, ...]
    carbon: tuple[CarbonSeries, ...]
    tenants: tuple[Tenant, ...]
    usage: tuple[TenantUsage, ...]
    records: tuple[WorkloadRecord, ...]
    policies: tuple[Policy, ...] = ()
    weights: Weights = Weights()
    spells: tuple[PoolSpells, ...] = ()
    turns: dict[str, str] = {}

    def cluster(self, name: str) -> ClusterInfo | None:
        return next((cluster for cluster in self.clusters if cluster.name == name), None)

    def policy(self, verb: Verb) -> Policy:
        return next((policy for policy in self.policies if policy.verb is verb), Policy("default", verb))


def digest(snapshot: Snapshot) -> str:
    """A short name for this very world; two snapshots share it only if a decision could not tell them apart."""
    made = hashlib.blake2b(digest_size=12)
    # What is large and rarely another from one turn to the next is hashed once, or at least encoded once.
    known = {
        "catalogue": _NO_CATALOGUE,
        "tariffs": (),
        "carbon": (),
        "records": (),
        "tenants": _tenants(snapshot.tenants),
        "policies": _policies(snapshot.policies),
        "weights": _weights(snapshot.weights),
        "spells": _spells(snapshot.spells),
    }
    small = _Small(*(known.get(name, getattr(snapshot, name)) for name in snapshot.__struct_fields__))
    made.update(_ENCODER.encode(small))
    made.update(_catalogue_digest(snapshot.catalogue))
    made.update(_series_digest(snapshot.tariffs, snapshot.carbon))
    made.update(_records_digest(snapshot.records))
    return made.hexdigest()


@once
def _tenants(tenants: tuple[Tenant, ...]) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode(tenants))


@once
def _policies(policies: tuple[Policy, ...]) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode(policies))


@once
def _weights(weights: Weights) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode(weights))


@once
def _spells(spells: tuple[PoolSpells, ...]) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode(spells))


@once
def _catalogue_digest(catalogue: Catalogue) -> bytes:
    """Of classes and models (templates are for people)."""
    return _hashed(msgspec.structs.replace(catalogue, templates={}))


@once
def _series_digest(tariffs: tuple[Tariff, ...], carbon: tuple[CarbonSeries, ...]) -> bytes:
    return _hashed((tariffs, carbon))


def _records_digest(records: tuple[WorkloadRecord, ...]) -> bytes:
    """Those of the last turn that are the very same objects keep their hash."""
    global _known
    known, fresh = _known, {}
    for record in records:
        kept = known.get(record.uid)
        fresh[record.uid] = kept if kept is not None and kept[0] is record else (record, _hashed(record))
    _known = fresh
    return _hashed([made for _, made in fresh.values()])


def _hashed(body: object) -> bytes:
    return hashlib.blake2b(_ENCODER.encode(body), digest_size=12).digest()


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_NO_CATALOGUE = Catalogue(classes={})
# A snapshot whose parts may be given as bytes.
_Small = msgspec.defstruct("_Small", Snapshot.__struct_fields__)
_known: dict[str, tuple[WorkloadRecord, bytes]] = {}
