"""One round of kills on the lab: plane, agent, API server and etcd, each a process of its own as in production.

Called by `tests.chaos`. What is random follows from the seed; what is measured is not. In the end the journal and the
ledger of the plane are judged as those of the embedded world are.
"""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx

from lab.cluster import Cluster
from lab.errors import ApiError
from lab.lab import Lab
from lab.rest import Json
from tests.chaos.history import Answer, explained, judge
from tests.chaos.reckoning import Reckoning
from tests.chaos.waiting import free_port, until_done
from tests.kube.checker import overcommitted

JOBS_PER_ROUND = 20
RUN_S = 2.0
PATIENCE_S = 240.0
# Longer than a pod is in any phase while its kubelet lives.
STANDING_S = 2 * RUN_S
VICTIMS = ("plane", "agent", "kube-apiserver", "etcd")

FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: chaos}
spec:
  clusters:
    - name: m
      connect: {agent: joined}
      pools:
        - {name: big, class: a100-40gb-sxm, nodes: 4, devices: 8, cpu: 32, memory: 256GiB, price: {owned: 1000/h}}
  tenants:
    - {name: vision}
"""
JOB = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: NAME, tenant: vision}
spec:
  type: training
  gang: GANG
  classes: [a100-40gb-sxm]
  demand: {devices: 1, memory: 10GiB, cpu: 1, hostMemory: 1GiB}
  duration: 10s
  deferrable: false
"""


class Process:
    """One of ours that can be killed and started again; its output is kept in a file."""

    def __init__(self, log: Path, *args: str) -> None:
        self._command = [sys.executable, "-m", "dure", *args]
        self._log = log.open("ab")
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._running = subprocess.Popen(self._command, stdout=self._log, stderr=self._log, env=environment)

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            self._running = None

    def close(self) -> None:
        self.kill()
        self._log.close()


