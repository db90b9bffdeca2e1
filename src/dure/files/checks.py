"""What a well-formed fleet, tenant or policy can still get wrong: names that do not exist, prices that are missing.

`check` notes problems (the file is refused) and warnings (it is used, but its owner should know). Called by
`documents` for every document once all of them are read; workloads have a module of their own.
"""

from __future__ import annotations

from dure.files.accelerator import geometry_problems
from dure.files.known import Known
from dure.files.reading import Reading
from dure.files.workload_checks import check_workload
from dure.model.accelerator import AcceleratorProfile
from dure.model.errors import InvalidInput
from dure.model.fleet import ClusterSpec, Connect, Fleet, PoolSpec
from dure.model.policy import Policy, Verb
from dure.model.tariff import Capacity
from dure.model.tenant import Tenant
from dure.model.workload import Workload
from dure.place.settings import settings_of
from dure.scale.bursts import bursts_of


def check(made: Fleet | Workload | Tenant | Policy, known: Known, into: Reading) -> None:
    match made:
        case Fleet():
            _check_fleet(made, known, into)
        case Workload():
            check_workload(made, known, into)
        case Tenant():
            _check_quota(made, "spec.quota", known, into)
        case Policy():
            _check_policy(made, "spec", into)


def _check_fleet(fleet: Fleet, known: Known, into: Reading) -> None:
    for index, profile in enumerate(fleet.classes.values()):
        for wrong in geometry_problems(profile):
            into.at(f"spec.classes[{index}]", wrong)
    if fleet.currency in fleet.rates.per_unit:
        into.at(f"spec.exchange.{fleet.currency}", "is the fleet's own currency; leave it out")
    for index, cluster in enumerate(fleet.clusters):
        _check_cluster(cluster, f"spec.clusters[{index}]", fleet, known, into)
    for index, tenant in enumerate(fleet.tenants):
        _check_quota(tenant, f"spec.tenants[{index}].quota", known, into)
    for index, policy in enumerate(fleet.policies):
        _check_policy(policy, f"spec.policies[{index}]", into)
    _check_quota_sums(fleet, into)


def _check_cluster(cluster: ClusterSpec, path: str, fleet: Fleet, known: Known, into: Reading) -> None:
    _check_connect(cluster.connect, f"{path}.connect", into)
    for index, pool in enumerate(cluster.pools):
        at = f"{path}.pools[{index}]"
        profile = known.accelerator(pool.class_name, f"{at}.class", into)
        if profile is not None:
            _check_share(pool, profile, at, into)
        _check_size(pool, cluster.connect.embedded, at, into)
        _check_price(pool, fleet, f"{at}.price", into)


def _check_connect(connect: Connect, path: str, into: Reading) -> None:
    ways = [name for name in ("kubeconfig", "embedded", "agent") if getattr(connect, name)]
    if len(ways) != 1:
        found = " and ".join(ways) or "none of them"
        into.at(path, f"must have exactly one of kubeconfig, embedded and agent, found {found}")
    if connect.context and not connect.kubeconfig:
        into.at(f"{path}.context", "needs a kubeconfig beside it")


def _check_share(pool: PoolSpec, profile: AcceleratorProfile, path: str, into: Reading) -> None:
    for index, mode in enumerate(pool.share):
        if mode not in profile.share:
            offered = ", ".join(profile.share)
            into.at(f"{path}.share[{index}]", f"class '{profile.name}' cannot be shared by {mode}; it can: {offered}")
    if len(set(pool.share)) < len(pool.share):
        into.at(f"{path}.share", "names a mode twice")


def _check_size(pool: PoolSpec, embedded: bool, path: str, into: Reading) -> None:
    if 0 < pool.nodes_max < pool.nodes:
        into.at(f"{path}.nodesMax", f"{pool.nodes_max} is less than the {pool.nodes} nodes there are")
    if not pool.nodes and not pool.nodes_max and not pool.selector:
        into.at(path, "has no nodes: neither nodes, nodesMax nor selector says any", warn=not embedded)
    if pool.link_group_size > pool.devices:
        into.at(f"{path}.linkGroup", f"{pool.link_group_size} is more than the {pool.devices} devices of a node")


def _check_price(pool: PoolSpec, fleet: Fleet, path: str, into: Reading) -> None:
    tariff = pool.tariff
    if not tariff.capacities:
        into.at(path, "has no price per hour: one of owned, onDemand and spot is needed")
    elif tariff.per_hour(pool.capacity) is None:
        into.at(path, f"has no price for capacity '{pool.capacity}'")
    if tariff.currency != fleet.currency and tariff.currency not in fleet.rates.per_unit:
        remedy = f"Add it to the fleet: spec.exchange: {{{tariff.currency}: 1380}}"
        into.at(f"{path}.currency", f"no exchange rate from {tariff.currency} to {fleet.currency}", remedy)
    if tariff.reclaim_per_hour and tariff.spot is None:
        into.at(f"{path}.reclaim", "is for spot, but there is no spot price", warn=True)
    if pool.capacity is Capacity.SPOT and not tariff.reclaim_per_hour:
        into.at(path, "spot without 'reclaim' counts as never reclaimed", warn=True)


def _check_policy(policy: Policy, path: str, into: Reading) -> None:
    """Whether its verb takes these settings. One of the user's own package is known only where that is installed."""
    if policy.goals and policy.verb is not Verb.PLACE:
        into.at(f"{path}.goals", f"are for the verb place, this policy is for {policy.verb}")
        return
    try:
        if policy.verb is Verb.PLACE:
            settings_of(policy)
        elif policy.verb is Verb.SCALE:
            bursts_of(policy)
    except InvalidInput as error:
        into.at(path, error.message, error.remedy)


def _check_quota(tenant: Tenant, path: str, known: Known, into: Reading) -> None:
    for name in tenant.quota:
        known.accelerator(name, f"{path}.{name}", into)


def _check_quota_sums(fleet: Fleet, into: Reading) -> None:
    """More promised than there is: legal, as not all use it at once, but worth a word."""
    there: dict[str, int] = {}
    for cluster in fleet.clusters:
        for pool in cluster.pools:
            most = max(pool.nodes, pool.nodes_max) * pool.devices
            there[pool.class_name] = there.get(pool.class_name, 0) + most
    promised: dict[str, int] = {}
    for tenant in fleet.tenants:
        for name, devices in tenant.quota.items():
            promised[name] = promised.get(name, 0) + devices
    for name, devices in promised.items():
        if 0 < there.get(name, 0) < devices:
            message = f"quotas of '{name}' add up to {devices}, the fleet has {there[name]}"
            into.at("spec.tenants", message, warn=True)
