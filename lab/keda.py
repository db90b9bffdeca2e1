"""KEDA as plain processes beside a lab cluster: operator, metrics adapter, definitions, certificates.

    with Keda(cluster, {"prometheus.monitoring.svc:9090": prometheus.url}) as keda:
        cluster.apply(scaled_object)

Built on demand (`lab.versions`). The admission webhook is left out: KEDA installs it to fail open, and what it would
refuse is for `dure lint` to say. The adapter's own metrics listen on every interface, for it has no flag that says
where; nothing in the lab calls them.
"""

import base64
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.build import ensure
from lab.cluster import Cluster, plain_status
from lab.components import LOOPBACK
from lab.forward import Forwarder
from lab.kueue import CRDS, established
from lab.metrics_api import available
from lab.ports import Ports
from lab.process import Component
from lab.rest import Api, Json

NAMESPACE = "keda"
SERVICE = "keda-metrics-apiserver"
GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
PARTS = ("keda-operator", "keda-adapter", "keda-manifests")


class Keda:
    """Operator and adapter, while the block lasts. `routes` says where service names lead, see `lab.forward`."""

    def __init__(self, cluster: Cluster, routes: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._built = ensure(PARTS)
        self._ports = Ports()
        self._certs = self._certificates()
        self._adapter_port = self._ports.take()
        self.forwarder = Forwarder(routes)
        grpc = f"{LOOPBACK}:{self._ports.take()}"
        self._operator = self._make_operator(grpc)
        self._adapter = self._make_adapter(grpc)

    def __enter__(self) -> Self:
        self.forwarder.__enter__()
        self._install()
        self._operator.start()
        self._adapter.start()
        self.serve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._adapter.kill()
        self._operator.kill()
        self._ports.close()
        self.forwarder.__exit__(kind, error, trace)

    @property
    def logs(self) -> tuple[Path, Path]:
        return self._operator.log, self._adapter.log

    @property
    def api(self) -> Api:
        """The adapter itself, asked by the cluster's admin."""
        return self._cluster.api_at(self._adapter_port)

    def serve(self) -> None:
        """Let the API server forward external metrics to the adapter."""
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self._adapter_port}]},
        }
        forwarded = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{VERSION}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": VERSION,
                "service": {"name": SERVICE, "namespace": NAMESPACE, "port": self._adapter_port},
                "caBundle": base64.b64encode(self._cluster.ca_path.read_bytes()).decode(),
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        }
        self._cluster.apply(service, forwarded)
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{VERSION}.{GROUP}"
        self._cluster.api.until(path, available, what="KEDA's metrics")

    def _install(self) -> None:
        files = sorted(self._built["keda-manifests"].glob("*.yaml"))
        sources = [argument for path in files for argument in ("-f", str(path))]
        printed = self._cluster.kubectl("apply", "--server-side", "-o", "name", *sources)
        names = {line.rpartition("/")[2] for line in printed.split()}
        self._cluster.api.until(CRDS, lambda crds: names <= established(crds), what="KEDA's definitions")
        self._cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *_rights())

    def _certificates(self) -> Path:
        """Operator and adapter show each other the same certificate, as server and as client."""
        pair = self._cluster.peer_pair("keda", ["localhost", LOOPBACK, f"{SERVICE}.{NAMESPACE}.svc"])
        folder = self._cluster.folder / "keda-certs"
        folder.mkdir()
        shutil.copyfile(self._cluster.ca_path, folder / "ca.crt")
        shutil.copyfile(pair.cert, folder / "tls.crt")
        shutil.copyfile(pair.key, folder / "tls.key")
        return folder

    def _environment(self) -> dict[str, str]:
        return {
            "KUBECONFIG": str(self._cluster.kubeconfig_path),
            "WATCH_NAMESPACE": "",
            "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
            "POD_NAMESPACE": NAMESPACE,
        }

    def _make_operator(self, grpc: str) -> Component:
        health = self._ports.take()
        argv = [
            str(self._built["keda-operator"] / "keda-operator"),
            f"--metrics-bind-address={LOOPBACK}:{self._ports.take()}",
            f"--health-probe-bind-address={LOOPBACK}:{health}",
            f"--metrics-service-bind-address={grpc}",
            f"--cert-dir={self._certs}",
            "--zap-log-level=info",
        ]
        # Its 3 s for an answer of Prometheus are over too soon on a machine with more to do than cores.
        env = {**self._environment(), "HTTP_PROXY": self.forwarder.url, "KEDA_HTTP_DEFAULT_TIMEOUT": "20000"}
        log = self._cluster.folder / "keda-operator.log"
        return Component("keda-operator", argv, log, lambda: plain_status(health, "/readyz") == 200, env=env)

    def _make_adapter(self, grpc: str) -> Component:
        config = self._cluster.kubeconfig_path
        argv = [
            str(self._built["keda-adapter"] / "keda-adapter"),
            f"--secure-port={self._adapter_port}",
            f"--bind-address={LOOPBACK}",
            f"--port={self._ports.take()}",
            f"--cert-dir={self._certs}",
            f"--tls-cert-file={self._certs / 'tls.crt'}",
            f"--tls-private-key-file={self._certs / 'tls.key'}",
            f"--metrics-service-address={grpc}",
            f"--lister-kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
        ]

        def ready() -> bool:
            return self.api.raw("GET", "/readyz")[0] == 200

        log = self._cluster.folder / "keda-adapter.log"
        return Component("keda-adapter", argv, log, ready, env=self._environment())


def _rights() -> list[Json]:
    """The autoscaler may read external metrics; KEDA itself runs as the lab's admin."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "lab-external-metrics"},
        "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get", "list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "lab-external-metrics"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lab-external-metrics"},
        "subjects": [
            {"kind": "ServiceAccount", "name": "horizontal-pod-autoscaler", "namespace": "kube-system"},
        ],
    }
    return [role, binding]
