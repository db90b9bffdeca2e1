"""The load: one client submits and cancels, two read what is there, one keeps marks of the audit log.

Every call that is answered becomes an `Answer`; one that is not is asked again with the same key, as a client should.
Refusals are answers too and no news.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from dure.model.audit import Mark
from tests.chaos.history import MISSING, Answer

JOB = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: NAME, tenant: TENANT}
spec:
  type: training
  gang: GANG
  classes: [a100-40gb-sxm]
  demand: {devices: DEVICES}
  duration: DURATION
  deferrable: false
"""
CANCELLED = 0.12
LONGEST_PAUSE_S = 1.0
READ_EVERY_S = 0.05
RETRY_S = 0.1


class Clients:
    def __init__(self, url: str, headers: dict[str, str], seed: int, jobs: int) -> None:
        self._url, self._headers, self._jobs = url, headers, jobs
        self._submitting, self._open = threading.Event(), threading.Event()
        self.answers: list[Answer] = []
        self.marks: list[Mark] = []
        self._names: list[str] = []
        loops = [self._submit, self._read, self._read, self._mark]
        self._threads = [
            threading.Thread(target=self._run, args=(loop, random.Random(seed * 10 + number)), daemon=True)
            for number, loop in enumerate(loops)
        ]

    def start(self) -> None:
        self._submitting.set()
        self._open.set()
        for thread in self._threads:
            thread.start()

    def stop_submitting(self) -> None:
        """The one that is under way is still asked until it is answered."""
        self._submitting.clear()

    def close(self) -> None:
        self._submitting.clear()
        self._open.clear()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _run(self, loop: Callable[[httpx.Client, random.Random], None], chance: random.Random) -> None:
        with httpx.Client(base_url=self._url, headers=self._headers, trust_env=False, timeout=10.0) as http:
            loop(http, chance)

    def _submit(self, http: httpx.Client, chance: random.Random) -> None:
        for number in range(self._jobs):
            name = f"job-{number}"
            body = (
                JOB.replace("NAME", name)
                .replace("TENANT", chance.choice(("vision", "speech")))
                .replace("GANG", chance.choice(("1", "1", "2")))
                .replace("DEVICES", chance.choice(("1", "2")))
                .replace("DURATION", f"{chance.randint(1, 3)}s")
            )
            cancel, pause_s = chance.random() < CANCELLED, chance.uniform(0.0, LONGEST_PAUSE_S)
            if not self._submitting.is_set():
                return
            self._ask(http, "submit", name, "POST", "/v1/workloads", body)
            self._names.append(name)
            time.sleep(pause_s)
            if cancel:
                self._ask(http, "cancel", name, "DELETE", f"/v1/workloads/{name}")

    def _read(self, http: httpx.Client, chance: random.Random) -> None:
        while self._open.is_set():
            time.sleep(READ_EVERY_S)
            recent = self._names[-40:]
            if recent:
                name = chance.choice(recent)
                self._ask(http, "read", name, "GET", f"/v1/workloads/{name}", tries=1)

    def _mark(self, http: httpx.Client, chance: random.Random) -> None:
        while self._open.is_set():
            time.sleep(10 * READ_EVERY_S)
            try:
                params = {"limit": "1", "newest": "true"}
                line = http.get("/v1/audit", params=params).raise_for_status().json()["items"][0]
            except (httpx.HTTPError, LookupError, ValueError):
                continue
            self.marks.append(Mark(int(json.loads(line["body"])["seq"]), str(line["hash"])))

    def _ask(
        self, http: httpx.Client, what: str, name: str, method: str, path: str, body: str = "", tries: int = 10_000
    ) -> None:
        headers = {"Content-Type": "application/yaml", "Idempotency-Key": f"{what}/{name}"} if body else {}
        asked_s = time.monotonic()
        for _ in range(tries):
            if not self._open.is_set():
                return
            try:
                answer = http.request(method, path, content=body, headers=headers)
            except httpx.HTTPError:
                time.sleep(RETRY_S)
                continue
            if answer.status_code < 500:
                self._note(what, name, asked_s, answer)
                return
            time.sleep(RETRY_S)

    def _note(self, what: str, name: str, asked_s: float, answer: httpx.Response) -> None:
        answered_s = time.monotonic()
        if answer.status_code == 404:
            self.answers.append(Answer(what, name, asked_s, answered_s, phase=MISSING))
        elif answer.status_code < 300:
            record: dict[str, Any] = answer.json()
            phase = record["status"].get("phase", "pending")
            version = record.get("version", 1)
            self.answers.append(Answer(what, name, asked_s, answered_s, record["uid"], version, phase))
