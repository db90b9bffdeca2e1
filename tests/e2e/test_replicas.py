"""Several replicas on one PostgreSQL behind an ordinary load balancer: one leads, another follows, nothing is lost.

No time is asserted; how long a takeover took is printed and kept in docs/benchmarks/replicas.md.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from dure.adapters.clock import RealClock
from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.plane_link import join, open_link
from dure.adapters.store import SqlStore, open_store
from dure.agent.loop import Agent
from dure.cli.fleet_file import fleet_and_catalogue
from dure.model.decision import Place
from dure.model.errors import DureError
from tests.e2e.conftest import Up
from tests.kube.world import until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

PATIENCE_S = 180.0
FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: replicated}
spec:
  clusters:
    - name: seoul
      region: kr-seoul
      connect: {agent: joined}
      pools:
        - {name: h100, class: h100-80gb-sxm, nodes: 4, devices: 8, price: {owned: 1000/h}}
  tenants: [{name: vision}]
"""
JOB = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: NAME, tenant: vision}
spec: {type: training, classes: [{name: h100-80gb-sxm}], demand: {devices: 1}, duration: 90d}
"""


class Balancer:
    """Hands each connection to the first backend that takes it, and knows nothing of what is said."""

    def __init__(self, *urls: str) -> None:
        self.backends = [int(url.rpartition(":")[2]) for url in urls]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # A thread that waits in accept is not woken by a close alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._carry, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _carry(self, client: socket.socket) -> None:
        for port in self.backends:
            try:
                server = socket.create_connection(("127.0.0.1", port), 1.0)
            except OSError:
                continue
            with client, server:
                server.settimeout(None)
                up = threading.Thread(target=_pump, args=(client, server), daemon=True)
                up.start()
                _pump(server, client)
                up.join()
            return
        client.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Scene:
    """Two replicas, the balancer, an agent with an imitated cluster, and a look into the database."""

    def __init__(self, folder: Path, url: str, start: Callable[..., Up]) -> None:
        self.fleet_file, self.token_file = folder / "fleet.yaml", folder / "token"
        self.fleet_file.write_text(FLEET)
        self.token_file.touch(0o600)
        self.token_file.write_text(secrets.token_urlsafe(32))
        self._start, self._folder, self._url, self._count = start, folder, url, 0
        self.replicas = [self.start(), self.start()]
        self.store: SqlStore = open_store(url)
        self.balancer = Balancer(*(one.url for one in self.replicas))
        self._headers = {"Authorization": f"Bearer {self.token_file.read_text()}"}
        made = self.call("POST", "/v1/clusters/seoul/join-tokens").json()
        self._credential = join(self.balancer.url, "seoul", made["token"])
        self._stopped = threading.Event()
        self._agent = threading.Thread(target=self._run_agent, daemon=True)
        self._agent.start()

    def start(self, source: Path | None = None) -> Up:
        """`source` holds the sources of another version."""
        self._count += 1
        options = ("--store", self._url, "--fleet", str(self.fleet_file), "--token-file", str(self.token_file))
        return self._start("--port", "0", *options, state=self._folder / f"state-{self._count}", source=source)

    def close(self) -> None:
        self._stopped.set()
        self._agent.join()
        self.balancer.close()
        self.store.close()

    def call(self, method: str, path: str, body: str = "") -> httpx.Response:
        """Once more where a replica went away under it, as any client of a balancer does."""
        headers = {**self._headers, "Content-Type": "application/yaml", "Idempotency-Key": secrets.token_hex(8)}
        answers: list[httpx.Response] = []

        def answered() -> bool:
            with contextlib.suppress(httpx.TransportError):
                url = f"{self.balancer.url}{path}"
                answers.append(httpx.request(method, url, content=body, headers=headers, trust_env=False, timeout=30))
            return bool(answers) and answers[-1].status_code < 500

        until(answered, f"an answer to {method} {path}", PATIENCE_S)
        return answers[-1].raise_for_status()

    def submit(self, *names: str) -> None:
        for name in names:
            self.call("POST", "/v1/workloads", JOB.replace("NAME", name))

    def lease(self) -> tuple[str, int]:
        with self.store.engine.connect() as db:
            row = db.execute(text("SELECT holder, token FROM lease")).one_or_none()
        return (row.holder, row.token) if row is not None else ("", 0)

    def leader(self) -> Up:
        until(lambda: self.lease()[1] > 0, "a first leader", PATIENCE_S)
        pid = int(self.lease()[0].split("/")[1])
        return next(one for one in self.replicas if one.process.pid == pid)

    def wait_running(self, *names: str) -> None:
        until(lambda: self._running() >= {*names}, f"{', '.join(names)} to run", PATIENCE_S)

    def _running(self) -> set[str]:
        return {one.name for one in self.store.list_workloads() if one.status.phase == "running"}

    def check(self, *names: str) -> None:
        """Nobody lost, nobody placed twice, and the log agrees with everything."""
        assert {one.name for one in self.store.list_workloads()} == set(names)
        entries = [one.decision for one in self.store.list_journal(limit=5000)]
        placed = Counter((one.workload, one.placement.generation) for one in entries if isinstance(one, Place))
        assert set(placed.values()) == {1}
        assert {name for name, _ in placed} == set(names)
        assert self.store.verify_audit()[1] == []

    def _run_agent(self) -> None:
        fleet, catalogue = fleet_and_catalogue(self.fleet_file)
        spec, clock = fleet.clusters[0], RealClock()
        cluster = MemoryCluster(spec, catalogue, clock, seed=1)
        link = open_link(self.balancer.url, "seoul", self._credential)
        agent = Agent(cluster, link, catalogue, spec.pools, clock)
        while not self._stopped.wait(0.2):
            with contextlib.suppress(DureError):
                agent.cycle()
        link.close()


@pytest.fixture
def scene(tmp_path: Path, postgres_url: str, start_up: Callable[..., Up]) -> Iterator[Scene]:
    made = Scene(tmp_path, postgres_url, start_up)
    yield made
    made.close()


def test_a_follower_takes_over_from_a_killed_and_from_a_stopped_leader(scene: Scene) -> None:
    scene.submit("before-1", "before-2")
    scene.wait_running("before-1", "before-2")

    leader, token = scene.leader(), scene.lease()[1]
    leader.process.send_signal(signal.SIGKILL)
    scene.submit("after-kill")
    took_s = until(lambda: scene.lease()[1] > token, "another leader", PATIENCE_S)
    print(f"takeover after kill -9: {took_s:.1f} s")
    scene.wait_running("after-kill")
    scene.check("before-1", "before-2", "after-kill")

    scene.replicas = [one for one in scene.replicas if one is not leader] + [scene.start()]
    scene.balancer.backends = [int(one.url.rpartition(":")[2]) for one in scene.replicas]
    leader, token = scene.leader(), scene.lease()[1]
    other = next(one for one in scene.replicas if one is not leader)
    scene.balancer.backends = [int(other.url.rpartition(":")[2])]
    os.kill(leader.process.pid, signal.SIGSTOP)
    took_s = until(lambda: scene.lease()[1] > token, "another leader", PATIENCE_S)
    print(f"takeover after SIGSTOP: {took_s:.1f} s")
    scene.submit("while-stopped")
    scene.wait_running("while-stopped")
    office = scene.lease()
    os.kill(leader.process.pid, signal.SIGCONT)
    # The one that was stopped answers again, so it has turned; it leads no more and has written nothing.
    until(lambda: _answers(leader), "the one that was stopped", PATIENCE_S)
    scene.submit("afterwards")
    scene.wait_running("afterwards")
    assert scene.lease() == office
    scene.check("before-1", "before-2", "after-kill", "while-stopped", "afterwards")


def _answers(server: Up) -> bool:
    try:
        return httpx.get(f"{server.url}/healthz", trust_env=False, timeout=5).status_code == 200
    except httpx.TransportError:
        return False
