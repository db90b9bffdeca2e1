"""NodePools and the node class for pools that are rented: one kind of device and one capacity type in each."""

from __future__ import annotations

from dure.manifest.document import Json
from dure.manifest.pods import CAPACITY_TYPE
from dure.manifest.pool import FAMILY, GPU_COUNT, TYPE
from dure.manifest.render.setting import CLASS, POOL, Setting, made
from dure.manifest.rule import IGNORE
from dure.model.fleet import PoolSpec
from dure.model.tariff import Capacity

_OFFICE_H = 9
_GROUP = "karpenter.k8s.aws"


def node_objects(setting: Setting) -> list[Json]:
    rented = setting.rented
    if not rented:
        return []
    return [node_class(setting), *(node_pool(setting, pool, capacity) for pool, capacity in rented)]


def node_class(setting: Setting) -> Json:
    found = [{"tags": {"karpenter.sh/discovery": setting.tag}}]
    root = {"volumeType": "gp3", "volumeSize": "100Gi", "encrypted": True, "deleteOnTermination": True}
    spec = {
        "role": f"KarpenterNodeRole-{setting.tag}",
        "amiSelectorTerms": [{"alias": setting.ami}],
        "subnetSelectorTerms": found,
        "securityGroupSelectorTerms": found,
        "instanceStorePolicy": "RAID0",
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": root}],
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
    }
    return made(f"{_GROUP}/v1", "EC2NodeClass", "dure-accelerated", spec=spec)


def node_pool(setting: Setting, pool: PoolSpec, capacity: Capacity) -> Json:
    resource = setting.resource(pool.class_name)
    spot = capacity is Capacity.SPOT
    taints = [{"key": resource, "value": "present", "effect": "NoSchedule"}] if resource else []
    if spot:
        taints.append({"key": CAPACITY_TYPE, "value": "spot", "effect": "NoSchedule"})
    labels = {POOL: pool.name, CLASS: pool.class_name}
    if resource == "nvidia.com/gpu":
        # What GPU feature discovery would set later; agents that select it must not wait for that.
        labels["nvidia.com/gpu.present"] = "true"
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "nodeClassRef": {"group": _GROUP, "kind": "EC2NodeClass", "name": "dure-accelerated"},
            "requirements": requirements(setting, pool, spot),
            "taints": taints,
            "expireAfter": "Never",
            "terminationGracePeriod": "10m" if spot else "1h",
        },
    }
    most = max(pool.nodes_max, pool.nodes) * pool.devices
    spec: Json = {
        "weight": 100 if spot else 50,
        "template": template,
        "limits": {resource: most} if resource else {"nodes": max(pool.nodes_max, pool.nodes)},
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "10m",
            "budgets": [{"nodes": "1"}, office_hours(setting)],
        },
    }
    zone = setting.cluster.info.timezone
    document = made("karpenter.sh/v1", "NodePool", pool.name, spec=spec)
    document["metadata"]["annotations"] = {"dure.dev/timezone": zone}
    if spot and TYPE in pool.selector:
        # Whoever wrote the fleet wants this one type, and is told so by the trap's number.
        document["metadata"]["annotations"][IGNORE] = "DURE030"
    return document


def requirements(setting: Setting, pool: PoolSpec, spot: bool) -> list[Json]:
    """Families that hold exactly this class; any number of devices in a node that divides the pool's."""
    offers = [offer for offer in setting.offers if offer.class_name == pool.class_name]
    wanted: list[Json] = [_in(CAPACITY_TYPE, ["spot" if spot else "on-demand"]), _in("kubernetes.io/arch", ["amd64"])]
    if offers:
        wanted.append(_in(FAMILY, sorted({offer.family for offer in offers})))
        counts = sorted({offer.devices for offer in offers if offer.devices == pool.devices})
        if counts:
            wanted.append(_in(GPU_COUNT, [str(count) for count in counts]))
    wanted += [_in(key, [value]) for key, value in sorted(pool.selector.items()) if key != POOL]
    if pool.zones:
        wanted.append(_in("topology.kubernetes.io/zone", sorted(pool.zones)))
    return wanted


def office_hours(setting: Setting) -> Json:
    """No node that still runs something is taken away from 09:00 to 18:00 where the cluster is, written in UTC."""
    day, hour = divmod(setting.office_start_utc_h, 24)
    days = f"{1 + day}-{5 + day}"
    return {
        "nodes": "0",
        "reasons": ["Underutilized", "Drifted"],
        "schedule": f"0 {hour} * * {days}",
        "duration": f"{_OFFICE_H}h",
    }


def _in(key: str, values: list[str]) -> Json:
    return {"key": key, "operator": "In", "values": values}
