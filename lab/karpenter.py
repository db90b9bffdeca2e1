"""Karpenter with its KWOK provider as a plain process beside a lab cluster.

    with Karpenter(cluster, types):
        cluster.apply(node_class(), node_pool)

Built on demand (`lab.versions`). Its machines are Node objects, which the cluster's KWOK makes Ready. `types` is the
list of instance types with prices that it may choose from, see `instance_type`. It has no flag that says where its
two ports listen: they are open on every interface, and only loopback is asked.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.build import ensure
from lab.cluster import Cluster, plain_status
from lab.kueue import CRDS, established
from lab.ports import Ports
from lab.process import Component
from lab.rest import Json

PARTS = ("karpenter", "karpenter-manifests")
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
CLASS_GROUP, CLASS_KIND = "karpenter.kwok.sh", "KWOKNodeClass"
# What the provider takes of every machine for the kubelet; fixed in its source.
RESERVED = {"cpu": "100m", "memory": "10Mi"}


class Karpenter:
    """Runs while the block lasts; its definitions stay in the cluster."""

    def __init__(self, cluster: Cluster, types: Iterable[Json]) -> None:
        self._cluster = cluster
        self._built = ensure(PARTS)
        self._ports = Ports()
        file = cluster.folder / "instance-types.json"
        file.write_text(json.dumps(list(types)))
        health = self._ports.take()
        env = {
            "KUBECONFIG": str(cluster.kubeconfig_path),
            "DISABLE_LEADER_ELECTION": "true",
            "METRICS_PORT": str(self._ports.take()),
            "HEALTH_PROBE_PORT": str(health),
            "INSTANCE_TYPES_FILE_PATH": str(file),
            "LOG_LEVEL": "info",
        }
        argv = [str(self._built["karpenter"] / "karpenter")]
        log = cluster.folder / "karpenter.log"
        self._process = Component("karpenter", argv, log, lambda: plain_status(health, "/readyz") == 200, env=env)

    def __enter__(self) -> Self:
        files = sorted(self._built["karpenter-manifests"].glob("*.yaml"))
        sources = [argument for path in files for argument in ("-f", str(path))]
        printed = self._cluster.kubectl("apply", "--server-side", "--force-conflicts", "-o", "name", *sources)
        names = {line.rpartition("/")[2] for line in printed.split()}
        self._cluster.api.until(CRDS, lambda crds: names <= established(crds), what="Karpenter's definitions")
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._ports.close()

    @property
    def log(self) -> Path:
        return self._process.log


def instance_type(name: str, resources: Mapping[str, str], offers: Iterable[Json]) -> Json:
    """One type; `offers` come from `offer`."""
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": dict(resources),
        "offerings": list(offers),
    }


def offer(price: float, labels: Mapping[str, str]) -> Json:
    """A price for machines that carry these labels; capacity type and zone are among them."""
    wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"Price": price, "Available": True, "Requirements": wanted}


def node_class(name: str = "default") -> Json:
    return {"apiVersion": f"{CLASS_GROUP}/v1alpha1", "kind": CLASS_KIND, "metadata": {"name": name}}


def node_class_reference(name: str = "default") -> Json:
    return {"group": CLASS_GROUP, "kind": CLASS_KIND, "name": name}
