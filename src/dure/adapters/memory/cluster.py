"""A member cluster inside this process, behind the same port as a real one.

The agent calls it; nodes, pods and requests live on in between. Every call first lets the world catch up with
the clock: what was foreseen happens in its order, so that a quiet hour costs nothing. Invariant: same spec, seed
and calls at the same moments give the same bytes.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence

from msgspec.structs import replace

from dure.adapters.legality import check_binds, check_mode
from dure.adapters.memory import nodes, observe, pods, provision, serving, world
from dure.adapters.memory.laws import DEMO, Hazards, Laws
from dure.adapters.memory.world import Happening, Kind, Work, World
from dure.adapters.podspec import check_template
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, PodPhase
from dure.model.decision import Bind, Evict, Resize
from dure.model.errors import Conflict, InvalidInput, Temporary
from dure.model.fleet import ClusterSpec
from dure.model.reason import Verdict
from dure.model.report import Desired, Observed
from dure.model.units import Instant
from dure.model.workload import WorkloadType
from dure.ports import Clock


class MemoryCluster:
    """`ClusterPort` over a `World`. `reachable = False` plays a cut connection; time goes on behind it."""

    def __init__(
        self,
        spec: ClusterSpec,
        catalogue: Catalogue,
        clock: Clock,
        *,
        seed: int = 0,
        hazards: Hazards = DEMO,
        provision: bool = True,
    ) -> None:
        self._laws = Laws(spec, catalogue, hazards, provision)
        self._clock = clock
        self._lock = threading.RLock()
        self._world = World(cluster=spec.info.name, seed=seed, now_s=clock.now())
        self._state: ClusterState | None = None
        self._progress = observe.Progress(catalogue)
        self._loud = False
        self.reachable = True
        nodes.furnish(self._world, self._laws)

    @property
    def name(self) -> str:
        return self._world.cluster

    @property
    def version(self) -> str:
        """That of the state that `fetch_state` would answer with, which is not made for it."""
        with self._lock:
            return str(self._present().version)

    def tend(self) -> None:
        """Nothing is ever half done here."""

    def fetch_state(self) -> ClusterState:
        with self._lock:
            world = self._present()
            if self._state is None or self._state.version != str(world.version):
                self._state = observe.state(world)
            elif self._state.now_s != world.now_s:
                self._state = replace(self._state, now_s=world.now_s)
            return self._state

    def fetch_observed(self) -> tuple[Observed, ...]:
        with self._lock:
            world = self._present()
            return self._progress.of(world)

    def apply(self, desired: Desired) -> None:
        with self._lock:
            world = self._present()
            if self._laws.pool(desired.placement.pool) is None:
                raise InvalidInput(f"cluster {self.name} has no pool '{desired.placement.pool}'")
            check_template(desired.spec.template)
            before = world.works.get(desired.uid)
            generation = desired.placement.generation
            if before is None:
                pods.create(world, desired, desired.done_s)
            elif generation <= before.desired.placement.generation:
                return
            elif _only_replicas_differ(before, desired):
                pods.resize_serving(world, before, desired)
            else:
                _replace(world, before, desired)
            provision.watch(world, self._laws)

    def delete(self, uid: str) -> None:
        with self._lock:
            world = self._present()
            work = world.works.get(uid)
            if work is not None:
                pods.remove(world, work)
                world.drop_work(uid)

    def bind(self, binds: Sequence[Bind]) -> None:
        with self._lock:
            world = self._present()
            check_binds(world, self._laws.catalogue, binds)
            pods.start(world, self._laws, binds)

    def evict(self, evicts: Sequence[Evict]) -> None:
        with self._lock:
            world = self._present()
            for evict in evicts:
                pod = world.pods.get(evict.pod)
                if pod is not None and pod.uid == evict.uid and pod.holds:
                    pods.lose(world, pod, _why(evict.reason))
            provision.watch(world, self._laws)

    def resize(self, resizes: Sequence[Resize]) -> None:
        with self._lock:
            world = self._present()
            for wish in resizes:
                node = world.nodes.get(wish.node)
                device = next((dev for dev in node.devices if dev.id == wish.device), None) if node else None
                if node is None or device is None:
                    raise Conflict(f"device {wish.device} of node {wish.node} is gone")
                check_mode(node, device, wish.mode, world.holding(node.name))
                cut = tuple(replace(dev, mode=wish.mode) if dev is device else dev for dev in node.devices)
                if cut != node.devices:
                    world.put_node(replace(node, devices=cut))

    def explain(self, pod: str, message: str) -> None:
        with self._lock:
            world = self._present()
            found = world.pods.get(pod)
            if found is not None and found.message != message:
                world.tell(found, message)
                self._state = None

    def scale_pool(self, pool: str, wanted: int) -> None:
        """Boot nodes up to `wanted`, or let idle ones go down to it."""
        with self._lock:
            world = self._present()
            spec = self._laws.pool(pool)
            if spec is None or not 0 <= wanted <= max(spec.nodes, spec.nodes_max):
                limit = max(spec.nodes, spec.nodes_max) if spec else 0
                raise InvalidInput(f"pool '{pool}' of {self.name} can have 0 to {limit} nodes, not {wanted}")
            world.wanted[pool] = wanted
            nodes.strive(world, spec)

    def surge(self, workload: str, factor: float, since_s: Instant, until_s: Instant) -> None:
        """Between these moments a service here gets `factor` times its mean rate, whatever the hour."""
        with self._lock:
            world = self._present()
            for work in world.works.values():
                if work.desired.spec.name == workload:
                    serving.count(world, work)
                    work.surge = (factor, since_s, until_s)

    def next_event_s(self) -> Instant | None:
        """When something will happen by itself, as far as it is foreseen now."""
        with self._lock:
            ahead = self._world.ahead
            while ahead and not _is_on(self._world, ahead[0]):
                heapq.heappop(ahead)
            return ahead[0].at_s if ahead else None

    def live_on(self) -> bool:
        """Let happen what is due; answers whether any of it waits for an answer from outside."""
        with self._lock:
            self._loud = False
            self._catch_up()
            return self._loud

    def save(self) -> bytes:
        with self._lock:
            return world.save(self._catch_up())

    def restore(self, data: bytes) -> None:
        """Go on from saved bytes of the same cluster; if the clock is behind them, the world waits for it."""
        saved = world.restore(data)
        if saved.cluster != self.name:
            raise InvalidInput(f"saved state of cluster '{saved.cluster}' given to '{self.name}'")
        with self._lock:
            self._world, self._state = saved, None
            self._progress = observe.Progress(self._laws.catalogue)

    def _present(self) -> World:
        if not self.reachable:
            raise Temporary(f"cluster {self.name} cannot be reached")
        return self._catch_up()

    def _catch_up(self) -> World:
        world, now_s = self._world, self._clock.now()
        while world.ahead and world.ahead[0].at_s <= now_s:
            happening = heapq.heappop(world.ahead)
            if _is_on(world, happening):
                world.now_s = max(world.now_s, happening.at_s)
                self._loud = self._loud or _is_loud(world, happening)
                _happen(world, self._laws, happening)
        world.now_s = max(world.now_s, now_s)
        return world


def _why(verdict: Verdict) -> str:
    code = verdict.reason or "Evicted"
    return code if verdict.sentence in (code, "fits") else f"{code}: {verdict.sentence}"


def _only_replicas_differ(before: Work, desired: Desired) -> bool:
    old, new = before.desired.placement, desired.placement
    same = (old.pool, old.class_name, old.mode, old.capacity) == (new.pool, new.class_name, new.mode, new.capacity)
    return same and desired.spec.type is WorkloadType.SERVING and new.replicas > 0


def _replace(world: World, before: Work, desired: Desired) -> None:
    """New pods for a new generation. Counters go on; a checkpoint that lies here is as good as the plane's word."""
    serving.count(world, before)
    pods.remove(world, before)
    work = pods.create(world, desired, max(desired.done_s, before.base_s))
    work.requests, work.requests_good, work.counted_s = before.requests, before.requests_good, before.counted_s
    work.waiting = before.waiting


