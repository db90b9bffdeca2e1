"""Forks plane, agents and gateway from a parent that has loaded everything: a restart takes a moment, not seconds.

    python -m tests.chaos.forge     reads one JSON object a line, {"role": "plane", "log": FILE, ...}; answers the pid

Each child is a real process that a real kill -9 ends. With `die_at` it ends itself that way at the step of that
number (a statement to the database, a call to its cluster or API server): a point, not a time, so that the same
number hits it again.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast


class Forge:
    """The driver's end: starts children, kills them, knows whether they live."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.forge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._lock = threading.Lock()
        self._pids: set[int] = set()

    def start(self, role: str, log: Path, **options: Any) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        with self._lock:
            self._parent.stdin.write(json.dumps({"role": role, "log": str(log), **options}) + "\n")
            self._parent.stdin.flush()
            pid = int(self._parent.stdout.readline())
            self._pids.add(pid)
        return pid

    def kill(self, pid: int) -> None:
        """Returns when it is gone; the parent lets the kernel reap it."""
        while self.lives(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)
        self._pids.discard(pid)

    def lives(self, pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    def close(self) -> None:
        for pid in tuple(self._pids):
            self.kill(pid)
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()


class Fuse:
    """Counts steps and kills this very process at the given one; 0 never does."""

    def __init__(self, die_at: int) -> None:
        self._left, self._lock = die_at, threading.Lock()

    def burn(self, *_: object, **__: object) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _plane(asked: dict[str, Any]) -> int:
    """`dure up` as it is, with a fuse under every statement, commit and rollback of its database."""
    from sqlalchemy import Engine, event

    from dure.api import openapi
    from dure.cli.root import run

    # Writing the API's own description takes as long as all else together, and nobody here reads it.
    openapi.document_problems = lambda app: None
    fuse = Fuse(asked["die_at"])
    for moment in ("before_cursor_execute", "after_cursor_execute", "commit", "rollback"):
        event.listen(Engine, moment, fuse.burn)
    return run(["up", *asked["args"]])


def _agent(asked: dict[str, Any]) -> int:
    """The agent's own loop, poll and way to the plane; only the cluster behind its port is imitated."""
    from dure.adapters.clock import RealClock
    from dure.adapters.plane_link import open_link
    from dure.agent.loop import Agent
    from dure.agent.poll import Poller
    from dure.agent.runner import Runner
    from dure.model.errors import Temporary
    from tests.chaos.member import FarCluster

    fuse = Fuse(asked["die_at"])
    cluster = FarCluster(asked["cluster"], asked["socket"], fuse.burn)
    link = open_link(asked["url"], asked["cluster"], asked["credential"])
    while True:
        try:
            membership = link.fetch_membership()
            break
        except Temporary:
            time.sleep(0.1)
    agent = Agent(cluster, link, membership.catalogue, membership.spec.pools, RealClock(), lanes=4)
    runner = Runner(agent, cluster, idle_s=0.5)
    poller = Poller(link.wait_for_news, runner.wake)
    runner.start()
    poller.start()
    threading.Event().wait()
    return 0


def _gateway(asked: dict[str, Any]) -> int:
    """`dure gateway serve` as it is, with a fuse before and behind every call to the API server."""
    from dure.adapters.kube.rest import Api
    from dure.cli.root import run

    fuse = Fuse(asked["die_at"])
    for name in ("_send", "_short"):
        setattr(Api, name, _fused(getattr(Api, name), fuse))
    return run(["gateway", "serve", *asked["args"]])


def _fused(call: Callable[..., Any], fuse: Fuse) -> Callable[..., Any]:
    def fused(*args: Any, **options: Any) -> Any:
        fuse.burn()
        answer = call(*args, **options)
        fuse.burn()
        return answer

    return fused


ROLES = {"plane": _plane, "agent": _agent, "gateway": _gateway}
MODULES = (
    "alembic.command",
    "dure.adapters.store.migrations",
    "dure.api.app",
    "dure.api.server",
    "dure.cli.gateway",
    "dure.cli.lock",
    "dure.cli.up",
    "dure.embedded.live",
    "dure.gateway.process",
    "dure.web.pages",
    "dure.web.queues",
    "tests.chaos.member",
)


def _load() -> None:
    """What children would otherwise load and compile one after the other."""
    for name in MODULES:
        importlib.import_module(name)
    from dure.adapters.clock import VirtualClock
    from dure.adapters.memory.store import MemoryStore
    from dure.cli.fleet_file import fleet_and_catalogue
    from dure.embedded.sources import carbon_of
    from dure.embedded.world import EmbeddedWorld

    fleet, catalogue = fleet_and_catalogue(None)
    clock = VirtualClock(1_767_571_200.0)
    carbon_of(fleet, clock, 1)
    EmbeddedWorld(fleet, catalogue, MemoryStore(), clock, seed=1).step()


def _child(asked: dict[str, Any]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    code = 1
    try:
        code = ROLES[asked["role"]](asked)
    finally:
        os._exit(code)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _load()
    for line in sys.stdin:
        asked = cast(dict[str, Any], json.loads(line))
        pid = os.fork()
        if pid == 0:
            _child(asked)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