class Recorder(threading.Thread):
    """Sees every pod that was ever bound: two of one index of one workload is a job that ran twice."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._done = threading.Event()
        self.ran: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.clashes: set[str] = set()
        # When the newest pod was first seen, and the newest bound one: who was the last to be waited for?
        self.made_s = self.bound_s = 0.0
        self._made: set[str] = set()
        self._standing: dict[str, tuple[str, float]] = {}

    def run(self) -> None:
        while not self._done.wait(0.3):
            try:
                for pod in self._cluster.api.get("/api/v1/pods")["items"]:
                    self._nudge(pod)
                    labels = pod["metadata"].get("labels", {})
                    if pod["metadata"]["uid"] not in self._made:
                        self._made.add(pod["metadata"]["uid"])
                        self.made_s = time.monotonic()
                    if pod["spec"].get("nodeName") and "dure.dev/workload" in labels:
                        index = labels.get("batch.kubernetes.io/job-completion-index", "")
                        ran = self.ran[labels["dure.dev/workload"], index]
                        if pod["metadata"]["uid"] not in ran:
                            ran.add(pod["metadata"]["uid"])
                            self.bound_s = time.monotonic()
                self.clashes.update(overcommitted(self._cluster.api))
            except (ApiError, OSError):
                continue

    def _nudge(self, pod: Json) -> None:
        """KWOK drops a pod whose status it could not write, until the pod changes; a kubelet would try again."""
        uid, phase, now = pod["metadata"]["uid"], pod["status"]["phase"], time.monotonic()
        before, since = self._standing.get(uid, ("", now))
        if phase != before or not pod["spec"].get("nodeName") or phase in ("Succeeded", "Failed"):
            self._standing[uid] = (phase, now)
        elif now - since > STANDING_S:
            self._standing[uid] = (phase, now)
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            self._cluster.api.patch(path, {"metadata": {"annotations": {"lab.dure.dev/nudged": f"{now:.0f}"}}})

    def finish(self) -> None:
        self._done.set()
        self.join()


class Round:
    """A cluster, a plane and an agent; `run` answers what went wrong."""

    def __init__(self, lab: Lab, folder: Path, seed: int) -> None:
        self.lab, self.cluster, self.chance = lab, lab["m"], random.Random(seed)
        self.seed = seed
        self.store_url = f"sqlite:///{folder / 'plane' / 'dure.db'}"
        (folder / "fleet.yaml").write_text(FLEET)
        port, stream = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        # Rounds take turns: every second agent holds a stream instead of polling.
        self.link = self.url if seed % 2 == 0 else f"grpc://127.0.0.1:{stream}"
        places = ("--fleet", str(folder / "fleet.yaml"), "--state", str(folder / "plane"))
        ports = ("--port", str(port), "--grpc-port", str(stream))
        self.plane = Process(folder / "plane.log", "up", *places, *ports)
        self.plane.start()
        token = until_done(lambda: (folder / "plane" / "token").read_text().strip(), "the plane's token")
        self.http = httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        join = until_done(lambda: self._post("/v1/clusters/m/join-tokens", ""), "a join token").json()["token"]
        kubeconfig = str(self.cluster.kubeconfig_path)
        options = ("--cluster", "m", "--plane", self.link, "--kubeconfig", kubeconfig, "--join", join)
        self.agent = Process(folder / "agent.log", "agent", *options, "--state", str(folder / "agent"))
        self.agent.start()
        until_done(lambda: self.http.get("/readyz").raise_for_status(), "the plane")
        self.reckoning = Reckoning(self.store_url, clusters=1, steady=False)
        self.accepted: list[Answer] = []

    def run(self, kills: int, jobs: int) -> dict[str, Any]:
        recorder = Recorder(self.cluster)
        recorder.start()
        names = [f"job-{one}" for one in range(jobs)]
        submitter = threading.Thread(target=self._submit_all, args=(names,), daemon=True)
        submitter.start()
        killed = []
        for _ in range(kills):
            time.sleep(self.chance.uniform(0.5, 3.0))
            victim = self.chance.choice(VICTIMS)
            killed.append(victim)
            self._kill(victim)
        restarted = time.monotonic()
        submitter.join()
        submitted_s = time.monotonic()
        phases = until_done(lambda: self._all_ended(names), "all jobs to end", PATIENCE_S)
        settled_s = time.monotonic()
        recorder.finish()
        twice = [f"{job}/{index}" for (job, index), uids in recorder.ran.items() if len(uids) > 1]
        self.plane.kill()
        told = explained(judge(self.reckoning.history(tuple(self.accepted), None, ())))
        return {
            "seed": self.seed,
            "link": self.link.partition(":")[0],
            "killed": killed,
            "jobs": len(names),
            **told,
            "lost": sorted({*told["lost"], *(name for name in names if phases.get(name) != "done")}),
            "twice": sorted(twice),
            "overcommitted": sorted(recorder.clashes),
            # Seconds after the last restart: all submitted, the last pod made, the last one bound, everything done.
            "submitted_s": round(max(0.0, submitted_s - restarted), 1),
            "made_s": round(max(0.0, recorder.made_s - restarted), 1),
            "bound_s": round(max(0.0, recorder.bound_s - restarted), 1),
            "settled_s": round(settled_s - restarted, 1),
            "load": round(os.getloadavg()[0], 1),
        }

    def close(self) -> None:
        self.agent.close()
        self.plane.close()
        self.http.close()

    def _kill(self, victim: str) -> None:
        pause_s = self.chance.uniform(0.2, 1.5)
        if victim in ("plane", "agent"):
            process = self.plane if victim == "plane" else self.agent
            process.kill()
            time.sleep(pause_s)
            process.start()
        elif victim == "etcd":
            self.lab.etcd.kill()
            time.sleep(pause_s)
            self.lab.etcd.start()
        else:
            self.cluster.kill(victim)
            time.sleep(pause_s)
            self.cluster.start(victim)

    def _submit_all(self, names: list[str]) -> None:
        for number, name in enumerate(names):
            text = JOB.replace("NAME", name).replace("GANG", "4" if number % 5 == 0 else "1")
            asked_s = time.monotonic()
            post = functools.partial(self._post, "/v1/workloads", text, name)
            record = until_done(post, f"{name} to be taken").json()
            self.accepted.append(Answer("submit", name, asked_s, time.monotonic(), record["uid"], record["version"]))
            time.sleep(0.2)

    def _post(self, path: str, text: str, key: str = "") -> httpx.Response:
        headers = {"Content-Type": "application/yaml", **({"Idempotency-Key": key} if key else {})}
        return self.http.post(path, content=text, headers=headers).raise_for_status()

    def _all_ended(self, names: list[str]) -> dict[str, str]:
        items = self.http.get("/v1/workloads", params={"limit": 1000}).raise_for_status().json()["items"]
        phases = {item["spec"]["name"]: item["status"].get("phase", "pending") for item in items}
        if not all(phases.get(name) in ("done", "failed", "cancelled") for name in names):
            raise ValueError(f"waiting: {phases}")
        return phases


def play(seed: int, kills: int, jobs: int) -> dict[str, Any]:
    with (
        Lab(["m"], off={"m": {"kube-scheduler"}}, default_run_s=RUN_S) as lab,
        tempfile.TemporaryDirectory(prefix="dure-chaos-") as folder,
    ):
        lab["m"].add_nodes([{"group": "big", "count": 4, "gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}}])
        rounds = Round(lab, Path(folder), seed)
        try:
            return rounds.run(kills, jobs)
        finally:
            rounds.close()
