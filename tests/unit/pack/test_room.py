"""What is free on a node: every figure by hand, taken and given back, and copies that do not touch the first."""

from __future__ import annotations

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.affinity import PodTerm, Rules
from dure.model.claim import Allotted
from dure.model.cluster import Device, NodePhase, Pod, PodPhase, Slice
from dure.model.decision import Bind
from dure.model.tenant import Isolation
from dure.pack import Memory, pack
from dure.pack.room import DeviceRoom, KeptRooms, NodeRoom, copied, room_of
from tests.unit.pack.worlds import BIG, CATALOGUE, cluster, node, pod

HALF = Slice("a/0", ShareMode.MIG, "3g.40gb", 4, 4, memory_mib=38_912, compute_milli=426, bandwidth_milli=500)
SMALL = Slice("a/0", ShareMode.MIG, "1g.10gb", 0, 1, memory_mib=9_728, compute_milli=142, bandwidth_milli=125)


def figures(room: DeviceRoom) -> tuple[object, ...]:
    return (
        (room.mode, room.mask, room.compute_slices, room.memory_mib, room.compute_milli, room.bandwidth_milli),
        (room.instances, room.tenants, room.walled, room.clients, room.empty),
    )


def host_figures(room: NodeRoom) -> tuple[object, ...]:
    return (
        (room.cpu_milli, room.memory_mib, room.tenants, room.workloads, sorted(room.pods)),
        (room.fences, room.allotted, room.walled, room.free_whole),
    )


def test_what_was_only_tried_leaves_nothing_behind_not_even_a_mode() -> None:
    room = room_of(node("a", 2), [], CATALOGUE)
    ways = room.ways[0] = ((), (), None)
    before = host_figures(room), [figures(device) for device in room.devices.values()]
    with room.tried(pod("x"), [SMALL]):
        assert room.devices["a/0"].mode is ShareMode.MIG
        assert (room.ways, room.workloads) == ({}, {"x": 1})
    assert (host_figures(room), [figures(device) for device in room.devices.values()]) == before
    assert room.ways[0] is ways


def test_what_was_known_of_a_room_is_forgotten_when_it_changes_and_kept_in_its_copy() -> None:
    room = room_of(node("a", 2), [], CATALOGUE)
    room.ways[0] = ((), (), None)
    twin = copied(room)
    room.take(pod("x"), [SMALL])
    assert (room.ways, twin.ways) == ({}, {0: ((), (), None)})
    room.ways[0] = ((), (), None)
    room.give_back(pod("x"), [SMALL])
    assert room.ways == {}


def test_slices_of_a_device_add_up_and_are_given_back() -> None:
    room = DeviceRoom(Device("a/0", "big", ShareMode.MPS), BIG)
    assert figures(room) == ((ShareMode.MPS, 0, 0, 81_920, 1000, 1000), ({}, {}, 0, 0, True))
    own, other = pod("x", isolation=Isolation.OWN_DEVICE), pod("y", tenant="u")
    room.take(HALF, own)
    room.take(SMALL, other)
    assert figures(room) == (
        (ShareMode.MIG, 0b11110001, 4, 81_920 - 38_912 - 9_728, 1000 - 426 - 142, 1000 - 500 - 125),
        ({"3g.40gb": 1, "1g.10gb": 1}, {"t": 1, "u": 1}, 1, 2, False),
    )
    room.give_back(HALF, own)
    room.give_back(SMALL, other)
    assert figures(room) == ((ShareMode.MIG, 0, 0, 81_920, 1000, 1000), ({}, {}, 0, 0, True))


def test_a_profile_that_nobody_knows_takes_its_slots_and_no_compute_slices() -> None:
    room = DeviceRoom(Device("a/0", "big"), BIG)
    room.take(msgspec.structs.replace(SMALL, profile="9g.90gb"), pod("x"))
    assert (room.compute_slices, room.instances, room.mask) == (0, {"9g.90gb": 1}, 1)
    room.take(Slice("a/0", ShareMode.MPS, "share"), pod("y"))
    assert room.compute_slices == 0


def test_strangers_keep_a_walled_tenant_off_a_device_and_are_kept_off_by_one() -> None:
    def admitted(first: Isolation, second: Isolation, *, same: bool = False) -> bool:
        room = DeviceRoom(Device("a/0", "big"), BIG)
        room.take(SMALL, pod("x", isolation=first))
        room.take(SMALL, pod("z"))
        return room.admits(pod("y", tenant="t" if same else "u", isolation=second))

    open_, walled = Isolation.SHARED, Isolation.OWN_DEVICE
    assert (admitted(open_, open_), admitted(open_, walled), admitted(walled, open_)) == (True, False, False)
    assert admitted(walled, walled, same=True)
    assert DeviceRoom(Device("a/0", "big"), BIG).admits(pod("y", isolation=walled))


def busy() -> Pod:
    fenced = Rules(apart=(PodTerm("zone"),))
    given = (Allotted("c", "r", "d/1"), Allotted("c", "s", "d/2"))
    return pod("x", rules=fenced, allotted=given, isolation=Isolation.OWN_NODE, workload="w")


