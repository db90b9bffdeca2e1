"""Which seat is the best: wishes, the gang's nodes, spread, cost, what is left; and in which part of a cluster."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.accelerator import ShareMode
from dure.model.affinity import Match, NodeTerm, Operator, PodTerm, Rules
from dure.model.cluster import ClusterState, Device, Node, Pod, Slice
from dure.model.decision import Bind, Resize
from dure.model.reason import Verdict
from dure.model.workload import WorkloadType
from dure.pack.codes import CODES, NEVER, SCALARS, WIDE
from dure.pack.memory import Memory
from dure.pack.plain import PlainTables
from dure.pack.room import NodeRoom
from dure.pack.score import Scorer
from dure.pack.seating import USUAL, PackSettings, Seat, World, best_seat, bound, seat_gang, world_of
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running

MPS = (ShareMode.MPS,)


def indifferent(state: ClusterState) -> World:
    """A world in which every seat costs the same."""
    scal = [0] * SCALARS
    scal[WIDE] = int(NEVER)
    nothing = [0] * CODES
    return world_of(state, CATALOGUE)._replace(
        scorer=Scorer(PlainTables([], [[nothing]], [[[0] * 10]], [nothing], scal), ("big",))
    )


def choice(wish: Pod, nodes: list[Node], *there: Pod, gang: tuple[str, ...] = ()) -> str:
    world = indifferent(cluster(nodes, list(there)))
    seat = best_seat(wish, world, world.rooms, [world.rooms[name] for name in gang])
    assert seat is not None
    return " ".join([seat.room.node.name, *(part.device for part in seat.parts if len(seat.room.devices) > 1)])


def sized(name: str, devices: int = 1, **more: object) -> Node:
    return msgspec.structs.replace(node(name, devices), **more)


def test_a_pod_of_a_pool_sits_in_it() -> None:
    nodes = [sized("a", pool="x"), sized("b", pool="y")]
    assert choice(pod("p", devices=1, pool="y"), nodes) == "b"
    world = indifferent(cluster(nodes, []))
    assert best_seat(pod("p", devices=1, pool="z"), world, world.rooms, ()) is None


def test_among_equal_costs_the_node_with_less_cpu_then_less_memory_then_the_first_name_is_taken() -> None:
    wish = pod("p", devices=1)
    assert choice(wish, [sized("a"), sized("b", cpu_milli=63_000)]) == "b"
    assert choice(wish, [sized("a"), sized("b", memory_mib=262_143)]) == "b"
    assert choice(wish, [sized("a", memory_mib=1 << 20), sized("b", cpu_milli=64_001)]) == "a"
    assert choice(wish, [sized("b"), sized("a")]) == "a"


def test_a_member_stays_on_the_nodes_of_its_gang() -> None:
    wish = pod("p", devices=1)
    assert choice(wish, [sized("a"), sized("b")], gang=("b",)) == "b"
    assert choice(wish, [sized("a"), sized("b"), sized("c")], gang=("c", "b")) == "b"


def test_a_wish_for_a_node_goes_before_the_gang_and_the_spread() -> None:
    liked = Rules(likes=(NodeTerm(names=(Match("metadata.name", Operator.IN, ("b",)),), weight=1),))
    assert choice(pod("p", devices=1, rules=liked), [sized("a"), sized("b")], gang=("a",)) == "b"


def replica(name: str, **more: object) -> Pod:
    return pod(name, devices=1, workload="s", type=WorkloadType.SERVING, **more)  # type: ignore[arg-type]


def test_replicas_are_spread_by_zone_before_rack_before_node() -> None:
    nodes = [
        sized("a", 4, zone="1", rack="x", cpu_milli=10_000),
        sized("b", 4, zone="1", rack="y", cpu_milli=20_000),
        sized("c", 4, zone="1", rack="y", cpu_milli=30_000),
        sized("d", 4, zone="2", rack="x", cpu_milli=40_000),
    ]
    there: list[Pod] = []
    homes = []
    for number in range(4):
        home = choice(replica(f"s{number}"), nodes, *there).split()[0]
        homes.append(home)
        there += running([one for one in nodes if one.name == home], [replica(f"s{number}")])
    assert homes == ["a", "d", "b", "d"]
    third = running([nodes[3]], [replica("t0"), replica("t1"), replica("t2")])
    assert choice(replica("s9"), nodes, *there[:1], *there[2:3], *third).split()[0] == "c", "the racks are level"
    assert choice(pod("batch", devices=1, workload="s"), nodes, *there).split()[0] == "a", "only serving is spread"
    assert choice(msgspec.structs.replace(replica("x"), workload=""), nodes, *there).split()[0] == "a"


def mps(name: str, device: str, **part: int) -> Pod:
    held = msgspec.structs.replace(Slice(device, ShareMode.MPS), **part)
    return msgspec.structs.replace(pod(name, share=MPS), node=device[0], slices=(held,))


@pytest.mark.parametrize(
    "more", [{"memory_mib": 101}, {"compute_milli": 101}, {"bandwidth_milli": 101}], ids=lambda one: next(iter(one))
)
def test_among_equal_seats_the_device_with_less_left_is_taken(more: dict[str, int]) -> None:
    usual = {"memory_mib": 100, "compute_milli": 100, "bandwidth_milli": 100}
    wish = pod("p", compute=100, memory=100, share=MPS)
    there = [mps("x", "a/0", **usual), mps("y", "a/1", **usual), mps("z", "a/2", **{**usual, **more})]
    assert choice(wish, [sized("a", 3)], *there) == "a a/2"
    assert choice(wish, [sized("a", 3)], *there[:2], mps("z", "a/2", **usual)) == "a a/0", "and the first of equals"


def test_between_nodes_that_give_the_same_device_the_other_devices_decide() -> None:
    wish = pod("p", devices=1)
    there = [mps("x", "a/0", compute_milli=100), mps("y", "b/0", compute_milli=200)]
    assert choice(wish, [sized("a", 2), sized("b", 2)], *there) == "b b/1"


def gang_of(size: int, devices: int = 1, rules: Rules | None = None) -> list[Pod]:
    made = [pod(f"g{i}", devices=devices, gang=size, workload="g", index=i) for i in range(size)]
    return [
        msgspec.structs.replace(one, rules=rules or one.rules, namespace="ns", labels={"app": "g"}) for one in made
    ]


def homes(gang: list[Pod], nodes: list[Node], *there: Pod) -> str | None:
    world = indifferent(cluster(nodes, list(there)))
    seats = seat_gang(gang, world, world.rooms)
    for seat in seats or ():
        assert seat.pod.name in seat.room.pods, "taken"
    if seats is None:
        assert not any(one.name in room.pods for one in gang for room in world.rooms.values())
    return None if seats is None else "".join(sorted({seat.room.node.name for seat in seats}))


def racks(*shape: tuple[str, str, str, int]) -> list[Node]:
    return [sized(name, devices, zone=zone, rack=rack) for name, zone, rack, devices in shape]


def test_a_gang_sits_in_the_tightest_rack_that_holds_it_then_in_a_zone_then_anywhere() -> None:
    nodes = racks(("a", "1", "x", 3), ("b", "1", "x", 2), ("c", "1", "y", 2), ("d", "1", "y", 2), ("e", "2", "x", 6))
    assert [homes(gang_of(size), nodes) for size in (4, 5, 6)] == ["cd", "ab", "e"]
    assert set(homes(gang_of(7), nodes) or "") <= set("abcd"), "no rack, but a zone"
    assert (homes(gang_of(15), nodes), homes(gang_of(16), nodes)) == ("abcde", None)


def test_racks_of_the_same_name_in_two_zones_are_two_racks() -> None:
    nodes = racks(("a", "1", "x", 1), ("b", "2", "x", 1), ("c", "1", "y", 2))
    assert homes(gang_of(2), nodes) == "c"


def test_of_domains_with_equally_many_free_devices_the_one_with_less_host_cpu_is_tried_first() -> None:
    nodes = [sized("a", 2, zone="1", rack="x"), sized("b", 2, zone="1", rack="y", cpu_milli=32_000)]
    assert homes(gang_of(2), nodes) == "b"
    assert homes(gang_of(2), nodes[::-1]) == "b"


def test_a_gang_without_devices_needs_no_free_ones() -> None:
    assert homes(gang_of(2, devices=0), [sized("a", 1)], *running([sized("a", 1)], [pod("x", devices=1)])) is None
    world = indifferent(cluster([node("a", 0)], []))
    hosts = [msgspec.structs.replace(one, classes=(), claims=()) for one in gang_of(2, devices=0)]
    assert seat_gang(hosts, world, world.rooms) is None, "without classes there is no device for a share"


def test_a_gang_that_must_be_together_is_tried_in_the_tightest_of_those_domains_first() -> None:
    near = Rules(together=(PodTerm("kubernetes.io/hostname", (Match("app", Operator.IN, ("g",)),), ("ns",)),))
    nodes = racks(("a", "1", "x", 4), ("b", "1", "y", 3), ("c", "1", "y", 1))
    assert homes(gang_of(3, rules=near), nodes) == "b"
    assert homes(gang_of(4, rules=near), nodes) == "a"
    assert homes(gang_of(5, rules=near), nodes) is None


def test_one_pod_is_a_gang_of_one() -> None:
    assert homes([pod("p", devices=1)], [sized("a")]) == "a"
    assert homes([pod("p", devices=2)], [sized("a")]) is None


def test_a_bind_follows_the_changes_of_mode_that_it_needs() -> None:
    was, fits = Device("a/0", "big", ShareMode.TIMESLICE), Device("a/1", "big", ShareMode.MPS)
    world = world_of(cluster([msgspec.structs.replace(node("a", 0), devices=(was, fits))], []), CATALOGUE)
    room, wish = world.rooms["a"], pod("p", share=MPS, workload="w")
    parts = (Slice("a/0", ShareMode.MPS), Slice("a/1", ShareMode.MPS))
    room.take(wish, parts)
    why = Verdict("a/0", None, "mps for p", "was timeslice and empty")
    bind = Bind("p", "uid-p", "a", parts, "w")
    assert bound(Seat(wish, room, parts)) == [Resize("a", "a/0", ShareMode.MPS, why), bind]
    room.take(pod("q"), parts[:1])
    assert bound(Seat(wish, room, parts)) == [bind], "somebody is on it already: its mode was changed before"


def test_a_world_learns_and_has_nothing_spent() -> None:
    memory = Memory()
    state = cluster([node("a")], [pod("p", devices=1)])
    world = world_of(state, CATALOGUE, memory)
    assert memory.mix is not None
    assert memory.mix.arrivals == 1
    assert (world.settings, world.spent, list(world.rooms)) == (USUAL, {}, ["a"])
    assert isinstance(world.rooms["a"], NodeRoom)
    assert world_of(state, CATALOGUE, settings=PackSettings(preempt=False)).settings.preempt is False