def _is_on(world: World, happening: Happening) -> bool:
    """Whether what was foreseen still holds: its pod, run or node may have changed or gone since."""
    subject = happening.subject
    match happening.kind:
        case Kind.POD_UP | Kind.POD_CRASHES | Kind.PROVISION:
            return world.due.get(subject) == happening.stamp
        case Kind.WORK_DONE | Kind.WORK_FAILS | Kind.WORK_CRASHES:
            work = world.works.get(subject)
            return work is not None and work.stamp == happening.stamp
        case Kind.NODE_WANTED | Kind.DEVICE_REPAIRED:
            return True
        case _:
            return subject in world.nodes


def _is_loud(world: World, happening: Happening) -> bool:
    """Whether the agent has to hear of it now: not of a gang that has come up or a pool that looked at itself."""
    if happening.kind is Kind.POD_UP:
        return world.pods[happening.subject].type is WorkloadType.SERVING
    return happening.kind is not Kind.PROVISION


def _happen(world: World, laws: Laws, happening: Happening) -> None:
    subject = happening.subject
    match happening.kind:
        case Kind.POD_UP:
            pods.on_up(world, laws, subject)
        case Kind.POD_CRASHES:
            pods.on_pod_crash(world, laws, subject)
        case Kind.WORK_CRASHES:
            pods.on_work_crash(world, laws, world.works[subject])
        case Kind.WORK_DONE:
            pods.on_work_end(world, world.works[subject], PodPhase.SUCCEEDED, "")
        case Kind.WORK_FAILS:
            pods.on_work_end(world, world.works[subject], PodPhase.FAILED, "the program ended with an error")
        case Kind.PROVISION:
            provision.on_look(world, laws)
        case _:
            _happen_to_node(world, laws, happening.kind, subject)
            provision.watch(world, laws)


def _happen_to_node(world: World, laws: Laws, kind: Kind, subject: str) -> None:
    match kind:
        case Kind.NODE_READY:
            nodes.on_ready(world, laws, world.nodes[subject])
        case Kind.RECLAIM_NOTICE:
            nodes.on_notice(world, laws, world.nodes[subject])
        case Kind.NODE_GONE:
            nodes.on_gone(world, laws, world.nodes[subject])
        case Kind.DEVICE_FAILS:
            nodes.on_device_fails(world, laws, world.nodes[subject])
        case Kind.DEVICE_REPAIRED:
            nodes.on_device_repaired(world, subject)
        case _:
            nodes.on_wanted(world, laws, subject)
