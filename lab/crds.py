"""Custom resource definitions of Karpenter, KEDA, Kueue and the Prometheus operator, from their published Go modules.

Only for tests: definitions are read from the module cache (fetched and verified by Go), applied to a lab cluster, and
never kept in the project. No controller is started; the API server's schema and CEL rules are the judges. Beside them
the schema of the values of vcluster's chart.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.build import ensure
from lab.cluster import Cluster
from lab.errors import LabError
from lab.kueue import CRDS, established


@dataclass(frozen=True)
class Definitions:
    module: str
    version: str
    files: tuple[str, ...]


MODULES = (
    Definitions("github.com/aws/karpenter-provider-aws", "v1.14.1", ("pkg/apis/crds/karpenter*.yaml",)),
    Definitions("github.com/kedacore/keda/v2", "v2.20.2", ("config/crd/bases/keda.sh_*.yaml",)),
    Definitions(
        "github.com/prometheus-operator/prometheus-operator",
        "v0.93.0",
        tuple(
            f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
            for kind in ("podmonitors", "prometheusrules", "servicemonitors")
        ),
    ),
)


# Its chart says in a schema which values it takes.
VCLUSTER = Definitions("github.com/loft-sh/vcluster", "v0.34.0", ("chart/values.schema.json",))


def vcluster_schema() -> Path:
    """The closed schema of the values of vcluster's chart."""
    return _module(VCLUSTER) / VCLUSTER.files[0]


def crd_files() -> list[Path]:
    """Every definition, sorted; Kueue's come from the lab's own cache."""
    found = [path for each in MODULES for files in each.files for path in sorted(_module(each).glob(files))]
    kueue = ensure(["kueue-manifests"])["kueue-manifests"]
    return [*found, *sorted(kueue.glob("kueue.x-k8s.io_*.yaml"))]


def install_crds(cluster: Cluster) -> list[str]:
    """Apply them and wait until the API server serves them all."""
    sources = [argument for path in crd_files() for argument in ("-f", str(path))]
    printed = cluster.kubectl("apply", "--server-side", "-o", "name", *sources)
    names = {line.rpartition("/")[2] for line in printed.split()}
    cluster.api.until(CRDS, lambda crds: names <= established(crds), what="custom resource definitions")
    return sorted(names)


def _module(wanted: Definitions) -> Path:
    command = ["go", "mod", "download", "-json", f"{wanted.module}@{wanted.version}"]
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment)
    if done.returncode != 0:
        raise LabError(
            f"{wanted.module} {wanted.version} cannot be fetched: {done.stderr.strip() or done.stdout.strip()}"
        )
    return Path(json.loads(done.stdout)["Dir"])
