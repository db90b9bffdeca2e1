"""A member cluster that outlives whoever schedules it: imitated in the driver, reached over a socket by the agent.

As with a real one, a call that has arrived takes effect also when its caller dies before the answer. `Member` keeps
the whole history of its pods: every look at the cluster is compared with the one before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.laws import CALM
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, VNodePool
from dure.model.decision import Bind, Evict, Resize
from dure.model.errors import DureError, Temporary, kind_of
from dure.model.fleet import ClusterSpec
from dure.model.reason import Verdict
from dure.model.report import Desired, Observed
from dure.ports import Clock
from tests.chaos.history import PodSeen
from tests.chaos.holding import Holding, given_twice


class Member:
    """The driver's end. `seen` is every state of every pod, in order; `clashes` every device given twice."""

    def __init__(self, spec: ClusterSpec, catalogue: Catalogue, clock: Clock, folder: Path, seed: int) -> None:
        self.name, self.address = spec.info.name, str(folder / f"{spec.info.name}.sock")
        self.cluster = MemoryCluster(spec, catalogue, clock, seed=seed, hazards=CALM)
        self._clock, self._lock = clock, threading.Lock()
        self._pods: dict[str, Pod] = {}
        self.seen: list[PodSeen] = []
        self.clashes: set[str] = set()
        self._listener = Listener(self.address, "AF_UNIX")
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name=f"cluster {self.name}", daemon=True)
        self._thread.start()

    def lose(self, choose: Callable[[Sequence[Pod]], Pod]) -> None:
        """A node lets go of a pod that it runs, as nodes do."""
        with self._lock:
            held = [pod for pod in self.cluster.fetch_state().pods if pod.holds]
            if held:
                pod = choose(held)
                self.cluster.evict([Evict(pod.name, pod.uid, pod.workload, Verdict(self.name, None, detail="lost"))])
                self._look()

    def close(self) -> None:
        self._closed = True
        # Whoever waits for a caller is not woken by a close alone.
        Client(self.address, "AF_UNIX").close()
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            caller = self._listener.accept()
            if self._closed:
                caller.close()
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: Connection[Any, Any]) -> None:
        with caller:
            while True:
                try:
                    what, args = caller.recv()
                    answer = self._call(what, args)
                    caller.send(answer)
                except (EOFError, OSError):
                    return

    def _call(self, what: str, args: tuple[Any, ...]) -> tuple[int, Any]:
        with self._lock:
            try:
                return 0, getattr(self.cluster, what)(*args)
            except DureError as error:
                return error.status, str(error)
            finally:
                self._look()

    def _look(self) -> None:
        pods = {pod.name: pod for pod in self.cluster.fetch_state().pods}
        changed = [pod for name, pod in pods.items() if self._pods.get(name) is not pod]
        gone = [pod for name, pod in self._pods.items() if name not in pods]
        now_s = self._clock.now()
        for pod in changed:
            self.seen.append(
                PodSeen(now_s, self.name, pod.uid, pod.generation, pod.index, pod.phase.value, pod.holds)
            )
        for pod in gone:
            self.seen.append(PodSeen(now_s, self.name, pod.uid, pod.generation, pod.index, "gone", False))
        if changed:
            self.clashes.update(given_twice(holding for pod in pods.values() for holding in _holdings(pod)))
        self._pods = pods


def _holdings(pod: Pod) -> list[Holding]:
    if not pod.holds:
        return []
    return [
        Holding(f"{pod.node}/{part.device}", pod.name, part.mode.value, part.start, part.slots) for part in pod.slices
    ]


class FarCluster:
    """`ClusterPort` of the agent's process, and what its runner needs beyond that."""

    def __init__(self, name: str, address: str, step: Callable[[], None]) -> None:
        """`step` is called before every call is sent, and again before its answer is read."""
        self._name, self._step, self._lock = name, step, threading.Lock()
        self._connection = Client(address, "AF_UNIX")
        self.changed = threading.Event()

    @property
    def name(self) -> str:
        return self._name

    def publish(self, pools: tuple[VNodePool, ...]) -> None:
        """Nobody looks at the pools of this cluster."""

    def tend(self) -> None:
        self._call("tend")

    def fetch_state(self) -> ClusterState:
        found: ClusterState = self._call("fetch_state")
        return found

    def fetch_observed(self) -> tuple[Observed, ...]:
        found: tuple[Observed, ...] = self._call("fetch_observed")
        return found

    def apply(self, desired: Desired) -> None:
        self._call("apply", desired)

    def delete(self, uid: str) -> None:
        self._call("delete", uid)

    def bind(self, binds: Sequence[Bind]) -> None:
        self._call("bind", binds)

    def evict(self, evicts: Sequence[Evict]) -> None:
        self._call("evict", evicts)

    def resize(self, resizes: Sequence[Resize]) -> None:
        self._call("resize", resizes)

    def explain(self, pod: str, message: str) -> None:
        self._call("explain", pod, message)

    def _call(self, what: str, *args: Any) -> Any:
        with self._lock:
            self._step()
            try:
                self._connection.send((what, args))
                self._step()
                status, answer = self._connection.recv()
            except (EOFError, OSError) as error:
                raise Temporary(f"the cluster does not answer: {error}") from error
        if status:
            raise kind_of(status)(answer)
        return answer
