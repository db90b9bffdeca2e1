"""A namespace for each tenant with quota, defaults, rights, a closed network, and its queue in Kueue.

Kueue keeps the quota that may be borrowed; the ResourceQuota is the last wall, so that for a tenant that may borrow
it is as wide as the cluster.
"""

from __future__ import annotations

from dure.manifest.document import Json
from dure.manifest.render.setting import CLASS, ISOLATION, MONITORING, TENANT, Setting, made
from dure.manifest.render.vcluster import VCLUSTER, vcluster_values
from dure.model.tenant import Isolation, Role, Tenant

_KUEUE = "kueue.x-k8s.io/v1beta2"
_COHORT = "dure"
# Kubernetes' own roles: what they may do is known to everybody who runs a cluster.
_ROLES = {Role.VIEWER: "view", Role.SUBMITTER: "edit", Role.OPERATOR: "edit", Role.ADMIN: "admin"}


def tenant_objects(setting: Setting) -> list[Json]:
    if not setting.tenants:
        return []
    flavors = [made(_KUEUE, "ResourceFlavor", name, spec={"nodeLabels": {CLASS: name}}) for name in _classes(setting)]
    return [*flavors, *(each for tenant in setting.tenants for each in _tenant(setting, tenant))]


def namespace_of(tenant: Tenant) -> str:
    return f"dure-{tenant.name}"


def namespace_object(tenant: Tenant) -> Json:
    """Marked with the tenant's tier: who serves virtual clusters looks for the mark."""
    labels = {TENANT: tenant.name, "pod-security.kubernetes.io/enforce": "baseline"}
    if tenant.isolation is Isolation.OWN_CLUSTER:
        labels[ISOLATION] = tenant.isolation.value
    return made("v1", "Namespace", namespace_of(tenant), labels=labels)


def _tenant(setting: Setting, tenant: Tenant) -> list[Json]:
    namespace, labels = namespace_of(tenant), {TENANT: tenant.name}
    objects = [
        namespace_object(tenant),
        made("v1", "ResourceQuota", "dure", namespace, labels, spec={"hard": _hard(setting, tenant)}),
        made("v1", "LimitRange", "dure", namespace, labels, spec={"limits": [_defaults()]}),
        *_network(namespace, labels),
        *_entry(tenant, namespace, labels),
    ]
    if groups := _groups(setting, tenant):
        queue = {"cohortName": _COHORT, "namespaceSelector": {"matchLabels": labels}, "resourceGroups": groups}
        objects.append(made(_KUEUE, "ClusterQueue", namespace, labels=labels, spec=queue))
        objects.append(made(_KUEUE, "LocalQueue", "dure", namespace, labels, spec={"clusterQueue": namespace}))
    return objects


def _classes(setting: Setting) -> list[str]:
    return sorted({pool.class_name for pool in setting.cluster.pools if setting.resource(pool.class_name)})


def _most(setting: Setting, class_name: str) -> int:
    """Devices of a class that the cluster can have."""
    pools = [pool for pool in setting.cluster.pools if pool.class_name == class_name]
    return sum(max(pool.nodes, pool.nodes_max) * pool.devices for pool in pools)


def _hard(setting: Setting, tenant: Tenant) -> dict[str, str]:
    hard = {"pods": "500", "services.loadbalancers": "0", "services.nodeports": "0"}
    devices: dict[str, int] = {}
    for name in _classes(setting):
        most = _most(setting, name)
        own = most if tenant.borrow else min(most, tenant.quota.get(name, 0))
        resource = setting.resource(name)
        devices[resource] = devices.get(resource, 0) + own
    return hard | {f"requests.{resource}": str(amount) for resource, amount in sorted(devices.items())}


def _defaults() -> Json:
    return {
        "type": "Container",
        "defaultRequest": {"cpu": "100m", "memory": "256Mi"},
        "default": {"memory": "1Gi"},
    }


def _network(namespace: str, labels: dict[str, str]) -> list[Json]:
    """Only the tenant's own pods and the scraper come in."""
    scraper = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": MONITORING}}}
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}, scraper]}]}
    return [made("networking.k8s.io/v1", "NetworkPolicy", "own-and-monitoring", namespace, labels, spec=spec)]


def _entry(tenant: Tenant, namespace: str, labels: dict[str, str]) -> list[Json]:
    """Rights in the namespace; a tenant with a virtual cluster has its rights there and none here."""
    if tenant.isolation is not Isolation.OWN_CLUSTER:
        return _bindings(tenant, namespace, labels)
    return [made("v1", "ConfigMap", VCLUSTER, namespace, labels, data={"values.yaml": vcluster_values(tenant)})]


def _bindings(tenant: Tenant, namespace: str, labels: dict[str, str]) -> list[Json]:
    api = "rbac.authorization.k8s.io"
    by_role: dict[str, list[str]] = {}
    for person, role in sorted(tenant.roles.items()):
        by_role.setdefault(_ROLES[role], []).append(person)
    return [
        made(
            f"{api}/v1", "RoleBinding", f"dure-{role}", namespace, labels,
            roleRef={"apiGroup": api, "kind": "ClusterRole", "name": role},
            subjects=[{"apiGroup": api, "kind": "User", "name": person} for person in people],
        )
        for role, people in sorted(by_role.items())
    ]  # fmt: skip


def _groups(setting: Setting, tenant: Tenant) -> list[Json]:
    """One resource group for each resource name, with a flavor for each class that has it."""
    flavors: dict[str, list[Json]] = {}
    for name in _classes(setting):
        resource = setting.resource(name)
        quota: Json = {"name": resource, "nominalQuota": min(tenant.quota.get(name, 0), _most(setting, name))}
        if not tenant.borrow:
            quota["borrowingLimit"] = 0
        flavors.setdefault(resource, []).append({"name": name, "resources": [quota]})
    return [{"coveredResources": [resource], "flavors": each} for resource, each in sorted(flavors.items())]
