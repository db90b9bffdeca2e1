"""A lab: several real clusters on one etcd, gone without a trace when the block ends.

    with Lab(clusters=["hub", "a", "b"], kueue={"hub"}) as lab:
        lab["a"].add_nodes(Path("nodes.yaml"))
        lab["a"].kubectl("get", "nodes")

Used by `lab.fixtures`, by benchmarks and by `python -m lab up`. Building what is missing is part of entering. When
the block ends with an error the folder with all logs is kept and named.
"""

import atexit
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import cgroups, components
from lab.build import ensure
from lab.cluster import APISERVER, ETCD, KUEUE, OPTIONAL, Cluster, plain_status
from lab.errors import LabError
from lab.node import why_no_real_node
from lab.ports import Ports
from lab.process import Component
from lab.progress import say
from lab.versions import REAL_NODE

PREFIX = "dure-lab-run-"
# Artifacts of which several files are used.
FOLDERS = ("kueue-manifests", "containerd", "cni")
# Folders with logs of failed or killed labs are of interest for that long.
KEPT_S = 2 * 24 * 3600


class Lab:
    """A mapping from cluster names to clusters, once entered."""

    def __init__(
        self,
        clusters: Iterable[str] = ("hub",),
        *,
        kueue: Collection[str] = (),
        off: Mapping[str, Collection[str]] | None = None,
        default_run_s: float = 1.0,
        audit: Mapping[str, str] | None = None,
        flags: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        real_nodes: Mapping[str, int] | None = None,
        first: Callable[[Cluster], None] | None = None,
        folder: Path | None = None,
        keep: bool = False,
    ) -> None:
        """`off` names programs a cluster goes without, e.g. `{"a": {"kube-scheduler"}}`.

        `default_run_s` is how long Job pods run that do not say; `audit` names the user of a cluster whose requests
        are recorded; `flags` gives programs of a cluster other arguments, e.g.
        `{"a": {"kube-controller-manager": ["--horizontal-pod-autoscaler-sync-period=1s"]}}`; `real_nodes` says how
        many real nodes a cluster has (root only), e.g. `{"a": 1}`; `first` is done on each cluster before any
        controller runs: one that looks for new kinds every half minute finds those of `first` at once; `folder` a
        new folder to use instead of a temporary one; `keep` leaves it behind even after success.
        """
        self.keep = keep
        self._names = tuple(clusters)
        self._programs = {name: _programs(name, kueue, off or {}) for name in self._names}
        self._default_run_s = default_run_s
        self._audit = audit or {}
        self._flags = flags or {}
        self._real_nodes = real_nodes or {}
        self._first = first
        self._folder = folder
        self._ports = Ports()
        self._etcd: Component | None = None
        self._etcd_port = 0
        self._clusters: dict[str, Cluster] = {}
        told = set(kueue) | set(off or {}) | set(self._audit) | set(self._flags) | set(self._real_nodes)
        if unknown := told - set(self._names):
            raise LabError(f"no cluster {', '.join(sorted(unknown))} in this lab; it has {', '.join(self._names)}")

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise LabError("the lab is not started; use `with Lab(...) as lab`")
        return self._folder

    @property
    def etcd(self) -> Component:
        """The etcd all clusters share."""
        if self._etcd is None:
            raise LabError("the lab is not started; use `with Lab(...) as lab`")
        return self._etcd

    @property
    def etcd_url(self) -> str:
        """For programs that keep something of their own in it, under another prefix."""
        return f"http://{components.LOOPBACK}:{self._etcd_port}"

    def __getitem__(self, name: str) -> Cluster:
        if name not in self._clusters:
            raise LabError(f"no cluster {name} in this lab; it has {', '.join(self._clusters) or 'none yet'}")
        return self._clusters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._clusters)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop(failed=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(failed=kind is not None)

    def start(self) -> None:
        """Build what is missing, start etcd, then all API servers side by side, then the rest."""
        if any(self._real_nodes.values()) and (problem := why_no_real_node()):
            raise LabError(f"this lab cannot have its real nodes: {problem}")
        binaries = self._binaries()
        if self._folder is None:
            _sweep()
            cgroups.sweep()
            self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.folder.mkdir(parents=True, exist_ok=True)
        atexit.register(self._stop_late)
        port = self._etcd_port = self._ports.take()
        self._etcd = self._make_etcd(binaries["etcd"], port)
        self._etcd.start()
        for name in self._names:
            self._clusters[name] = Cluster(
                name,
                self.folder / name,
                binaries,
                (self._etcd, port),
                self._ports,
                programs=self._programs[name],
                default_run_s=self._default_run_s,
                audit=self._audit.get(name, ""),
                flags=self._flags.get(name),
                real_nodes=self._real_nodes.get(name, 0),
            )
        for cluster in self._clusters.values():
            cluster.start_api()
        for cluster in self._clusters.values():
            cluster.start_rest(self._first)

    def stop(self, *, failed: bool = False) -> None:
        """Kill every process; remove the folder unless it is to be kept. Calling it again does nothing."""
        for cluster in self._clusters.values():
            cluster.end()
        if self._etcd is not None:
            self._etcd.kill()
        self._ports.close()
        atexit.unregister(self._stop_late)
        if self._folder is None or not self._folder.exists():
            return
        if failed or self.keep:
            say(f"lab: logs are kept in {self._folder}")
        else:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _stop_late(self) -> None:
        # The interpreter ends and nobody left the block: something went wrong.
        self.stop(failed=True)

    def _binaries(self) -> dict[str, Path]:
        names = {ETCD, APISERVER, "kubectl"}.union(*self._programs.values())
        if KUEUE in names:
            names.add("kueue-manifests")
        if any(self._real_nodes.values()):
            names.update(REAL_NODE)
        found = ensure(names)
        return {name: entry if name in FOLDERS else entry / name for name, entry in found.items()}

    def _make_etcd(self, binary: Path, port: int) -> Component:
        argv = components.etcd(binary, self.folder / "etcd", port, self._ports.take())
        log = self.folder / "etcd.log"
        return Component(ETCD, argv, log, lambda: plain_status(port, "/health") == 200)


def _programs(name: str, kueue: Collection[str], off: Mapping[str, Collection[str]]) -> frozenset[str]:
    unwanted = set(off.get(name, ()))
    if unknown := unwanted - set(OPTIONAL):
        raise LabError(f"{', '.join(sorted(unknown))} cannot be left out; only {', '.join(OPTIONAL)} can")
    return frozenset(set(OPTIONAL) - unwanted | ({KUEUE} if name in kueue else set()))


def _sweep() -> None:
    """Remove what labs that failed or were killed left behind some days ago."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if time.time() - folder.stat().st_mtime > KEPT_S:
            shutil.rmtree(folder, ignore_errors=True)
