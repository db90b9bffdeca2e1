"""Why an option is not possible: each constraint is one filter that answers a Verdict or nothing.

Asked in the order in which a person would: may it go there, could it ever fit, may the tenant, does it fit now.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from dure.model.accelerator import ShareMode
from dure.model.bill import Bill
from dure.model.demand import Demand
from dure.model.money import show
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.tenant import Tenant, TenantUsage
from dure.model.units import WHOLE_MILLI, gib, percent
from dure.model.workload import Workload
from dure.place.bill import charged
from dure.place.option import Option

STALE_S = 300.0


def static_clash(workload: Workload, option: Option, demand: Demand, snapshot: Snapshot) -> Verdict | None:
    """What no waiting will change: class, region, size of a device, a cluster that is away."""
    return (
        _class_clash(workload, option)
        or _region_clash(workload, option)
        or _reach_clash(option, snapshot)
        or _size_clash(option, demand)
        or _mode_clash(workload, option, demand)
        or _host_clash(option, demand)
        or _data_clash(workload, option)
        or _latency_clash(workload, option)
    )


def _class_clash(workload: Workload, option: Option) -> Verdict | None:
    if option.speed > 0:
        return None
    accepted = "/".join(one.name for one in workload.classes)
    return Verdict(option.where, Reason.CLASS_NOT_ACCEPTED, accepted, f"{option.where} has {option.pool.class_name}")


def _region_clash(workload: Workload, option: Option) -> Verdict | None:
    region = option.cluster.region
    if not workload.regions or _matches(region, workload.regions):
        return None
    allowed = ", ".join(workload.regions)
    return Verdict(option.where, Reason.REGION_NOT_ALLOWED, allowed, f"{option.cluster.name} is in {region}")


@lru_cache(maxsize=1024)
def _matches(region: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(region, glob) for glob in globs)


def _reach_clash(option: Option, snapshot: Snapshot) -> Verdict | None:
    cluster = option.cluster
    if not cluster.reachable:
        return Verdict(option.where, Reason.CLUSTER_UNREACHABLE, "an agent that answers", f"{cluster.name} is away")
    age_s = snapshot.now_s - cluster.observed_s
    if age_s > STALE_S:
        found = f"{cluster.name} was last seen {age_s:.0f} s ago"
        return Verdict(option.where, Reason.STALE_FIGURES, f"figures of the last {STALE_S:.0f} s", found)
    return None


def _size_clash(option: Option, demand: Demand) -> Verdict | None:
    profile, where = option.profile, option.where
    if demand.memory_mib > profile.memory_mib:
        found = f"class {profile.name} has {gib(profile.memory_mib)}"
        return Verdict(where, Reason.MEMORY_TOO_SMALL, f"{gib(demand.memory_mib)} per device", found)
    if not demand.whole and demand.compute_milli > WHOLE_MILLI:
        found = "one device is 100 %"
        return Verdict(where, Reason.COMPUTE_TOO_SMALL, f"{percent(demand.compute_milli)} of a {profile.name}", found)
    if not demand.whole and demand.bandwidth_milli > WHOLE_MILLI:
        wanted = f"{percent(demand.bandwidth_milli)} of the bandwidth of a {profile.name}"
        return Verdict(where, Reason.BANDWIDTH_TOO_SMALL, wanted, "one device is 100 %")
    if demand.devices > option.pool.devices_per_node:
        found = f"nodes of {where} have {option.pool.devices_per_node}"
        return Verdict(where, Reason.NO_CAPACITY, f"{demand.devices} devices on one node", found)
    return None


def _host_clash(option: Option, demand: Demand) -> Verdict | None:
    """Host CPU and memory of the roomiest node; a pool that can boot new nodes is not judged by its old ones."""
    pool = option.pool
    if pool.nodes_max > pool.nodes or pool.nodes == 0:
        return None
    if demand.cpu_milli > pool.largest_cpu_milli > 0:
        found = f"the freest node of {option.where} has {pool.largest_cpu_milli / 1000:g}"
        return Verdict(option.where, Reason.HOST_TOO_SMALL, f"{demand.cpu_milli / 1000:g} cores", found)
    if demand.host_memory_mib > pool.largest_host_memory_mib > 0:
        found = f"the freest node of {option.where} has {gib(pool.largest_host_memory_mib)}"
        return Verdict(option.where, Reason.HOST_TOO_SMALL, f"{gib(demand.host_memory_mib)} of host memory", found)
    return None


def _data_clash(workload: Workload, option: Option) -> Verdict | None:
    """A metered edge site is no place for a data set that would have to be pulled through its line."""
    if not workload.dataset or workload.dataset in option.cluster.datasets:
        return None
    if not option.cluster.edge or option.cluster.metered_micros_per_gib <= 0:
        return None
    found = f"{option.cluster.name} is at the edge on a metered line"
    return Verdict(option.where, Reason.DATA_TOO_FAR, f"{gib(workload.dataset_mib)} of {workload.dataset}", found)


def _latency_clash(workload: Workload, option: Option) -> Verdict | None:
    """Users too far away: the network alone takes the whole latency target."""
    target_ms, network_ms = workload.slo.latency_p95_ms, option.cluster.latency_ms
    if target_ms is None or network_ms < target_ms:
        return None
    found = f"{option.cluster.name} is {network_ms:g} ms from the users"
    return Verdict(option.where, Reason.LATENCY_TOO_HIGH, f"answers within {target_ms:g} ms", found)


def _mode_clash(workload: Workload, option: Option, demand: Demand) -> Verdict | None:
    wanted = workload.share or ((ShareMode.EXCLUSIVE,) if demand.whole else tuple(ShareMode))
    if any(mode in option.pool.share for mode in wanted):
        return None
    found = f"{option.where} offers {'/'.join(option.pool.share)}"
    return Verdict(option.where, Reason.SHARE_MODE_NOT_OFFERED, "/".join(wanted), found)


def quota_clash(option: Option, demand: Demand, tenant: Tenant, usage: TenantUsage) -> Verdict | None:
    """Without borrowing a tenant stays inside its quota; with it, inside what the pool has free anyway."""
    quota = tenant.quota.get(option.pool.class_name)
    if quota is None or tenant.borrow:
        return None
    held = usage.device_milli.get(option.pool.class_name, 0)
    wanted = demand.device_milli * option.replicas
    if held + wanted <= quota * WHOLE_MILLI:
        return None
    text = f"{wanted / WHOLE_MILLI:g} {option.pool.class_name}"
    found = f"tenant {tenant.name} holds {held / WHOLE_MILLI:g} of its quota of {quota}"
    return Verdict(option.where, Reason.QUOTA_EXCEEDED, text, found)


def budget_clash(option: Option, tenant: Tenant, usage: TenantUsage, bill: Bill) -> Verdict | None:
    """The month's money and carbon must cover this very bill, not just be unspent."""
    money, carbon = tenant.budget.money_micros, tenant.budget.carbon_g
    if money is not None and usage.spent_micros + charged(bill) > money:
        found = (
            f"tenant {tenant.name} has {show(max(0, money - usage.spent_micros))} of {show(money)} left this month"
        )
        return Verdict(option.where, Reason.BUDGET_EXCEEDED, show(charged(bill)), found)
    if carbon is not None and usage.carbon_g + bill.carbon_g > carbon:
        left = max(0.0, carbon - usage.carbon_g) / 1000
        found = f"tenant {tenant.name} has {left:.1f} of {carbon / 1000:.1f} kg left this month"
        return Verdict(option.where, Reason.CARBON_BUDGET_EXCEEDED, f"{bill.carbon_g / 1000:.1f} kg CO2", found)
    return None


def isolation_clash(option: Option, tenant: Tenant, demand: Demand) -> Verdict | None:
    """A tenant with a node of its own needs a pool with a wholly free node; the agent enforces the rest."""
    if not tenant.isolation.walls_nodes or demand.whole:
        return None
    if option.pool.free_whole and option.pool.free_whole[0] == option.pool.devices_per_node:
        return None
    return Verdict(option.where, Reason.ISOLATION_TIER, "a node of its own", f"{option.where} has no empty node")