def test_a_pod_takes_host_capacity_names_fences_and_claimed_devices_and_gives_all_back() -> None:
    room = room_of(node("a", 2), (), CATALOGUE)
    assert host_figures(room) == ((64_000, 262_144, {}, {}, []), (set(), {}, 0, 2))
    room.take(busy(), (HALF,))
    room.take(pod("y", workload="w"), (Slice("gone/7", ShareMode.MPS),))
    assert host_figures(room) == (
        (60_000, 253_952, {"t": 2}, {"w": 2}, ["x", "y"]),
        ({"x"}, {"d/1": 1, "d/2": 1}, 1, 1),
    )
    assert room.devices["a/0"].mask == 0b11110000
    room.give_back(pod("y", workload="w"), (Slice("gone/7", ShareMode.MPS),))
    room.give_back(busy(), (HALF,))
    assert host_figures(room) == ((64_000, 262_144, {}, {}, []), (set(), {}, 0, 2))


def test_a_node_with_a_tenant_of_its_own_admits_no_stranger() -> None:
    room = room_of(node("a"), (busy(),), CATALOGUE)
    assert (room.admits(pod("y")), room.admits(pod("y", tenant="u"))) == (True, False)
    shared = room_of(node("a"), (pod("x"), pod("z")), CATALOGUE)
    assert shared.admits(pod("y", tenant="u"))
    assert not shared.admits(pod("y", tenant="u", isolation=Isolation.OWN_NODE))
    assert shared.admits(pod("y", isolation=Isolation.OWN_NODE))


def test_an_ill_device_is_not_free() -> None:
    ill = msgspec.structs.replace(node("a", 1), devices=(Device("a/0", "big", healthy=False), Device("a/1", "big")))
    assert room_of(ill, (), CATALOGUE).free_whole == 1


def test_rooms_are_of_the_nodes_that_are_there_with_those_who_hold_them() -> None:
    nodes = [node("a", 1), msgspec.structs.replace(node("b", 1), phase=NodePhase.GONE)]
    there = [
        pod("bound", node="a", slices=(SMALL,), phase=PodPhase.STARTING),
        pod("ended", node="a", slices=(SMALL,), phase=PodPhase.FAILED),
        pod("lost", node="b", phase=PodPhase.RUNNING),
        pod("waits"),
    ]
    rooms = KeptRooms().of(cluster(nodes, there), CATALOGUE)
    assert list(rooms) == ["a"]
    assert list(rooms["a"].pods) == ["bound"]
    assert rooms["a"].devices["a/0"].clients == 1


def test_what_happens_in_a_copy_stays_there() -> None:
    room = room_of(node("a", 2), (busy(),), CATALOGUE)
    room.devices["a/0"].take(SMALL, busy())
    before = host_figures(room), figures(room.devices["a/0"])
    held = [dict(room.tenants), dict(room.workloads), set(room.fences), dict(room.allotted), dict(room.pods)]
    twin = copied(room)
    assert (host_figures(twin), figures(twin.devices["a/0"])) == before
    fenced = msgspec.structs.replace(
        busy(), name="y", tenant="u", workload="v", allotted=(Allotted("c", "r", "d/3"),)
    )
    twin.take(fenced, (HALF,))
    assert (host_figures(room), figures(room.devices["a/0"])) == before
    assert [room.tenants, room.workloads, room.fences, room.allotted, room.pods] == held
    assert host_figures(twin) != before[0]


def test_a_node_is_built_anew_only_when_it_or_a_pod_on_it_is_another() -> None:
    kept = KeptRooms()
    there = msgspec.structs.replace(pod("p", devices=1), node="a", phase=PodPhase.RUNNING)
    nodes = [node("a", 2), node("b", 2)]
    first = kept.of(cluster(nodes, [there]), CATALOGUE)
    again = kept.of(cluster(nodes, [there]), CATALOGUE)
    assert again["a"] is first["a"]
    gone = kept.of(cluster(nodes, []), CATALOGUE)
    assert gone["a"] is not first["a"]
    assert not gone["a"].pods
    assert gone["b"] is first["b"]
    wider = kept.of(cluster([nodes[0], node("b", 4)], []), CATALOGUE)
    assert len(wider["b"].devices) == 4
    less = msgspec.structs.replace(CATALOGUE, models={})
    assert kept.of(cluster(nodes, []), less)["a"] is not gone["a"]


def test_a_room_that_somebody_worked_on_is_not_kept() -> None:
    memory, world = Memory(), cluster([node("a", 1)], [pod("p", devices=1)])
    assert pack(world, CATALOGUE, memory) == pack(world, CATALOGUE, memory)
    assert isinstance(pack(world, CATALOGUE, memory)[0], Bind)


def test_what_a_kept_room_knows_of_a_kind_of_pods_is_what_a_new_one_would_say() -> None:
    memory = Memory()
    nodes = [node("a", 2), node("b", 2)]
    bound: list[Pod] = []
    for number in range(4):
        wanted = pod(f"p{number}", devices=1, tenant=f"t{number % 2}")
        world = cluster(nodes, [*bound, wanted])
        [found] = [one for one in pack(world, CATALOGUE, memory) if isinstance(one, Bind)]
        fresh = Memory()
        fresh.priced, fresh.mix, fresh.classes = memory.priced, memory.mix, memory.classes
        fresh._hardware, fresh._nodes, fresh._seen = memory._hardware, memory._nodes, set(memory._seen)
        fresh._learned, fresh._fleet = memory._learned, memory._fleet
        assert found in pack(world, CATALOGUE, fresh)
        bound.append(msgspec.structs.replace(wanted, node=found.node, slices=found.slices, phase=PodPhase.RUNNING))
