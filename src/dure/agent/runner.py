"""Turns an agent of a real cluster: at once when something changed or is wanted, else now and then.

One thread of its own. A cycle that fails for a reason that may pass is tried again after a pause that grows; the
agent needs no memory of what it did, so nothing else has to be done about it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import structlog

from dure.adapters.tracing import span
from dure.agent.loop import Agent
from dure.model.cluster import VNodePool
from dure.model.errors import DureError
from dure.model.units import Seconds

IDLE_S = 2.0
# Events come in swarms; one look at all of them is cheaper than one at each.
GATHER_S = 0.02
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0

_log = structlog.get_logger("dure.agent")


class LiveCluster(Protocol):
    """What a runner needs beyond `ClusterPort`: a wake-up, and a place to show the pools."""

    changed: threading.Event

    def publish(self, pools: tuple[VNodePool, ...]) -> None: ...


class Runner:
    def __init__(
        self, agent: Agent, live: LiveCluster, *, leads: Callable[[], bool] = lambda: True, idle_s: Seconds = IDLE_S
    ) -> None:
        """`leads` says whether this process is the one that may act now."""
        self.agent = agent
        self._live = live
        self._leads = leads
        self._idle_s = idle_s
        self._stopped = threading.Event()
        self._shown: tuple[VNodePool, ...] = ()
        self._thread = threading.Thread(target=self._run, name=f"agent {agent.cluster.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._live.changed.set()
        if self._thread.is_alive():
            self._thread.join()
        self.agent.close()

    def wake(self) -> None:
        self._live.changed.set()

    def turn(self) -> None:
        """One cycle, and the pools shown if they are others than before."""
        with span("agent.cycle", cluster=self.agent.cluster.name):
            self.agent.cycle()
        pools = self.agent.pools_seen
        if pools != self._shown:
            self._live.publish(pools)
            self._shown = pools

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopped.is_set():
            self._live.changed.wait(self._idle_s)
            self._stopped.wait(GATHER_S)
            self._live.changed.clear()
            try:
                if self._leads():
                    self.turn()
                pause_s = FIRST_PAUSE_S
            except Exception as error:
                # Also a fault of ours: a scheduler that has ended helps nobody.
                unexpected = None if isinstance(error, DureError) else error
                told = _log.warning if unexpected is None else _log.error
                told(
                    "cycle failed, trying again",
                    cluster=self.agent.cluster.name,
                    error=str(error),
                    exc_info=unexpected,
                )
                self._stopped.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                self._live.changed.set()
