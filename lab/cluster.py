"""One real Kubernetes cluster of plain processes on loopback.

Made by `lab.lab.Lab`, used by tests. Its state lives in the lab's etcd under a prefix of its own, its components can
be killed and started again by name at any time, and ports and data stay the same over restarts.
"""

import http.client
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import yaml

from lab import components, kubeconfig
from lab.components import LOOPBACK, ClusterFiles
from lab.errors import ComponentFailed, LabError
from lab.kueue import KueueFiles, install_kueue, kueue_argv, prepare_kueue
from lab.node import PARTS, NodeFiles, RealNode
from lab.nodes import node_groups
from lab.pki import Authority, KeyPair, signing_key
from lab.ports import Ports
from lab.process import Component
from lab.rest import Api, Json
from lab.stages import GROUP, Switch, kwok_config

APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
KUEUE = "kueue"
ETCD = "etcd"
OPTIONAL = (CONTROLLER_MANAGER, SCHEDULER, KWOK)


class Cluster:
    """`kubeconfig_path`, `kubectl`, `api`, `add_nodes`, `kill` and `start` are what tests use."""

    def __init__(
        self,
        name: str,
        folder: Path,
        binaries: Mapping[str, Path],
        etcd: tuple[Component, int],
        ports: Ports,
        *,
        programs: Collection[str] = OPTIONAL,
        default_run_s: float = 1.0,
        audit: str = "",
        flags: Mapping[str, Sequence[str]] | None = None,
        real_nodes: int = 0,
    ) -> None:
        """`audit` names a user whose every request is written to `audit_log`; `flags` change programs' arguments."""
        self.name = name
        self.folder = folder
        folder.mkdir(parents=True)
        self._binaries = binaries
        self._default_run_s = default_run_s
        self._switches: list[Switch] = []
        self._audit = audit
        self._flags = flags or {}
        self._has_real = real_nodes > 0
        self.audit_log = folder / "audit.jsonl"
        self._port = ports.take()
        self.server = f"https://{LOOPBACK}:{self._port}"
        self._authority = Authority(folder / "pki", f"{name}-ca")
        self._files = self._make_files()
        self._admin = self._authority.client("admin", "admin", ["system:masters"])
        self.kubeconfig_path = self._kubeconfig("admin", self._admin)
        self.ca_path = self._files.ca
        self.api = self.api_at(self._port)
        self._parts: dict[str, Component] = {ETCD: etcd[0], APISERVER: self._apiserver(etcd[1])}
        self._kueue_files: KueueFiles | None = None
        self._add_programs(programs, ports)
        self.real: list[RealNode] = [self._real_node(number, ports) for number in range(real_nodes)]

    @property
    def programs(self) -> tuple[str, ...]:
        """The names `kill`, `stop`, `start` and `pid` know; `etcd` is shared by all clusters of the lab."""
        return tuple(self._parts)

    def kubectl(self, *args: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Run kubectl as admin (or with another kubeconfig) and give back what it printed."""
        command = [str(self._binaries["kubectl"]), f"--kubeconfig={kubeconfig or self.kubeconfig_path}", *args]
        cache = self.folder / "kubectl-cache"
        command.insert(1, f"--cache-dir={cache}")
        done = subprocess.run(command, input=stdin, capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"kubectl {' '.join(args)} on {self.name}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def apply(self, *objects: Json) -> None:
        """Server-side apply of plain objects."""
        text = yaml.safe_dump_all(objects)
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def add_nodes(self, spec: str | Path | list[Json], *, wait: bool = True) -> list[str]:
        """Create the nodes of a spec (see `lab.nodes`) and wait until KWOK has made them Ready."""
        groups = node_groups(spec)
        new_switches = [switch for group in groups for switch in group.switches()]
        if new_switches and KWOK in self._parts:
            self._switches += new_switches
            self._write_kwok_config()
            self.restart(KWOK)
        names = []
        for node in (node for group in groups for node in group.nodes()):
            self.api.post("/api/v1/nodes", node)
            names.append(node["metadata"]["name"])
        if wait and KWOK in self._parts:
            missing = set(names)
            self.api.until("/api/v1/nodes", lambda nodes: missing <= ready_nodes(nodes), what="ready nodes")
        return names

    def kubeconfig_for(self, user: str, groups: Iterable[str] = ()) -> Path:
        """A kubeconfig for a user whom only RBAC lets do anything."""
        file = re.sub(r"[^A-Za-z0-9.-]+", "-", user)
        return self._kubeconfig(file, self._authority.client(f"user-{file}", user, groups))

    def kubeconfig_of(self, namespace: str, account: str) -> Path:
        """A kubeconfig with a fresh token of a service account, as a pod of that account would have."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        token = self.api.post(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        return self._kubeconfig(f"{namespace}-{account}", str(token["status"]["token"]))

    def serving_pair(self, name: str, hosts: Iterable[str]) -> KeyPair:
        """A serving certificate of this cluster's authority, for programs that its API server calls."""
        return self._authority.server(name, hosts)

    def peer_pair(self, name: str, hosts: Iterable[str]) -> KeyPair:
        """The same for programs that call each other with one certificate."""
        return self._authority.peer(name, hosts)

    def api_at(self, port: int) -> Api:
        """A client for a server of this cluster's authority at another port, with the admin's identity."""
        return Api(port, str(self.ca_path), self._admin)

    def start(self, program: str, *, wait: bool = True) -> None:
        self._part(program).start(wait=wait)

    def kill(self, program: str) -> None:
        """kill -9; data and port are kept for `start`."""
        self._part(program).kill()

    def stop(self, program: str) -> None:
        """SIGTERM, and SIGKILL if it takes too long."""
        self._part(program).stop()

    def restart(self, program: str) -> None:
        self.kill(program)
        self.start(program)

    def running(self, program: str) -> bool:
        return self._part(program).running

    def pid(self, program: str) -> int:
        return self._part(program).pid

    def log(self, program: str) -> Path:
        return self._part(program).log

    def start_api(self) -> None:
        """Start the API server without waiting, so that several clusters come up side by side."""
        self.start(APISERVER, wait=False)

    def start_rest(self, first: Callable[[Self], None] | None = None) -> None:
        """Wait for the API server, do what comes `first`, start the others, wait until a pod could be created."""
        self._part(APISERVER).wait_ready()
        if first is not None:
            first(self)
        real = {id(part) for node in self.real for part in node.parts}
        others = [
            part
            for name, part in self._parts.items()
            if name not in (ETCD, APISERVER, KUEUE) and id(part) not in real
        ]
        for part in others:
            part.start(wait=False)
        for part in others:
            part.wait_ready()
        if CONTROLLER_MANAGER in self._parts:
            path = "/api/v1/namespaces/default/serviceaccounts/default"
            self.api.until(path, lambda _: True, what="the default service account")
        if self._kueue_files is not None:
            install_kueue(self.kubectl, self.api, self._kueue_files)
            self.start(KUEUE)
        for node in self.real:
            node.start()

    def end(self) -> None:
        """Kill everything of this cluster (not the shared etcd); nothing is worth a slow farewell."""
        for node in self.real:
            node.end()
        for name, part in self._parts.items():
            if name != ETCD:
                part.kill()

    def _part(self, program: str) -> Component:
        if program not in self._parts:
            raise ComponentFailed(f"cluster {self.name} has no {program}; it has {', '.join(self._parts)}")
        return self._parts[program]

    def _make_files(self) -> ClusterFiles:
        hosts = [LOOPBACK, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        front = Authority(self.folder / "pki" / "front-proxy", f"{self.name}-front-proxy-ca")
        return ClusterFiles(
            folder=self.folder,
            ca=self._authority.cert,
            serving=self._authority.server("serving", hosts),
            service_account_key=signing_key(self.folder / "pki" / "service-account.key"),
            front_proxy_ca=front.cert,
            front_proxy=front.client("client", "front-proxy"),
        )

    def _kubeconfig(self, file: str, identity: KeyPair | str) -> Path:
        path = self.folder / f"{file}.kubeconfig"
        return kubeconfig.write(path, self.name, self.server, self._files.ca, identity)

    def _system_kubeconfig(self, user: str, groups: Iterable[str] = ()) -> Path:
        file = user.removeprefix("system:").replace(":", "-")
        return self._kubeconfig(file, self._authority.client(file, user, groups))

    def _component(self, name: str, argv: list[str], port: int, path: str, *, tls: bool = True) -> Component:
        def ready() -> bool:
            if tls:
                return Api(port, str(self._files.ca), None).raw("GET", path)[0] == 200
            return plain_status(port, path) == 200

        log = self.folder / f"{name}.log"
        argv = components.with_flags(argv, self._flags.get(name, ()))
        return Component(f"{self.name}/{name}", argv, log, ready, env={"TZ": "UTC"})

    def _apiserver(self, etcd_port: int) -> Component:
        argv = components.apiserver(self._binaries[APISERVER], self._files, self._port, etcd_port, self.name)
        if self._audit:
            policy = self.folder / "audit.yaml"
            policy.write_text(yaml.safe_dump(components.audit_policy(self._audit)))
            argv += components.audited(policy, self.audit_log)
        if self._has_real:
            client = self._authority.client("kubelet-client", "kube-apiserver", ["system:masters"])
            argv += components.reaches_kubelets(self._files, client)
        return self._component(APISERVER, argv, self._port, "/readyz")

    def _add_programs(self, programs: Collection[str], ports: Ports) -> None:
        if CONTROLLER_MANAGER in programs:
            config = self._system_kubeconfig("system:kube-controller-manager")
            port = ports.take()
            argv = components.controller_manager(self._binaries[CONTROLLER_MANAGER], self._files, config, port)
            self._parts[CONTROLLER_MANAGER] = self._component(CONTROLLER_MANAGER, argv, port, "/healthz")
        if SCHEDULER in programs:
            config = self._system_kubeconfig("system:kube-scheduler")
            settings = self.folder / "scheduler.yaml"
            settings.write_text(yaml.safe_dump(components.scheduler_config(config)))
            port = ports.take()
            argv = components.scheduler(self._binaries[SCHEDULER], self._files, settings, port)
            self._parts[SCHEDULER] = self._component(SCHEDULER, argv, port, "/healthz")
        if KWOK in programs:
            self._write_kwok_config()
            port = ports.take()
            config = self._system_kubeconfig("system:kwok", ["system:masters"])
            only = GROUP if self._has_real else ""
            argv = components.kwok(self._binaries[KWOK], self._kwok_config, config, port, only=only)
            self._parts[KWOK] = self._component(KWOK, argv, port, "/healthz", tls=False)
        if KUEUE in programs:
            port = ports.take()
            config = self._system_kubeconfig("system:kueue", ["system:masters"])
            manifests = self._binaries["kueue-manifests"]
            self._kueue_files = prepare_kueue(self.folder, manifests, self._authority, ports.take(), port)
            argv = kueue_argv(self._binaries[KUEUE], self._kueue_files, config)
            self._parts[KUEUE] = self._component(KUEUE, argv, port, "/readyz", tls=False)

    def _real_node(self, number: int, ports: Ports) -> RealNode:
        name = f"real-{number}"
        files = NodeFiles(
            self._system_kubeconfig(f"system:node:{name}", ["system:nodes"]),
            self._authority.server(f"kubelet-{number}", [LOOPBACK, name]),
            self._files.ca,
        )
        node = RealNode(name, self.folder / name, self._binaries, files, self.api, ports)
        self._parts |= {f"{part}-{number}": found for part, found in zip(PARTS, node.parts, strict=True)}
        return node

    @property
    def _kwok_config(self) -> Path:
        return self.folder / "kwok.yaml"

    def _write_kwok_config(self) -> None:
        self._kwok_config.write_text(kwok_config(self._default_run_s, self._switches))


def ready_nodes(nodes: Json) -> set[str]:
    """Names of the nodes of a list whose Ready condition is true."""
    return {
        node["metadata"]["name"]
        for node in nodes["items"]
        for condition in node["status"].get("conditions", ())
        if condition["type"] == "Ready" and condition["status"] == "True"
    }


def plain_status(port: int, path: str) -> int:
    """Status of a GET without TLS."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()
