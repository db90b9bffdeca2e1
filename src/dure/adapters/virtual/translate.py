"""One object of a virtual cluster as the host cluster gets it, and a host pod's status as the tenant sees it. Pure.

Nothing that a tenant writes may name anything of the host: service accounts, nodes, priority classes and other
people's objects are left out, references to config maps, secrets and volume claims lead to the tenant's own copies.
What a pod may do to its node is for the host's own admission to judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

from dure.adapters.kube.names import GROUP, TENANT
from dure.adapters.virtual.names import NAME, NAMESPACE, UID, host_name

Json = dict[str, Any]
Network = IPv4Network | IPv6Network
# Names of the host, or what only its own controllers may say.
_NOT_DOWN = (
    "nodeName", "serviceAccount", "serviceAccountName", "priority", "priorityClassName", "preemptionPolicy",
    "ephemeralContainers", "schedulingGates",
)  # fmt: skip
# The host's defaults may put the pod into another class; the field never changes in a server's eyes.
_NOT_UP = ("qosClass", "nominatedNodeName", "resize", "observedGeneration")
_OF_POD = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace"),
           "metadata.uid": ("metadata", "uid")}  # fmt: skip
_SERVICE_KEYS = ("type", "ports", "externalName", "sessionAffinity", "publishNotReadyAddresses")


def origin(host: Json) -> tuple[str, str, str]:
    """Namespace, name and uid that a host object stands for."""
    found = host["metadata"].get("annotations", {})
    return found.get(NAMESPACE, ""), found.get(NAME, ""), found.get(UID, "")


def pod_down(pod: Json, tenant: str, aliases: Sequence[Json] = ()) -> Json:
    """`aliases`: addresses of services that it may call by name, see `service_names`."""
    metadata, spec = pod["metadata"], pod["spec"]
    names = _Names(metadata["namespace"])
    made = {key: value for key, value in spec.items() if key not in _NOT_DOWN}
    made["volumes"] = [names.volume(one, metadata["name"]) for one in spec.get("volumes", ()) if not _is_token(one)]
    for part in ("initContainers", "containers"):
        if part in spec:
            made[part] = [_container(one, pod, names) for one in spec[part]]
    made["imagePullSecrets"] = [{"name": names.of(one["name"])} for one in spec.get("imagePullSecrets", ())]
    made |= {"automountServiceAccountToken": False, "enableServiceLinks": False}
    made.setdefault("hostname", metadata["name"].replace(".", "-")[:63].rstrip("-"))
    if aliases and not spec.get("hostNetwork"):
        # What the tenant itself has written comes first, and so wins.
        made["hostAliases"] = [*spec.get("hostAliases", ()), *aliases]
    return {**head(pod, "v1", "Pod", tenant), "spec": made}


def pod_obstacle(pod: Json) -> str:
    """Why a pod cannot be carried to the host; empty when it can."""
    if pod["spec"].get("resourceClaims"):
        return "resource claims are not synced: ask for devices by resource name"
    return ""


def references(pod: Json) -> Iterator[tuple[str, str]]:
    """Kind (plural) and name of the config maps and secrets that a pod needs."""
    spec = pod["spec"]
    for volume in spec.get("volumes", ()):
        if _is_token(volume):
            continue
        yield from _named(volume, "secretName")
        for source in volume.get("projected", {}).get("sources", ()):
            yield from _named(source, "name")
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        for source in container.get("envFrom", ()):
            yield from _referred(source, "configMapRef", "secretRef")
        for variable in container.get("env", ()):
            yield from _referred(variable.get("valueFrom", {}), "configMapKeyRef", "secretKeyRef")
    for one in spec.get("imagePullSecrets", ()):
        yield "secrets", one["name"]


def service_down(service: Json, tenant: str, ranges: Sequence[Network] = ()) -> Json:
    """It selects the pods of its own virtual namespace alone.

    Its address is kept where the host has that range (`ranges`), so that it is the same on both sides; otherwise the
    host gives one.
    """
    spec = service["spec"]
    made = {key: spec[key] for key in _SERVICE_KEYS if key in spec}
    made["ports"] = [
        {key: value for key, value in port.items() if key != "nodePort"} for port in spec.get("ports", ())
    ]
    if spec.get("selector"):
        made["selector"] = {**spec["selector"], NAMESPACE: service["metadata"]["namespace"]}
    address = spec.get("clusterIP", "")
    if address == "None" or (address and any(ip_address(address) in one for one in ranges)):
        made["clusterIP"] = address
    return {**head(service, "v1", "Service", tenant), "spec": made}


def fixed(host: Json, wanted: Json) -> bool:
    """Whether the host object can never become what is wanted: the address of a service is given once."""
    address = wanted.get("spec", {}).get("clusterIP")
    return address is not None and host.get("spec", {}).get("clusterIP") != address


def data_down(found: Json, kind: str, tenant: str) -> Json:
    """A ConfigMap or Secret; a token's Secret is an ordinary one in the host."""
    made = head(found, "v1", kind, tenant)
    for key in ("data", "binaryData"):
        if key in found:
            made[key] = found[key]
    if kind == "Secret":
        given = found.get("type", "Opaque")
        made["type"] = "Opaque" if given == "kubernetes.io/service-account-token" else given
    return made


