"""Kueue as a plain process beside a lab cluster: CRDs, configuration, certificates, webhooks on loopback.

Used by `lab.cluster`. Only the integration `batch/job` is on; webhooks of kinds that are not installed are left out,
because they all fail closed. The visibility API is off: its certificate folder is fixed at the file system's root.
"""

import base64
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.components import LOOPBACK
from lab.errors import LabError
from lab.pki import Authority, KeyPair
from lab.rest import Api, Json

NAMESPACE = "kueue-system"
GROUPS = frozenset({"kueue.x-k8s.io", "batch"})
WEBHOOKS = "manifests.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Kueue opens a certificate here whenever it does not manage its own, even with metrics off; the path is fixed.
METRICS_CERTS = Path("/etc/kueue/metrics/certs")


@dataclass(frozen=True)
class KueueFiles:
    """What one Kueue needs on disk, and what has to be applied before it starts."""

    config: Path
    crds: tuple[Path, ...]
    webhooks: Path


def prepare_kueue(
    folder: Path, manifests: Path, authority: Authority, webhook_port: int, health_port: int
) -> KueueFiles:
    """Write configuration, certificates and webhook objects into the cluster's folder."""
    pair = authority.server("kueue-webhook", [LOOPBACK])
    certs = folder / "kueue-certs"
    _place(pair, certs)
    _place_metrics_certificate(pair)
    config = folder / "kueue.yaml"
    config.write_text(yaml.safe_dump(configuration(certs, webhook_port, health_port)))
    webhooks = folder / "kueue-webhooks.yaml"
    objects = yaml.safe_load_all((manifests / WEBHOOKS).read_text())
    ca = base64.b64encode(authority.cert.read_bytes()).decode()
    local = [local_webhooks(item, f"https://{LOOPBACK}:{webhook_port}", ca) for item in objects if item]
    webhooks.write_text(yaml.safe_dump_all(local))
    crds = tuple(path for path in sorted(manifests.glob("*.yaml")) if path.name != WEBHOOKS)
    return KueueFiles(config, crds, webhooks)


def kueue_argv(binary: Path, files: KueueFiles, kubeconfig: Path) -> list[str]:
    return [str(binary), f"--config={files.config}", f"--kubeconfig={kubeconfig}", "--zap-log-level=2"]


def install_kueue(kubectl: Callable[..., str], api: Api, files: KueueFiles) -> None:
    """Apply CRDs and webhooks; return once every CRD is Established, for Kueue exits at once otherwise."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(namespace))
    sources = [argument for path in files.crds for argument in ("-f", str(path))]
    kubectl("apply", "--server-side", *sources)
    names = {yaml.safe_load(path.read_text())["metadata"]["name"] for path in files.crds}
    api.until(CRDS, lambda crds: names <= established(crds), what="Kueue's CRDs")
    kubectl("apply", "--server-side", "-f", str(files.webhooks))


def configuration(certs: Path, webhook_port: int, health_port: int) -> Json:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": webhook_port, "certDir": str(certs)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 1000, "burst": 2000},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False},
    }


def local_webhooks(configuration: Json, base_url: str, ca: str) -> Json:
    """The published webhook configuration, calling a loopback address, for installed kinds only."""
    kept = [hook for hook in configuration["webhooks"] if _groups(hook) <= GROUPS]
    for hook in kept:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": base_url + path, "caBundle": ca}
    name = "kueue-" + configuration["metadata"]["name"]
    return {**configuration, "metadata": {"name": name}, "webhooks": kept}


def established(crds: Json) -> set[str]:
    """Names of the CRDs of a list that the API server already serves."""
    return {
        crd["metadata"]["name"]
        for crd in crds["items"]
        for condition in crd.get("status", {}).get("conditions") or ()
        if condition["type"] == "Established" and condition["status"] == "True"
    }


def _groups(hook: Json) -> frozenset[str]:
    return frozenset(group for rule in hook["rules"] for group in rule["apiGroups"])


def _place(pair: KeyPair, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(pair.cert, folder / "tls.crt")
    shutil.copyfile(pair.key, folder / "tls.key")


def _place_metrics_certificate(pair: KeyPair) -> None:
    """Any pair will do, since nothing is served with it: one that is there is left alone."""
    if (METRICS_CERTS / "tls.crt").exists() and (METRICS_CERTS / "tls.key").exists():
        return
    try:
        _place(pair, METRICS_CERTS)
    except OSError as error:
        raise LabError(
            f"Kueue reads a certificate from {METRICS_CERTS}, which cannot be written here ({error}); "
            "run once as root, or create that folder with any tls.crt and tls.key"
        ) from error
