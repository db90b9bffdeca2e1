"""What packing remembers of a cluster: the make-up of its nodes, and each pod as a shape that prices count."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import Device, Pod, PodPhase
from dure.model.demand import Demand
from dure.pack.codes import WHOLE
from dure.pack.memory import Memory, hardware_of, idle_of, shape_of
from dure.pack.mix import Shape
from dure.pack.plain import plain_tables
from tests.unit.pack.worlds import A100, BIG, CATALOGUE, SMALL, cluster, node, pod, running

CLASSES = ("big", "small")
CUTS = (ShareMode.MIG,)


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        (pod("whole", devices=3), (3, WHOLE, -1, 0b01)),
        (pod("either", devices=1, classes=("small", "big")), (1, WHOLE, -1, 0b11)),
        (pod("elsewhere", devices=1, classes=("tiny",)), (1, WHOLE, -1, -1)),
        (pod("half", compute=500), (1, 500, -1, 0b01)),
        (pod("wide", compute=100, memory=40_960), (1, 500, -1, 0b01)),
        (pod("round", memory=81_921, classes=("big",)), (1, WHOLE, -1, 0b01)),
        (pod("host"), (0, 0, -1, 0b01)),
        (pod("slice", compute=200, memory=9_728, share=CUTS), (1, 200, 2, 0b01)),
        (pod("small", compute=100, memory=9_728, share=CUTS), (1, 119, 0, 0b01)),
        (pod("large", compute=400, memory=30_000, share=CUTS), (1, 400, 3, 0b01)),
        (pod("more", compute=100, memory=90_000, share=CUTS), (1, WHOLE, -1, 0b01)),
        (pod("mixed", compute=200, share=(ShareMode.MIG, ShareMode.MPS)), (1, 200, -1, 0b01)),
    ],
    ids=lambda found: found.name if isinstance(found, Pod) else "",
)
def test_a_pod_counts_as_devices_a_share_or_the_smallest_profile_that_covers_it(
    asked: Pod, shape: tuple[int, int, int, int]
) -> None:
    found = shape_of(asked, CATALOGUE, CLASSES)
    assert (found.pieces, found.milli, found.profile, found.types) == shape
    assert (found.cpu, found.mem) == (asked.demand.cpu_milli, asked.demand.host_memory_mib)


def test_the_hardware_is_counted_by_class_and_the_widest_node_sets_the_host_cpu() -> None:
    nodes = [node("a", 4), node("b", 2, cpu=96_000), node("c", 4, cls="small", cpu=32_000)]
    found, classes = hardware_of(cluster(nodes, []), CATALOGUE)
    assert classes == CLASSES
    assert (found.devices, found.widest, found.host_cpu, found.wide_cpu) == ((6, 4), 4, 96_000, (32_000, 64_000))
    assert (found.slots, found.geometries) == ((8, 0), (A100, None))
    nothing, none = hardware_of(cluster([], []), CATALOGUE)
    assert (none, nothing.devices, nothing.widest, nothing.host_cpu) == (("none",), (0,), 1, 1)


def test_idle_devices_are_counted_by_class_with_parts_as_parts() -> None:
    nodes = [node("a", 4), node("b", 2, cls="small"), node("c", 1)]
    asked = [
        pod("two", devices=2),
        pod("cut", compute=200, memory=9_728, share=CUTS),
        pod("share", compute=100, memory=81_920 // 4, share=(ShareMode.MPS,)),
        pod("other", devices=1, classes=("small",)),
    ]
    hardware, classes = hardware_of(cluster(nodes, []), CATALOGUE)
    sitting = running(nodes, asked)
    ended = replace(sitting[0], phase=PodPhase.SUCCEEDED)
    assert idle_of(cluster(nodes, asked), CATALOGUE, hardware, classes) == (5.0, 2.0)
    assert idle_of(cluster(nodes, sitting), CATALOGUE, hardware, classes) == (5.0 - 2.0 - 0.25 - 0.25, 1.0)
    assert idle_of(cluster(nodes, [ended]), CATALOGUE, hardware, classes) == (5.0, 2.0)


def test_what_demand_names_costs_more_once_little_of_it_is_idle() -> None:
    nodes = [node("a", 4), node("b", 4, cls="small")]
    named = [pod(f"p{index}", devices=1, classes=("big", "small")[: 1 + index % 2]) for index in range(40)]
    free, full = Memory(), Memory()
    for memory in (free, full):
        memory.learn(cluster(nodes, named[:1]), CATALOGUE)
    sitting = running(nodes, named[:3])
    before = free.learn(cluster(nodes, named), CATALOGUE)
    after = full.learn(cluster(nodes, [*sitting, *named[3:]]), CATALOGUE)
    assert (after.tables.rates[0] != before.tables.rates[0]).any()


def test_a_pod_is_counted_once_and_another_class_begins_a_new_count() -> None:
    memory = Memory()
    first, second = pod("one", devices=1), pod("two", devices=1)
    memory.learn(cluster([node("a")], [first]), CATALOGUE)
    memory.learn(cluster([node("a")], [first, second]), CATALOGUE)
    assert memory.mix is not None
    assert memory.mix.arrivals == 2
    grown = [node("a"), node("b")]
    memory.learn(cluster(grown, [first, second]), CATALOGUE)
    assert memory.mix.arrivals == 2, "more nodes of the same class are no reason to forget"
    memory.learn(cluster([*grown, node("s", cls="small")], [first, second]), CATALOGUE)
    assert memory.mix.arrivals == 2, "counted anew under the new classes"
    assert memory.classes == CLASSES


def test_who_held_something_and_no_longer_does_has_left_and_who_waited_in_vain_has_not() -> None:
    memory, nodes = Memory(), [node("a")]
    sitting = running(nodes, [pod("one", devices=1), pod("two", devices=1), pod("three", devices=1)])
    memory.learn(cluster(nodes, [*sitting, pod("waits", devices=4)]), CATALOGUE)
    assert memory.mix is not None
    assert memory.mix.turnover == 0.0
    ended = replace(sitting[0], phase=PodPhase.SUCCEEDED)
    for _ in range(2):
        memory.learn(cluster(nodes, [ended, sitting[1]]), CATALOGUE)
        assert memory.mix.turnover == pytest.approx(2 / 4, rel=1e-3)


def test_prices_are_made_anew_after_enough_arrivals_or_for_a_wider_node() -> None:
    memory = Memory()
    few = [pod(f"p{i}", devices=1) for i in range(7)]
    first = memory.learn(cluster([node("a")], []), CATALOGUE)
    assert memory.learn(cluster([node("a")], few), CATALOGUE) is first
    enough = [*few, pod("p7", devices=1)]
    second = memory.learn(cluster([node("a")], enough), CATALOGUE)
    assert second is not first
    moved = [replace(node("a"), zone="z")]
    assert memory.learn(cluster(moved, enough), CATALOGUE) is second
    assert memory.learn(cluster([*moved, node("wide", 8)], enough), CATALOGUE) is not second


def test_before_any_pod_whole_and_half_devices_with_their_share_of_the_hosts_are_expected() -> None:
    """Six devices on hosts with 160 cores; the host without a device does not count."""
    memory = Memory()
    memory.learn(cluster([node("a", 4, cpu=96_000), node("b", 2), node("c", 0, cpu=9)], []), CATALOGUE)
    assert memory.mix is not None
    cpu, mem = 160_000 // 6, 2 * 262_144 // 6
    assert memory.mix.shares() == [
        (Shape(cpu // 3, mem // 3, 1, 500, -1, -1), 0.5),
        (Shape(cpu * 3 // 4, mem * 3 // 4, 1, WHOLE, -1, -1), 0.5),
    ]
    empty = Memory()
    empty.learn(cluster([node("c", 0)], []), CATALOGUE)
    assert empty.mix is not None
    assert {shape.cpu for shape, _ in empty.mix.shares()} == {0}


def lessons(*arrivals: int) -> list[int]:
    """After how many pods in all prices were made anew, when so many arrive one after the other."""
    memory, found, seen = Memory(), [], 0
    before = memory.learn(cluster([node("a", 1)], []), CATALOGUE)
    for count in arrivals:
        seen += count
        pods = [pod(f"p{i}", devices=1) for i in range(seen)]
        priced = memory.learn(cluster([node("a", 1)], pods), CATALOGUE)
        if priced is not before:
            found.append(seen)
        before = priced
    return found


def test_prices_are_made_anew_when_the_mix_has_grown_by_half_but_no_later_than_after_512() -> None:
    assert lessons(7, 1, 7, 1) == [8, 16]
    assert lessons(40, 19, 1) == [40, 60]
    assert lessons(1100, 511, 1) == [1100, 1612]


def test_the_prices_for_seats_are_those_that_were_learned_last() -> None:
    memory = Memory()
    first = memory.learn(cluster([node("a")], []), CATALOGUE)
    assert memory.scorer().tables == plain_tables(first.tables)
    assert memory.scorer() is memory.scorer()
    second = memory.learn(cluster([node("a")], [pod(f"p{i}", devices=2) for i in range(9)]), CATALOGUE)
    assert memory.scorer().tables == plain_tables(second.tables) != plain_tables(first.tables)


def test_pods_that_left_and_come_back_are_new_and_those_who_stay_are_not() -> None:
    memory = Memory()
    one, two = pod("one", devices=1), pod("two", devices=1)
    for pods, counted in (([one], 1), ([], 1), ([one], 1), ([two], 2), ([one, two], 3)):
        memory.learn(cluster([node("a")], pods), CATALOGUE)
        assert memory.mix is not None
        assert memory.mix.arrivals == counted


def test_a_class_that_nobody_knows_or_with_too_many_slots_has_no_slot_tables() -> None:
    wide = replace(BIG, mig=replace(A100, slots=9))
    npu = replace(SMALL, vnpu=replace(A100, slots=4, profiles=A100.profiles[:1]))
    nodes = [node("a", 1), node("b", 1, cls="small"), replace(node("c", 0), devices=(Device("c/0", "alien"),))]
    for big, small, slots in ((BIG, SMALL, (0, 8, 0)), (wide, npu, (0, 0, 4))):
        found, classes = hardware_of(cluster(nodes, []), Catalogue({"big": big, "small": small}))
        assert classes == ("alien", "big", "small")
        assert found.slots == slots
        assert [bool(table) for table in found.steps] == [bool(count) for count in slots]
        assert [one is not None for one in found.geometries] == [bool(count) for count in slots]


def test_a_share_counts_by_what_it_needs_most_of_and_at_least_a_thousandth() -> None:
    def milli(classes: tuple[str, ...] = ("big",), **demand: int) -> tuple[int, int]:
        found = shape_of(replace(pod("p", classes=classes), demand=Demand(**demand)), CATALOGUE, CLASSES)
        return found.pieces, found.milli

    assert milli(compute_milli=200, bandwidth_milli=300) == (1, 300)
    assert milli(memory_mib=1) == (1, 1)
    assert milli(memory_mib=820) == (1, 11), "rounded up"
    assert milli(memory_mib=8192) == (1, 100)
    assert milli(memory_mib=24_576, classes=("small", "big")) == (1, 1000), "of the first class"
    assert milli(memory_mib=5, classes=("alien",)) == (1, 1), "nobody knows what part that is"
    assert milli() == (0, 0)
    assert milli(compute_milli=200, classes=()) == (0, 0)
    assert milli(compute_milli=1500) == (1, 1000)


def test_a_slice_is_looked_for_in_the_first_class_that_has_one_to_cover_it() -> None:
    half = replace(pod("p", compute=400, memory=1000, classes=("small", "big")), share=(ShareMode.MIG,))
    assert shape_of(half, CATALOGUE, CLASSES).profile == 3
    tiny = replace(SMALL, vnpu=replace(A100, profiles=A100.profiles[:1]))
    known = Catalogue({"big": BIG, "small": tiny})
    assert shape_of(half, known, CLASSES).profile == 3, "the first class has none that is large enough"
    exact = replace(pod("q", compute=142, memory=9_728, classes=("small",)), share=(ShareMode.VNPU,))
    assert shape_of(exact, known, CLASSES).profile == 0
    assert shape_of(replace(exact, classes=("alien",)), known, CLASSES).profile == -1