def status_up(host: Json) -> Json:
    return {key: value for key, value in host.get("status", {}).items() if key not in _NOT_UP}


def node_up(host: Json, kubelet: tuple[str, int]) -> tuple[Json, Json]:
    """A node as a tenant sees it (name, labels, size), and its status; nothing of who else is on it.

    `kubelet` is where the virtual API server asks for logs; the node's own addresses are not the tenant's business.
    """
    metadata = host["metadata"]
    status = host.get("status", {})
    shown = {key: status[key] for key in ("capacity", "allocatable", "conditions", "nodeInfo") if key in status}
    address, port = kubelet
    shown["addresses"] = [{"type": "InternalIP", "address": address}]
    shown["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    labels = {key: value for key, value in metadata.get("labels", {}).items() if not key.startswith(f"{GROUP}/")}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": metadata["name"], "labels": labels}}, shown


def head(found: Json, version: str, kind: str, tenant: str) -> Json:
    """Name and origin in the host. Labels stay, for selectors; none may pretend to be Dure's."""
    metadata = found["metadata"]
    own = {key: value for key, value in metadata.get("labels", {}).items() if not key.startswith(f"{GROUP}/")}
    notes = {key: value for key, value in metadata.get("annotations", {}).items() if not key.startswith(f"{GROUP}/")}
    notes.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    namespace, name = metadata["namespace"], metadata["name"]
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": host_name(namespace, name),
            "labels": {**own, TENANT: tenant, NAMESPACE: namespace},
            "annotations": {**notes, NAMESPACE: namespace, NAME: name, UID: metadata["uid"]},
        },
    }


class _Names:
    """References of one virtual namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def of(self, name: str) -> str:
        return host_name(self._namespace, name)

    def volume(self, volume: Json, pod: str) -> Json:
        made = self._source(volume, "secretName")
        if "persistentVolumeClaim" in made:
            claim = made["persistentVolumeClaim"]
            made["persistentVolumeClaim"] = {**claim, "claimName": self.of(claim["claimName"])}
        if made.pop("ephemeral", None) is not None:
            # Its claim is made by the virtual cluster's own controller, under this name, and carried like any other.
            made["persistentVolumeClaim"] = {"claimName": self.of(f"{pod}-{volume['name']}")}
        if "projected" in made:
            kept = [one for one in made["projected"].get("sources", ()) if not _is_identity(one)]
            made["projected"] = {**made["projected"], "sources": [self._source(one, "name") for one in kept]}
        return made

    def variable(self, variable: Json, pod: Json) -> Json:
        given = variable.get("valueFrom", {})
        path = _OF_POD.get(given.get("fieldRef", {}).get("fieldPath", ""))
        if path is not None:
            return {"name": variable["name"], "value": pod[path[0]][path[1]]}
        renamed = {
            key: self._renamed(value) if key in ("configMapKeyRef", "secretKeyRef") else value
            for key, value in given.items()
        }
        return {**variable, "valueFrom": renamed} if renamed else variable

    def environment(self, source: Json) -> Json:
        return {
            key: self._renamed(value) if key in ("configMapRef", "secretRef") else value
            for key, value in source.items()
        }

    def _source(self, found: Json, secret_key: str) -> Json:
        made = dict(found)
        if "configMap" in made:
            made["configMap"] = self._renamed(made["configMap"])
        if "secret" in made:
            made["secret"] = {**made["secret"], secret_key: self.of(made["secret"][secret_key])}
        return made

    def _renamed(self, reference: Json) -> Json:
        return {**reference, "name": self.of(reference["name"])}


def _container(container: Json, pod: Json, names: _Names) -> Json:
    made = dict(container)
    tokens = {one["name"] for one in pod["spec"].get("volumes", ()) if _is_token(one)}
    made["volumeMounts"] = [one for one in container.get("volumeMounts", ()) if one["name"] not in tokens]
    made["env"] = [names.variable(one, pod) for one in container.get("env", ())]
    made["envFrom"] = [names.environment(one) for one in container.get("envFrom", ())]
    return made


def _is_token(volume: Json) -> bool:
    """What the virtual API server itself puts into every pod: a token of it, which the host knows nothing about."""
    return str(volume.get("name", "")).startswith("kube-api-access-") and "projected" in volume


def _is_identity(source: Json) -> bool:
    """Only the host could fill it, and would with an identity of its own."""
    return any(key in source for key in ("serviceAccountToken", "clusterTrustBundle", "podCertificate"))


def _named(found: Json, secret_key: str) -> Iterator[tuple[str, str]]:
    if "configMap" in found:
        yield "configmaps", found["configMap"]["name"]
    if "secret" in found:
        yield "secrets", found["secret"][secret_key]


def _referred(found: Json, of_map: str, of_secret: str) -> Iterator[tuple[str, str]]:
    if of_map in found:
        yield "configmaps", found[of_map]["name"]
    if of_secret in found:
        yield "secrets", found[of_secret]["name"]
