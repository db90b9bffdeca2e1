"""Jobs handed to the gateway until it answers, and the (pure) verdict: each ran once, under whatever name.

Every Job carries the name it was asked for in an annotation, which stays with it when the gateway makes it anew.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import msgspec

ORIGIN, RUN_S = "chaos.dure.dev/origin", "chaos.dure.dev/run-seconds"
GPU, CPU, OTHER = "user-gpu-queue", "user-cpu-queue", "user-other-queue"
LONGEST_PAUSE_S = 0.35
RETRY_S = 0.05
# What the Job accepts beside its home: a label that changes, resources as well, a Job that must be made anew.
WAYS = (
    [{"class": "t4b", "queue": OTHER, "estimate": 1}],
    [{"class": "cpu", "queue": CPU, "estimate": 1, "resources": {"nvidia.com/gpu": None}}],
    [{"class": "cpu", "queue": CPU, "estimate": 1, "resources": {"nvidia.com/gpu": None}, "env": {"ON": "cpu"}}],
)


class Submitted(msgspec.Struct, frozen=True):
    """One Job as it was finally answered; `asked` counts the requests that this took."""

    name: str
    status: int
    asked: int
    made: str = ""


class Run(msgspec.Struct, frozen=True):
    """One start of one Job."""

    origin: str
    job: str
    at_s: float


class Submitter:
    """One thread; a Job is asked for with one key until there is an answer that is not the server's trouble."""

    def __init__(self, url: str, seed: int, jobs: int) -> None:
        self._url, self._jobs, self._chance = url, jobs, random.Random(seed * 10 + 9)
        self._submitting, self._open = threading.Event(), threading.Event()
        self.submitted: list[Submitted] = []
        self._thread = threading.Thread(target=self._run, name="submitter", daemon=True)

    def start(self) -> None:
        self._submitting.set()
        self._open.set()
        self._thread.start()

    def stop_submitting(self) -> None:
        """The one that is under way is still asked until it is answered; `idle` is when it was."""
        self._submitting.clear()

    def idle(self) -> bool:
        return not self._thread.is_alive()

    def close(self) -> None:
        self._submitting.clear()
        self._open.clear()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, trust_env=False, timeout=10.0) as http:
            for number in range(self._jobs):
                body, policy = self._job(f"job-{number}"), self._chance.choice(("", "static"))
                pause_s = self._chance.uniform(0.0, LONGEST_PAUSE_S)
                if not self._submitting.is_set():
                    return
                self._ask(http, body, policy)
                time.sleep(pause_s)

    def _job(self, name: str) -> dict[str, Any]:
        run_s = self._chance.uniform(0.3, 2.0)
        ways = [{"class": "t4", "queue": GPU, "estimate": 3}, *self._chance.choice(WAYS)]
        amounts = {"cpu": "4", "memory": "6Gi", "nvidia.com/gpu": "1"}
        container = {"name": "main", "image": "lab/none", "resources": {"requests": amounts}}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": {"kueue.x-k8s.io/queue-name": GPU},
                "annotations": {
                    ORIGIN: name,
                    RUN_S: f"{run_s:.2f}",
                    "dure.dev/accepts": json.dumps(ways),
                    "dure.dev/kind": "chaos",
                },
            },
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }

    def _ask(self, http: httpx.Client, job: dict[str, Any], policy: str) -> None:
        name, asked = job["metadata"]["name"], 0
        headers = {"Idempotency-Key": f"key of {name}"}
        while self._open.is_set():
            asked += 1
            try:
                answer = http.post("/v1/jobs", json=job, params={"policy": policy}, headers=headers)
            except httpx.HTTPError:
                time.sleep(RETRY_S)
                continue
            if answer.status_code < 500:
                made = answer.json()["jobs"][0]["name"] if answer.status_code < 300 else ""
                self.submitted.append(Submitted(name, answer.status_code, asked, made))
                return
            time.sleep(RETRY_S)


def judged(submitted: Sequence[Submitted], ran: Sequence[Run], left: Sequence[str]) -> dict[str, list[str]]:
    """By kind of finding, as with the plane's; empty everywhere when all is well."""
    return {"lost": [*_lost(submitted, ran, left)], "twice": [*_twice(ran)]}


def _lost(submitted: Sequence[Submitted], ran: Sequence[Run], left: Sequence[str]) -> Iterator[str]:
    asked_for, started = {one.name for one in submitted}, {one.origin for one in ran}
    for one in submitted:
        if one.status >= 300:
            yield f"{one.name} was refused with {one.status} at request {one.asked}"
        elif one.name not in started:
            yield f"{one.name} was accepted as {one.made} and never ran"
    for key in left:
        yield f"{key} is still there and has not ended"
    for origin in sorted(started - asked_for):
        yield f"{origin} ran and was never accepted"


def _twice(ran: Sequence[Run]) -> Iterator[str]:
    for origin, count in sorted(Counter(one.origin for one in ran).items()):
        if count > 1:
            yield f"{origin} ran {count} times, as {', '.join(one.job for one in ran if one.origin == origin)}"
