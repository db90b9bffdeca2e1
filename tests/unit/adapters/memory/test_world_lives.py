"""Whatever an agent does and however time passes: no overcommit, no pod lost, no counter that falls."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.laws import Hazards
from dure.model.accelerator import ShareMode
from dure.model.cluster import ClusterState, Device, Pod, PodPhase, Slice
from dure.model.decision import Bind, Evict, Resize
from dure.model.errors import Conflict
from dure.model.reason import Reason, Verdict
from dure.model.report import Observed
from dure.model.tariff import Capacity
from dure.model.workload import WorkloadType
from tests.fixtures.embedded import Bench
from tests.fixtures.small_world import (
    CATALOGUE,
    GIB,
    desired,
    fraction,
    mig,
    mps,
    pool,
    service,
    training,
    whole,
)

STORMY = Hazards(
    duration_sigma=0.5, doomed=0.1, crash_per_h=2.0, device_mtbf_h=50.0, repair_s=3600.0, spot_back_s=300.0
)
BIG = pool("big", "big", nodes=2, nodes_max=3, devices=2)
SMALL = pool("small", "small", nodes=2, devices=2, capacity=Capacity.SPOT, reclaim_per_hour=0.5)
NAMES = st.sampled_from("abc")
WHY = Verdict("test", Reason.PREEMPTED)


def counted(seen: Observed) -> tuple[int, int]:
    """Requests and good ones; none where there are none to count."""
    return seen.requests or 0, seen.requests_good or 0


class World(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 5))
    def begin(self, seed: int) -> None:
        self.bench = Bench(BIG, SMALL, hazards=STORMY, seed=seed)
        self.before: dict[str, Observed] = {}
        self.applied: dict[str, int] = {}

    @rule(
        name=NAMES,
        kind=st.sampled_from(("train", "cut", "share", "serve")),
        size=st.integers(1, 4),
        generation=st.integers(1, 3),
    )
    def apply(self, name: str, kind: str, size: int, generation: int) -> None:
        # A uid stands for one wish: its name tells what it is.
        uid = f"uid-{name}-{kind}-{size}"
        wish = {
            "train": desired(training(uid, gang=size, checkpoint_s=60.0), generation=generation, uid=uid),
            "cut": desired(fraction(uid), mode=ShareMode.MIG, generation=generation, uid=uid),
            "share": desired(fraction(uid), pool="small", mode=ShareMode.MPS, generation=generation, uid=uid),
            "serve": desired(service(uid, replicas=size), pool="small", generation=generation, uid=uid),
        }[kind]
        self.bench.port.apply(wish)
        self.applied[uid] = max(generation, self.applied.get(uid, 0))

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        """Any pods of one workload anywhere, mostly wrong: the cluster must refuse whole or take whole."""
        state = self.bench.port.fetch_state()
        waiting = sorted({pod.uid for pod in state.pods if pod.phase is PodPhase.PENDING})
        if not waiting:
            return
        uid = data.draw(st.sampled_from(waiting))
        members = [pod for pod in state.pods if pod.uid == uid and pod.phase is PodPhase.PENDING]
        members = members[: data.draw(st.sampled_from((len(members), 1)))]
        devices = [(node.name, device) for node in state.nodes for device in node.devices[:1]]
        if data.draw(st.booleans()):
            devices = [
                (node.name, dev) for node in state.nodes if node.pool == members[0].pool for dev in node.devices
            ]
        if not devices:
            return
        homes = data.draw(st.lists(st.sampled_from(devices), min_size=len(members), max_size=len(members)))
        start = data.draw(st.sampled_from((0, 0, 4, 7)))
        binds = [
            Bind(pod.name, uid, node, _slices(pod, device, start))
            for pod, (node, device) in zip(members, homes, strict=True)
        ]
        try:
            self.bench.port.bind(binds)
        except Conflict:
            assert self.bench.port.fetch_state() == state, "a refused bind changed something"

    @rule(uid=st.data())
    def delete(self, uid: st.DataObject) -> None:
        if self.applied:
            gone = uid.draw(st.sampled_from(sorted(self.applied)))
            self.bench.port.delete(gone)
            del self.applied[gone]
            self.before.pop(gone, None)

    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        bound = [pod for pod in self.bench.port.fetch_state().pods if pod.holds]
        if bound:
            pod = data.draw(st.sampled_from(bound))
            self.bench.port.evict([Evict(pod.name, pod.uid, pod.workload, WHY)])

    @rule(data=st.data(), mode=st.sampled_from((ShareMode.EXCLUSIVE, ShareMode.MIG, ShareMode.MPS)))
    def resize(self, data: st.DataObject, mode: ShareMode) -> None:
        nodes = [node for node in self.bench.nodes() if node.devices]
        if nodes:
            node = data.draw(st.sampled_from(nodes))
            try:
                self.bench.port.resize([Resize(node.name, node.devices[0].id, mode, WHY)])
            except Conflict:
                return

    @rule(wanted=st.integers(0, 3))
    def scale(self, wanted: int) -> None:
        self.bench.port.scale_pool("big", wanted)

    @rule(seconds=st.sampled_from((1.0, 31.0, 120.0, 900.0, 7200.0)))
    def wait(self, seconds: float) -> None:
        self.bench.after(seconds)

    @rule()
    def restart(self) -> None:
        saved = self.bench.port.save()
        self.bench.port = MemoryCluster(self.bench.spec, CATALOGUE, self.bench.clock, seed=99, hazards=STORMY)
        self.bench.port.restore(saved)
        assert self.bench.port.save() == saved

    @invariant()
    def nothing_is_overcommitted(self) -> None:
        check_no_overcommit(self.bench.port.fetch_state())

    @invariant()
    def no_pod_is_lost_without_a_word(self) -> None:
        pods = Counter(pod.uid for pod in self.bench.port.fetch_state().pods)
        seen = {seen.uid: seen for seen in self.bench.port.fetch_observed()}
        assert sorted(seen) == sorted(self.applied)
        for uid, generation in self.applied.items():
            size = int(uid.rpartition("-")[2]) if "train" in uid or "serve" in uid else 1
            expected = 0 if seen[uid].lost else size
            assert (pods[uid], seen[uid].pods, seen[uid].generation) == (expected, expected, generation)

    @invariant()
    def gangs_are_bound_whole(self) -> None:
        for seen in self.bench.port.fetch_observed():
            if "train" in seen.uid:
                assert seen.bound in (0, seen.pods)

    @invariant()
    def counters_never_fall(self) -> None:
        for seen in self.bench.port.fetch_observed():
            requests, good = counted(seen)
            assert 0 <= good <= requests
            before = self.before.get(seen.uid)
            if before is not None:
                assert seen.generation >= before.generation
                assert requests >= counted(before)[0]
                assert good >= counted(before)[1]
                assert seen.done_s >= before.done_s
            self.before[seen.uid] = seen


def check_no_overcommit(state: ClusterState) -> None:
    """Written against the pods alone, with none of the cluster's own bookkeeping."""
    nodes = {node.name: node for node in state.nodes}
    for node in state.nodes:
        here = [pod for pod in state.pods if pod.holds and pod.node == node.name]
        assert sum(pod.demand.cpu_milli for pod in here) <= node.cpu_milli
        assert sum(pod.demand.host_memory_mib for pod in here) <= node.memory_mib
        for device in node.devices:
            parts = [part for pod in here for part in pod.slices if part.device == device.id]
            check_device(device, parts)
    for pod in state.pods:
        assert not pod.holds or pod.node in nodes
        assert not pod.holds or len(pod.slices) == max(1, pod.demand.devices)


