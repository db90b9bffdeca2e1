"""One round of kills on imitated clusters: plane, agents and gateway are processes, the clusters outlive them all.

Called by `tests.chaos`. Chances follow from the seed: who is killed, when, and for every start the step at which the
process kills itself. Clients submit, cancel and read all the while; nodes lose pods. In the end everything is started
once more and left in peace until all has ended, and `history` judges what everybody saw; of the Jobs that were handed
to the gateway, in a cluster with Kueue of their own, `submissions` does.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from dure.adapters.clock import RealClock
from dure.adapters.plane_link import join
from dure.cli.fleet_file import fleet_and_catalogue
from tests.chaos.clients import Clients
from tests.chaos.databases import Database, PostgresDatabase, SqliteDatabase
from tests.chaos.forge import Forge
from tests.chaos.history import History, explained, judge
from tests.chaos.kueue import QueueCluster
from tests.chaos.member import Member
from tests.chaos.network import Network
from tests.chaos.reckoning import Reckoning
from tests.chaos.submissions import Submitter, judged
from tests.chaos.waiting import free_port, until_done

PATIENCE_S = 240.0
# Half of all starts end by themselves, at one of the first so many steps.
STEPS = {"plane": 200, "agent": 40, "gateway": 60}
LONGEST_LIFE_S = 1.5
LONGEST_PAUSE_S = 0.2
LOSS = 0.15
# Two kills of five do not wait for the plane to serve.
EARLY = 0.4
START_S = 20.0
# The gateway's cluster runs short jobs, and some must always wait.
PER_JOB = 5
CLUSTERS = ("seoul", "busan")
FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: chaos}
spec:
  clusters:
    - name: seoul
      connect: {agent: joined}
      pools: [{name: big, class: a100-40gb-sxm, nodes: 2, devices: 4, price: {owned: 1000/h}}]
    - name: busan
      connect: {agent: joined}
      pools: [{name: big, class: a100-40gb-sxm, nodes: 2, devices: 4, price: {owned: 1100/h}}]
  tenants: [{name: vision}, {name: speech}]
"""


@dataclass(frozen=True)
class Asked:
    """What a round is to be. `network` cuts, delays and repeats what agents and plane say to one another."""

    seed: int
    kills: int
    store: str = "sqlite"
    network: bool = False
    jobs: int = 60
    life_s: float = LONGEST_LIFE_S


