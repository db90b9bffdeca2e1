"""The live packer: gangs whole, serving spread, neighbours linked, reasons with numbers, priorities, moves."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.accelerator import ShareMode
from dure.model.affinity import PodTerm, Rules
from dure.model.cluster import Node, Pod, PodPhase
from dure.model.decision import Bind, Decision, Evict, Hold, Resize
from dure.model.reason import Reason, Verdict
from dure.model.tenant import Isolation
from dure.model.workload import WorkloadType
from dure.pack import PackSettings, pack, packer, seating
from dure.pack.misses import misses
from dure.pack.packer import gangs
from dure.pack.room import KeptRooms
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running


def binds(decisions: tuple[Decision, ...]) -> dict[str, Bind]:
    return {one.pod: one for one in decisions if isinstance(one, Bind)}


def held(nodes: list[Node], pods: list[Pod], **more: Any) -> Hold:
    (only,) = pack(cluster(nodes, pods), CATALOGUE, **more)
    assert isinstance(only, Hold)
    return only


def test_a_gang_is_seated_whole_or_not_at_all() -> None:
    gang = [pod(f"g{i}", devices=4, gang=3, workload="g", index=i) for i in range(3)]
    short = pack(cluster([node("a"), node("b")], gang), CATALOGUE)
    assert len(short) == 3
    assert all(isinstance(one, Hold) for one in short)
    assert len(binds(pack(cluster([node("a"), node("b"), node("c")], gang), CATALOGUE))) == 3


def test_a_gang_stays_in_one_rack_when_a_rack_holds_it() -> None:
    nodes = [node("a1", rack="a", zone="z"), node("b1", rack="b", zone="z"), node("b2", rack="b", zone="z")]
    gang = [pod(f"g{i}", devices=4, gang=2, workload="g", index=i, type=WorkloadType.TRAINING) for i in range(2)]
    assert {bind.node for bind in binds(pack(cluster(nodes, gang), CATALOGUE)).values()} == {"b1", "b2"}


def test_whole_devices_are_neighbours_of_one_link_group() -> None:
    busy = running([node("a", 8)], [pod("x", devices=1), pod("y", devices=1)])
    more = pod("t", devices=4, type=WorkloadType.TRAINING)
    bind = binds(pack(cluster([node("a", 8)], [*busy, more]), CATALOGUE))["t"]
    assert [part.device for part in bind.slices] == ["a/4", "a/5", "a/6", "a/7"]


def test_replicas_of_a_service_are_spread_over_zones_and_nodes() -> None:
    nodes = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]
    replicas = [
        pod(f"s{i}", compute=200, memory=1000, workload="s", type=WorkloadType.SERVING, index=i) for i in range(3)
    ]
    chosen = [bind.node for bind in binds(pack(cluster(nodes, replicas), CATALOGUE)).values()]
    assert set(chosen) == {"a1", "a2", "b1"}


def test_fractions_fill_a_started_device_before_they_open_another() -> None:
    nodes = [node("a"), node("b")]
    first = running(nodes, [pod("one", compute=300, memory=1000, share=(ShareMode.MPS,))])
    again = pod("two", compute=300, memory=1000, share=(ShareMode.MPS,))
    bind = binds(pack(cluster(nodes, [*first, again]), CATALOGUE))["two"]
    assert bind.slices[0].device == first[0].slices[0].device


def test_a_device_changes_its_mode_only_while_it_is_empty() -> None:
    only = node("a", 1)
    mps = running([only], [pod("one", compute=300, memory=1000, share=(ShareMode.MPS,))])
    mig = pod("two", compute=100, memory=1000, share=(ShareMode.MIG,))
    assert held([only], [*mps, mig]).verdicts[0].reason is Reason.SHARE_MODE_NOT_OFFERED
    resize, bind = pack(cluster([only], [mig]), CATALOGUE)
    assert isinstance(resize, Resize)
    assert resize.mode is ShareMode.MIG
    assert isinstance(bind, Bind)


def test_a_torn_cluster_is_called_fragmented_with_both_numbers() -> None:
    busy = running([node("a")], [pod("x", devices=2)]) + running([node("b")], [pod("y", devices=2)])
    wide = pod("wide", devices=4)
    verdict = held([node("a"), node("b")], [*busy, wide], settings=PackSettings(moves_per_tenant=0)).verdicts[0]
    assert verdict.reason is Reason.FRAGMENTED
    assert verdict.sentence == "needs 4 devices on one node, largest free group is 2; 4 are free in all"


def test_a_higher_priority_evicts_the_least_costly_lower_one_and_says_why() -> None:
    old = msgspec.structs.replace(running([node("a", 1)], [pod("old", devices=1)])[0], started_s=0.0)
    new = msgspec.structs.replace(running([node("b", 1)], [pod("new", devices=1)])[0], started_s=990.0)
    urgent = pod("urgent", devices=1, priority=5)
    evict, bind = pack(cluster([node("a", 1), node("b", 1)], [old, new, urgent]), CATALOGUE)
    assert isinstance(evict, Evict)
    assert isinstance(bind, Bind)
    assert (evict.pod, evict.reason.reason, bind.node, bind.evicts) == ("new", Reason.PREEMPTED, "b", ("new",))


def test_priority_never_evicts_across_isolation_nor_its_equals() -> None:
    only = node("a", 1)
    urgent = pod("urgent", devices=1, priority=5, tenant="other")
    walled = running([only], [pod("x", devices=1, isolation=Isolation.OWN_DEVICE)])
    equal = running([only], [pod("x", devices=1, priority=5)])
    assert held([only], [*walled, urgent]).verdicts
    assert held([only], [*equal, urgent]).verdicts


def test_a_move_makes_room_only_for_a_pod_that_may_move_and_fits_elsewhere() -> None:
    nodes = [node("a"), node("b")]
    busy = running([node("a")], [pod("x", devices=1, interruptible=True)])
    busy += running([node("b")], [pod("y", devices=2)])
    wide = pod("wide", devices=4)
    decisions = pack(cluster(nodes, [*busy, wide]), CATALOGUE)
    assert [type(one) for one in decisions] == [Evict, Bind]
    assert binds(decisions)["wide"].node == "a"
    fixed = [msgspec.structs.replace(one, interruptible=False) for one in busy]
    assert held(nodes, [*fixed, wide]).verdicts
    full = running([node("b")], [pod("y", devices=4)])
    assert held(nodes, [busy[0], *full, wide]).verdicts


WISHES = st.lists(
    st.one_of(
        st.integers(1, 4).map(lambda n: {"devices": n}),
        st.tuples(st.integers(1, 1000), st.integers(1, 60_000)).map(lambda c: {"compute": c[0], "memory": c[1]}),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=20, deadline=None)
@given(WISHES, st.integers(0, 2**31))
def test_names_and_order_decide_nothing_and_nothing_is_overcommitted(wishes: list[dict[str, int]], seed: int) -> None:
    chance = random.Random(seed)
    pods = [pod(f"p{i:02}", devices=w.get("devices", 0), compute=w.get("compute", 0), memory=w.get("memory", 0))
            for i, w in enumerate(wishes)]  # fmt: skip
    sizes = {"a": 4, "b": 8, "c": 2, "d": 4}
    names = dict(zip(sizes, chance.sample("wxyz", 4), strict=True))
    nodes = [node(name, size) for name, size in sizes.items()]
    renamed = [node(names[name], size) for name, size in sizes.items()]
    chance.shuffle(renamed)
    one = binds(pack(cluster(nodes, pods), CATALOGUE))
    two = binds(pack(cluster(renamed, pods), CATALOGUE))
    sizes |= {names[name]: size for name, size in sizes.items()}
    assert {name: sizes[bind.node] for name, bind in one.items()} == {n: sizes[b.node] for n, b in two.items()}
    bound = [
        msgspec.structs.replace(p, node=one[p.name].node, slices=one[p.name].slices, phase=PodPhase.RUNNING)
        for p in pods
        if p.name in one
    ]
    for room in KeptRooms().of(cluster(nodes, bound), CATALOGUE).values():
        assert room.cpu_milli >= 0
        for device in room.devices.values():
            assert min(device.memory_mib, device.compute_milli, device.bandwidth_milli) >= 0


KINDS: tuple[dict[str, Any], ...] = (
    {"compute": 100, "memory": 4_000},
    {"compute": 100, "memory": 4_000, "tenant": "other"},
    {"compute": 100, "memory": 4_000, "isolation": Isolation.OWN_DEVICE},
    {"compute": 100, "memory": 4_000, "isolation": Isolation.OWN_NODE, "tenant": "walled"},
    {"compute": 300, "memory": 20_000, "share": (ShareMode.MIG,)},
    {"compute": 300, "memory": 20_000, "share": (ShareMode.MPS,)},
    {"compute": 400, "memory": 20_000, "classes": ("small", "big")},
    {"devices": 1, "priority": 5},
    {"devices": 1, "selector": {"disk": "fast"}},
    {"devices": 3, "priority": 9},
    {"compute": 200, "memory": 9_000, "type": WorkloadType.SERVING, "workload": "s"},
    {"devices": 1, "rules": Rules(apart=(PodTerm("kubernetes.io/hostname"),))},
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(KINDS), max_size=8), st.lists(st.sampled_from(KINDS), min_size=2, max_size=14))
def test_what_was_worked_out_for_one_pod_holds_for_the_next_that_is_alike(
    there: list[dict[str, Any]], wishes: list[dict[str, Any]]
) -> None:
    fast = msgspec.structs.replace(node("b", 2, rack="r", zone="z"), labels={"disk": "fast"})
    nodes = [node("a", 3, rack="r", zone="z"), fast, node("c", 2, cls="small")]
    guests = [pod(f"g{at:02}", **kind) for at, kind in enumerate(there)]
    seated = binds(pack(cluster(nodes, guests), CATALOGUE))
    inside = [
        msgspec.structs.replace(one, node=seat.node, slices=seat.slices, phase=PodPhase.RUNNING)
        for one in guests
        if (seat := seated.get(one.name)) is not None
    ]
    state = cluster(nodes, [*inside, *(pod(f"p{at:02}", **kind) for at, kind in enumerate(wishes))])
    found = pack(state, CATALOGUE)
    nobody = mock.Mock(return_value=None)
    with mock.patch.object(seating, "kind_of", nobody), mock.patch.object(packer, "kind_of", nobody):
        assert pack(state, CATALOGUE) == found


def test_a_pod_of_one_pool_hears_of_that_pool_alone() -> None:
    here, elsewhere = node("a1", 1), msgspec.structs.replace(node("b1", 8), pool="other")
    for name, told in (
        ("pool", {"a1"}),
        ("nowhere", {"nowhere"}),
    ):
        [held] = pack(cluster([here, elsewhere], [pod("wide", devices=4, pool=name)]), CATALOGUE)
        assert isinstance(held, Hold)
        assert {verdict.where for verdict in held.verdicts} == told
    [bound] = pack(cluster([here, elsewhere], [pod("wide", devices=4, pool="other")]), CATALOGUE)
    assert isinstance(bound, Bind)
    assert bound.node == "b1"


def names(*pods: Pod) -> list[list[str]]:
    return [[one.name for one in gang] for gang in gangs(pods)]


def test_the_most_urgent_gang_comes_first_then_the_oldest_then_the_first_name() -> None:
    assert names(pod("b"), pod("a"), pod("old", created_s=-1.0), pod("up", priority=1, created_s=9.0)) == [
        ["up"],
        ["old"],
        ["a"],
        ["b"],
    ]


def test_members_of_a_gang_stand_together_by_their_index_and_generations_apart() -> None:
    def member(name: str, index: int, generation: int = 0, size: int = 2) -> Pod:
        return pod(name, gang=size, workload="g", index=index, generation=generation)

    assert names(member("x", 1), member("y", 0)) == [["y", "x"]]
    assert names(member("x", 0), member("y", 0, generation=1)) == [["x"], ["y"]]
    assert names(member("x", 0, size=1), member("y", 1, size=1)) == [["x"], ["y"]]
    orphan = [msgspec.structs.replace(member(name, 0), workload="") for name in "xy"]
    assert names(*orphan) == [["x"], ["y"]]


def test_only_pods_that_wait_and_stay_are_packed() -> None:
    waiting = pod("w")
    others = [
        pod("r", phase=PodPhase.RUNNING),
        pod("bound", node="a"),
        pod("leaving", leaving=True),
        pod("ended", phase=PodPhase.SUCCEEDED),
    ]
    assert names(waiting, *others) == [["w"]]
    assert pack(cluster([node("a")], others), CATALOGUE) == ()


def test_a_gang_that_is_not_here_yet_is_held_with_both_numbers() -> None:
    gang = [pod(f"g{i}", devices=1, gang=3, workload="g", index=i) for i in range(2)]
    found = pack(cluster([node("a")], gang), CATALOGUE)
    clash = Verdict("gang", Reason.GANG_INCOMPLETE, "3 pods", "2 are here")
    assert found == tuple(Hold("g", (clash,), pod=one.name) for one in gang)
    pooled = [msgspec.structs.replace(one, pool="pool") for one in gang]
    (first, _) = pack(cluster([node("a")], pooled), CATALOGUE)
    assert isinstance(first, Hold)
    assert first.verdicts[0].where == "pool"


def test_every_member_of_a_gang_that_is_held_hears_the_same_reasons() -> None:
    gang = [pod(f"g{i}", devices=4, gang=2, workload="g", index=i) for i in range(2)]
    first, second = pack(cluster([node("a")], gang), CATALOGUE)
    assert isinstance(first, Hold)
    assert isinstance(second, Hold)
    assert (first.workload, first.pod, second.pod) == ("g", "g0", "g1")
    assert first.verdicts == second.verdicts


def test_who_is_like_one_that_was_just_refused_is_told_the_same_without_another_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []

    def counted(gang: list[Pod], *rest: object) -> tuple[Verdict, ...]:
        looks.append(gang[0].name)
        return misses(gang, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(packer, "misses", counted)
    wide = [pod(f"w{i}", devices=4, created_s=float(i)) for i in range(3)]
    busy = running([node("a")], [pod("x", devices=1)])
    found = [one for one in pack(cluster([node("a")], [*busy, *wide]), CATALOGUE) if isinstance(one, Hold)]
    assert ([one.pod for one in found], len({one.verdicts for one in found}), looks) == (
        ["w0", "w1", "w2"],
        1,
        ["w0"],
    )
    looks.clear()
    between = pod("s", devices=1, created_s=0.5)
    told = pack(cluster([node("a")], [*busy, *wide[:2], between]), CATALOGUE)
    assert [type(one).__name__ for one in told] == ["Hold", "Bind", "Hold"]
    assert looks == ["w0", "w1"], "somebody was seated between them"