def check_device(device: Device, parts: list[Slice]) -> None:
    if not parts:
        return
    assert {part.mode for part in parts} == {device.mode}
    profile = CATALOGUE.accelerator(device.class_name)
    assert sum(part.memory_mib for part in parts) <= profile.memory_mib
    assert sum(part.compute_milli for part in parts) <= 1000
    assert device.mode is not ShareMode.EXCLUSIVE or len(parts) == 1
    slots = [slot for part in parts for slot in range(part.start, part.start + part.slots)]
    assert len(slots) == len(set(slots))


def _slices(pod: Pod, device: Device, start: int) -> tuple[Slice, ...]:
    if pod.type is not WorkloadType.BATCH:
        return whole(device.id)
    return (mig(device.id, "3g", start),) if pod.pool == "big" else (mps(device.id, 4 * GIB, 300),)


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_checker_itself_sees_two_pods_on_one_whole_device() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(training("t", gang=2)))
    bench.bind_whole("uid-t")
    state = bench.port.fetch_state()
    check_no_overcommit(state)
    first, second = state.pods
    broken = replace(state, pods=(first, replace(second, node=first.node, slices=first.slices)))
    try:
        check_no_overcommit(broken)
    except AssertionError:
        return
    raise AssertionError("the checker let two pods share a whole device")