class Round:
    def __init__(self, asked: Asked, forge: Forge, folder: Path, database: Database) -> None:
        self.asked, self.forge, self.folder, self.database = asked, forge, folder, database
        self.chance = random.Random(asked.seed)
        (folder / "fleet.yaml").write_text(FLEET)
        (folder / "token").touch(0o600)
        (folder / "token").write_text(secrets.token_urlsafe(32))
        fleet, catalogue = fleet_and_catalogue(folder / "fleet.yaml")
        self.clock = RealClock()
        self.members = {
            spec.info.name: Member(spec, catalogue, self.clock, folder, asked.seed) for spec in fleet.clusters
        }
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.network = Network(self.port, random.Random(asked.seed + 1)) if asked.network else None
        self.queues, self.gateway_port = QueueCluster(folder), free_port()
        self.pids: dict[str, int] = {}
        self.killed: dict[str, int] = {}
        self.points = 0
        self._start("plane", fused=False)
        headers = {"Authorization": f"Bearer {(folder / 'token').read_text()}"}
        self.http = httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=10.0)
        self.credentials = {name: self._join(name) for name in CLUSTERS}
        for name in (*CLUSTERS, "gateway"):
            self._start(name, fused=False)
        until_done(lambda: self.http.get("/readyz").raise_for_status(), "the plane")
        self.reckoning = Reckoning(database.url, clusters=len(CLUSTERS))
        self.clients = Clients(self.url, headers, asked.seed, asked.jobs)
        self.submitter = Submitter(f"http://127.0.0.1:{self.gateway_port}", asked.seed, asked.jobs * PER_JOB)

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        self.clients.start()
        self.submitter.start()
        while sum(self.killed.values()) < self.asked.kills:
            self._kill_one()
        self.clients.stop_submitting()
        self.submitter.stop_submitting()
        if self.network is not None:
            self.network.heal()
        for role in self.pids:
            self.forge.kill(self.pids[role])
            self._start(role, fused=False)
        quiet = time.monotonic()
        with contextlib.suppress(AssertionError):
            until_done(self._all_ended, "all to end", PATIENCE_S)
        settled_s = time.monotonic() - quiet
        self.clients.close()
        self.submitter.close()
        for pid in self.pids.values():
            self.forge.kill(pid)
        history = self._history()
        found = explained(judge(history))
        submitted, ran = self.submitter.submitted, self.queues.ran
        for kind, sentences in judged(submitted, ran, self.queues.left()).items():
            found[kind] += sentences[:20]
        if any(found.values()) or self._clashes():
            self._keep(history)
        return {
            "seed": self.asked.seed,
            "killed": self.killed,
            "points": self.points,
            "jobs": len(history.finals),
            "answers": len(history.answers),
            "generations": sum(one.generation for one in history.finals),
            "submissions": len(submitted),
            "repeated": sum(one.asked > 1 for one in submitted),
            "anew": sum(one.job != one.origin for one in ran),
            **found,
            "overcommitted": self._clashes(),
            **({"network": self.network.told()} if self.network is not None else {}),
            "settled_s": round(settled_s, 1),
            "round_s": round(time.monotonic() - began, 1),
            "load": round(os.getloadavg()[0], 1),
        }

    def close(self) -> None:
        self.clients.close()
        self.submitter.close()
        self.http.close()
        for pid in self.pids.values():
            self.forge.kill(pid)
        for member in self.members.values():
            member.close()
        self.queues.close()
        if self.network is not None:
            self.network.close()

    def _kill_one(self) -> None:
        """Whoever dies at a point of its own counts; if nobody does in time, chance names one."""
        victims = ("plane", "plane", *CLUSTERS, "gateway", "gateway", *self.database.victims)
        victim, life_s = self.chance.choice(victims), self.chance.uniform(0.0, self.asked.life_s)
        pause_s, loses, early = (
            self.chance.uniform(0.0, LONGEST_PAUSE_S),
            self.chance.random() < LOSS,
            self.chance.random() < EARLY,
        )
        dead = self._wait(life_s, early)
        if dead:
            victim = dead
            self.points += 1
        self.killed[victim] = self.killed.get(victim, 0) + 1
        if victim in self.pids:
            self.forge.kill(self.pids[victim])
        else:
            self.database.kill(victim)
        if loses:
            self.members[self.chance.choice(CLUSTERS)].lose(self.chance.choice)
        time.sleep(pause_s)
        if victim in self.pids:
            self._start(victim)
        else:
            self.database.start()

    def _wait(self, life_s: float, early: bool) -> str:
        """So long, or until somebody dies by itself, who is then named; mostly from when the plane serves on."""
        serves, until = early, time.monotonic() + life_s
        deadline = time.monotonic() + START_S
        while time.monotonic() < (until if serves else deadline):
            dead = next((role for role, pid in self.pids.items() if not self.forge.lives(pid)), "")
            if dead:
                return dead
            if not serves and self._serves():
                serves, until = True, time.monotonic() + life_s
            time.sleep(0.02)
        return ""

    def _serves(self) -> bool:
        try:
            return self.http.get("/healthz", timeout=0.5).status_code == 200
        except httpx.HTTPError:
            return False

    def _start(self, role: str, *, fused: bool = True) -> None:
        kind = role if role in STEPS else "agent"
        # Drawn in any case, so that what follows does not depend on it.
        fuse, lit = self.chance.randint(1, STEPS[kind]), self.chance.random() < 0.5
        die_at = fuse if fused and lit else 0
        log = self.folder / f"{role}.log"
        if kind == "plane":
            places = ("--state", str(self.folder / "plane"), "--fleet", str(self.folder / "fleet.yaml"))
            options = (
                "--token-file",
                str(self.folder / "token"),
                "--port",
                str(self.port),
                "--store",
                self.database.url,
            )
            self.pids[role] = self.forge.start(kind, log, args=[*places, *options], die_at=die_at)
        elif kind == "gateway":
            places = ("--kubeconfig", str(self.queues.kubeconfig), "--state", str(self.folder / "gateway"))
            args = [*places, "--port", str(self.gateway_port), "--open"]
            self.pids[role] = self.forge.start(kind, log, args=args, die_at=die_at)
        else:
            self.pids[role] = self.forge.start(
                kind,
                log,
                cluster=role,
                socket=self.members[role].address,
                url=self.network.url if self.network is not None else self.url,
                credential=self.credentials[role],
                die_at=die_at,
            )

    def _join(self, name: str) -> str:
        path = f"/v1/clusters/{name}/join-tokens"
        made = until_done(lambda: self.http.post(path).raise_for_status(), "a join token").json()
        return join(self.url, name, made["token"])

    def _all_ended(self) -> None:
        waiting = self.http.get("/v1/workloads", params={"ended": "false", "limit": 1000}).raise_for_status().json()
        names = [
            one["spec"]["name"]
            for one in waiting["items"]
            if one["status"].get("phase") not in ("done", "failed", "cancelled")
        ]
        names += self.queues.left()
        if names or not self.submitter.idle():
            raise ValueError(f"{len(names)} have not ended: {names[:5]}")

    def _clashes(self) -> list[str]:
        return sorted(clash for member in self.members.values() for clash in member.clashes)

    def _history(self) -> History:
        pods = tuple(seen for member in self.members.values() for seen in member.seen)
        return self.reckoning.history(tuple(self.clients.answers), pods, tuple(self.clients.marks))

    def _keep(self, history: History) -> None:
        """Everything one needs to understand what went wrong."""
        kept = Path("build") / f"chaos-{self.asked.store}-{self.asked.seed}.json"
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(msgspec.json.encode(history))
        for log in self.folder.glob("*.log"):
            (kept.parent / f"{kept.stem}-{log.name}").write_bytes(log.read_bytes())


@contextlib.contextmanager
def database_of(kind: str) -> Iterator[Any]:
    """Makes a fresh database for each round."""
    if kind == "sqlite":
        yield SqliteDatabase
    else:
        server = PostgresDatabase()
        try:
            yield lambda folder: server.fresh()
        finally:
            server.close()


def play(asked: Asked, forge: Forge, database: Database, folder: Path) -> dict[str, Any]:
    made = Round(asked, forge, folder, database)
    try:
        return made.run()
    finally:
        made.close()


def rounds(asked: list[Asked]) -> Iterator[dict[str, Any]]:
    """Played one after the other by one forge and one database server."""
    if not asked:
        return
    forge = Forge()
    try:
        with database_of(asked[0].store) as fresh:
            for one in asked:
                with tempfile.TemporaryDirectory(prefix="dure-chaos-", ignore_cleanup_errors=True) as folder:
                    yield play(one, forge, fresh(Path(folder)), Path(folder))
    finally:
        forge.close()
