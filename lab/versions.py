"""What the lab builds: families of Go modules and the artifacts taken from each.

Read by `lab.build`. The versions themselves stand in `go/<family>/go.mod`, nowhere else; a new version is a changed
go.mod and go.sum there.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

GO_DIR = Path(__file__).with_name("go")
MIB = 1 << 20
GO_AT_LEAST = (1, 26)


@dataclass(frozen=True)
class Family:
    """One tools module under `lab/go`: all of it is resolved to one set of dependency versions."""

    name: str
    module: str
    # Packages whose version variables are stamped; unstamped Kubernetes programs report no minor version,
    # and Kueue and KEDA look at it.
    stamped: tuple[str, ...] = ()
    # Build tags; Prometheus without service discovery of clouds is a third of its dependencies.
    tags: tuple[str, ...] = ()
    # With C in it; linked statically, to run inside any root.
    cgo: bool = False

    @property
    def folder(self) -> Path:
        return GO_DIR / self.name

    @property
    def version(self) -> str:
        text = (self.folder / "go.mod").read_text()
        found = re.search(rf"^(?:require)?\s+{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise LabError(f"{self.folder}/go.mod does not require {self.module}")
        return found[1]

    @property
    def ldflags(self) -> str:
        flags = ["-s", "-w", *(["-extldflags=-static"] if self.cgo else [])]
        if self.stamped:
            major, minor, _ = self.version.removeprefix("v").split(".", 2)
            values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
            values |= {"gitTreeState": "clean", "gitCommit": "unknown", "buildDate": "1970-01-01T00:00:00Z"}
            flags += [f"-X {package}.{key}={value}" for package in self.stamped for key, value in values.items()]
        return " ".join(flags)


@dataclass(frozen=True)
class Artifact:
    """One thing kept in the cache: a program, or files of a module (`files` are globs under its root).

    `package` may name several programs, separated by spaces; then the entry holds each under its own name.
    """

    name: str
    family: Family
    package: str = ""
    files: tuple[str, ...] = ()
    # Measured with cold caches on two cores; only the remaining-time estimate uses it.
    cold_s: int = 1
    # What the Go caches grow by while this is built, and what is kept afterwards.
    scratch_mib: int = 0
    kept_mib: int = 1
    # Built when something asks for it by name, not with the rest: heavy, and only few tests need it.
    on_demand: bool = False


KUBERNETES = Family(
    "kubernetes",
    "k8s.io/kubernetes",
    stamped=("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
)
ETCD = Family("etcd", "go.etcd.io/etcd/server/v3")
KWOK = Family("kwok", "sigs.k8s.io/kwok")
KUEUE = Family("kueue", "sigs.k8s.io/kueue")
KEDA = Family("keda", "github.com/kedacore/keda/v2")
KARPENTER = Family("karpenter", "sigs.k8s.io/karpenter")
HELM = Family("helm", "helm.sh/helm/v4")
PROMETHEUS = Family("prometheus", "github.com/prometheus/prometheus", tags=("remove_all_sd",))

CONTAINERD = Family(
    "containerd", "github.com/containerd/containerd/v2", tags=("no_btrfs", "no_devmapper", "no_zfs", "no_aufs")
)
RUNC = Family("runc", "github.com/opencontainers/runc", tags=("netgo", "osusergo"), cgo=True)
CNI = Family("cni", "github.com/containernetworking/plugins")


def _kubernetes(name: str, cold_s: int, scratch_mib: int, kept_mib: int) -> Artifact:
    return Artifact(
        name,
        KUBERNETES,
        package=f"k8s.io/kubernetes/cmd/{name}",
        cold_s=cold_s,
        scratch_mib=scratch_mib,
        kept_mib=kept_mib,
    )


def _prometheus(name: str, cold_s: int, scratch_mib: int, kept_mib: int) -> Artifact:
    return Artifact(
        name,
        PROMETHEUS,
        package=f"github.com/prometheus/prometheus/cmd/{name}",
        cold_s=cold_s,
        scratch_mib=scratch_mib,
        kept_mib=kept_mib,
    )


def _keda(name: str, cold_s: int, scratch_mib: int, kept_mib: int) -> Artifact:
    return Artifact(
        f"keda-{name}",
        KEDA,
        package=f"github.com/kedacore/keda/v2/cmd/{name}",
        cold_s=cold_s,
        scratch_mib=scratch_mib,
        kept_mib=kept_mib,
        on_demand=True,
    )


# In the order of building: what most tests need comes first.
ARTIFACTS: tuple[Artifact, ...] = (
    Artifact("etcd", ETCD, package=ETCD.module, cold_s=60, scratch_mib=600, kept_mib=30),
    _kubernetes("kube-apiserver", cold_s=350, scratch_mib=2500, kept_mib=110),
    _kubernetes("kubectl", cold_s=40, scratch_mib=500, kept_mib=60),
    _kubernetes("kube-controller-manager", cold_s=120, scratch_mib=800, kept_mib=100),
    _kubernetes("kube-scheduler", cold_s=20, scratch_mib=300, kept_mib=80),
    Artifact("kwok", KWOK, package="sigs.k8s.io/kwok/cmd/kwok", cold_s=140, scratch_mib=1000, kept_mib=70),
    Artifact("kueue", KUEUE, package="sigs.k8s.io/kueue/cmd/kueue", cold_s=300, scratch_mib=1800, kept_mib=100),
    Artifact(
        "kueue-manifests",
        KUEUE,
        files=("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"),
    ),
    _kubernetes("kubelet", cold_s=60, scratch_mib=400, kept_mib=90),
    Artifact(
        "containerd",
        CONTAINERD,
        package=" ".join(
            f"{CONTAINERD.module}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        cold_s=140,
        scratch_mib=900,
        kept_mib=80,
    ),
    Artifact("runc", RUNC, package=RUNC.module, cold_s=30, scratch_mib=150, kept_mib=10),
    Artifact(
        "cni",
        CNI,
        package=" ".join(f"{CNI.module}/plugins/{name}" for name in ("main/ptp", "main/loopback", "ipam/host-local")),
        cold_s=20,
        scratch_mib=100,
        kept_mib=10,
    ),
    _prometheus("prometheus", cold_s=240, scratch_mib=1500, kept_mib=110),
    _prometheus("promtool", cold_s=40, scratch_mib=300, kept_mib=100),
    Artifact(
        "karpenter",
        KARPENTER,
        package="sigs.k8s.io/karpenter/kwok",
        cold_s=240,
        scratch_mib=1200,
        kept_mib=70,
        on_demand=True,
    ),
    Artifact(
        "karpenter-manifests", KARPENTER, files=("pkg/apis/crds/*.yaml", "kwok/apis/crds/*.yaml"), on_demand=True
    ),
    Artifact(
        "helm", HELM, package="helm.sh/helm/v4/cmd/helm", cold_s=300, scratch_mib=1200, kept_mib=60, on_demand=True
    ),
    Artifact("keda-manifests", KEDA, files=("config/crd/bases/*.yaml",), on_demand=True),
    _keda("operator", cold_s=330, scratch_mib=2500, kept_mib=150),
    _keda("adapter", cold_s=70, scratch_mib=500, kept_mib=100),
)

REAL_NODE = ("kubelet", "containerd", "runc", "cni")

BY_NAME = {artifact.name: artifact for artifact in ARTIFACTS}
