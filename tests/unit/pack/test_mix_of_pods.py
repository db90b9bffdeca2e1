"""What packing remembers of a cluster: the make-up of its nodes, and each pod as a shape that prices count."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.accelerator import ShareMode
from dure.model.cluster import Pod
from dure.pack.codes import WHOLE
from dure.pack.memory import Memory, hardware_of, shape_of
from tests.unit.pack.worlds import A100, CATALOGUE, cluster, node, pod

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
