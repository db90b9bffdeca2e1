"""The state of one embedded cluster: nodes, pods, workloads and what will happen next, as one saveable value.

`cluster` is the port around it; `nodes`, `pods` and `serving` change it. Invariant: every change of a node or pod
goes through `put_*` and `drop_*`, which keep the index of holders and the version right.
"""

from __future__ import annotations

import enum
import heapq
import math

import msgspec
from msgspec.structs import replace

from dure.model.cluster import Node, Pod
from dure.model.report import Desired
from dure.model.units import Instant, Seconds


class Kind(enum.StrEnum):
    """What can happen by itself."""

    NODE_READY = "node-ready"
    RECLAIM_NOTICE = "reclaim-notice"
    NODE_GONE = "node-gone"
    NODE_WANTED = "node-wanted"
    DEVICE_FAILS = "device-fails"
    DEVICE_REPAIRED = "device-repaired"
    POD_UP = "pod-up"
    POD_CRASHES = "pod-crashes"
    WORK_CRASHES = "work-crashes"
    WORK_FAILS = "work-fails"
    WORK_DONE = "work-done"
    PROVISION = "provision"


class Happening(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Ordered by time, then by the order in which it was foreseen. A stale `stamp` means it is off."""

    at_s: Instant
    seq: int
    kind: Kind
    subject: str
    stamp: int = 0


class Work(msgspec.Struct):
    """One workload here. `base_s` is safe work up to `since_s`; from there on it runs at `speed`.

    `stamp` is a new one whenever the run is interrupted, so that what was foreseen for it no longer happens;
    `touched` is another number whenever a pod of it has changed; `surge` is a factor of the mean rate and when it
    holds.
    """

    desired: Desired
    pods: list[str]
    base_s: Seconds = 0.0
    since_s: Instant | None = None
    speed: float = 1.0
    stamp: int = 0
    attempts: int = 0
    started_s: Instant | None = None
    finished_s: Instant | None = None
    requests: float = 0.0
    requests_good: float = 0.0
    waiting: float = 0.0
    counted_s: Instant | None = None
    lost: str = ""
    message: str = ""
    touched: int = 0
    surge: tuple[float, Instant, Instant] = (1.0, 0.0, 0.0)

    def safe_s(self, now_s: Instant) -> Seconds:
        """Work that survives a loss at `now_s`: whatever the last checkpoint holds."""
        every_s = self.desired.spec.checkpoint_s
        if self.since_s is None or every_s <= 0:
            return self.base_s
        return self.base_s + (now_s - self.since_s) // every_s * every_s * self.speed

    def saved_s(self, now_s: Instant) -> Instant | None:
        """When the last checkpoint of this run was kept, zero for none yet; None for work that keeps none."""
        every_s = self.desired.spec.checkpoint_s
        if self.since_s is None or every_s <= 0:
            return None
        kept = (now_s - self.since_s) // every_s
        return self.since_s + kept * every_s if kept else 0.0


class World(msgspec.Struct):
    """Everything that survives a restart.

    `wanted` is the target size of each pool, `holders` the pods that hold slices on each node, `due` the sequence
    number of the one happening that each pod expects.
    """

    cluster: str
    seed: int
    now_s: Instant
    nodes: dict[str, Node] = {}
    pods: dict[str, Pod] = {}
    works: dict[str, Work] = {}
    wanted: dict[str, int] = {}
    idle_since: dict[str, Instant] = {}
    numbered: dict[str, int] = {}
    ahead: list[Happening] = []
    seq: int = 0
    version: int = 0
    touches: int = 0
    holders: dict[str, list[str]] = {}
    due: dict[str, int] = {}

    def new_stamp(self) -> int:
        """A number that nothing foreseen so far carries, not even for an earlier life of the same workload."""
        self.seq += 1
        return self.seq

    def foresee(self, at_s: Instant, kind: Kind, subject: str, stamp: int = 0) -> None:
        self.seq += 1
        if at_s < math.inf:
            heapq.heappush(self.ahead, Happening(at_s, self.seq, kind, subject, stamp))

    def expect(self, at_s: Instant, kind: Kind, pod: str) -> None:
        """Foresee the next thing for a pod; whatever it expected before is off."""
        self.due[pod] = self.seq + 1
        self.foresee(at_s, kind, pod, self.seq + 1)

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.version += 1

    def drop_node(self, name: str) -> None:
        del self.nodes[name]
        self.holders.pop(name, None)
        self.idle_since.pop(name, None)
        self.version += 1

    def put_pod(self, pod: Pod) -> None:
        self._release(pod.name)
        self.pods[pod.name] = pod
        if pod.holds:
            self.holders.setdefault(pod.node, []).append(pod.name)
            self.idle_since.pop(pod.node, None)
        self.version += 1
        self._touch(pod)

    def drop_pod(self, name: str) -> None:
        self._release(name)
        self._touch(self.pods.pop(name))
        self.due.pop(name, None)
        self.version += 1

    def drop_work(self, uid: str) -> None:
        del self.works[uid]
        self.touches += 1

    def tell(self, pod: Pod, message: str) -> None:
        """A message is for people: it is no new version of the world, or telling why would cause a new look."""
        self.pods[pod.name] = replace(pod, message=message)
        self._touch(pod)

    def holding(self, node: str) -> list[Pod]:
        return [self.pods[name] for name in self.holders.get(node, ())]

    def work_of(self, pod: Pod) -> Work:
        return self.works[pod.uid]

    def _touch(self, pod: Pod) -> None:
        work = self.works.get(pod.uid)
        if work is not None:
            self.touches += 1
            work.touched = self.touches

    def _release(self, name: str) -> None:
        before = self.pods.get(name)
        if before is None or not before.holds:
            return
        holders = self.holders.get(before.node, [])
        if name in holders:
            holders.remove(name)
        if not holders:
            self.holders.pop(before.node, None)
            if before.node in self.nodes:
                self.idle_since[before.node] = self.now_s


def save(world: World) -> bytes:
    return _ENCODER.encode(world)


def restore(data: bytes) -> World:
    return _DECODER.decode(data)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(World)
