from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.adapters.memory.laws import CALM
from dure.model.cluster import NodePhase
from dure.model.errors import InvalidInput
from dure.model.tariff import Capacity
from dure.model.units import DAY_S, HOUR_S
from tests.fixtures.embedded import Bench
from tests.fixtures.small_world import desired, fraction, pool, service, training

SPOT = pool("big", "big", nodes=4, devices=2, capacity=Capacity.SPOT, reclaim_per_hour=0.2)
ELASTIC = pool("big", "big", nodes=1, nodes_max=4, devices=4)


def until_notice(bench: Bench) -> str:
    """The first node that is told to go."""
    for _ in range(10_000):
        told = [node.name for node in bench.nodes() if node.reclaim_at_s is not None]
        if told:
            return told[0]
        bench.after(30.0)
    raise AssertionError("no node was ever reclaimed")


def test_a_reclaimed_node_gets_a_two_minute_notice_and_takes_its_pods_with_it() -> None:
    bench = Bench(SPOT, hazards=replace(CALM, reclaim=True))
    bench.port.apply(desired(training("t", gang=8, duration_s=1e9, checkpoint_s=60.0)))
    bench.bind_whole("uid-t")
    name = until_notice(bench)
    node = next(node for node in bench.nodes() if node.name == name)
    assert node.phase is NodePhase.DRAINING
    assert node.reclaim_at_s is not None
    assert 90.0 <= node.reclaim_at_s - bench.clock.now() <= 120.0
    assert bench.seen("uid-t").ready == 8
    bench.clock.advance(node.reclaim_at_s)
    seen = bench.seen("uid-t")
    assert seen.lost == f"SpotReclaimed: node {name} was taken back"
    assert seen.done_s > 0
    assert name not in {node.name for node in bench.nodes()}


def test_a_reclaimed_spot_node_is_followed_by_another() -> None:
    bench = Bench(SPOT, hazards=replace(CALM, reclaim=True))
    name = until_notice(bench)
    bench.after(DAY_S)
    names = {node.name for node in bench.nodes()}
    assert name not in names
    assert 3 <= len(names) <= 5


def test_spot_nodes_are_reclaimed_about_as_often_as_the_tariff_says() -> None:
    bench = Bench(replace(SPOT, nodes=50), hazards=replace(CALM, reclaim=True))
    first = {node.name for node in bench.nodes()}
    bench.after(2 * HOUR_S)
    stayed = first & {node.name for node in bench.nodes() if node.reclaim_at_s is None}
    assert 24 <= len(stayed) <= 40  # 50 x 0.8^2 = 32


def test_a_serving_replica_on_a_lost_node_waits_again() -> None:
    bench = Bench(SPOT, hazards=replace(CALM, reclaim=True))
    bench.port.apply(desired(service("s", replicas=8)))
    bench.bind_whole("uid-s")
    until_notice(bench)
    bench.after(120.0)
    seen = bench.seen("uid-s")
    assert (seen.pods, seen.lost) == (8, "")
    assert seen.bound < 8
    assert "SpotReclaimed" in seen.message


def test_devices_fail_rarely_and_are_repaired() -> None:
    fragile = replace(CALM, device_mtbf_h=100.0, repair_s=4.0 * HOUR_S)
    bench = Bench(pool("big", "big", nodes=4, devices=4), hazards=fragile)
    bench.port.apply(desired(training("t", gang=16, duration_s=1e9)))
    bench.bind_whole("uid-t")
    while not bench.seen("uid-t").lost:
        bench.after(600.0)
    assert "failed" in bench.seen("uid-t").lost
    sick = {device.id for node in bench.nodes() for device in node.devices if not device.healthy}
    assert sick
    bench.after(7 * HOUR_S)
    healthy = {device.id for node in bench.nodes() for device in node.devices if device.healthy}
    assert sick & healthy


def test_scale_pool_boots_nodes_that_join_after_their_boot_time() -> None:
    bench = Bench(replace(ELASTIC, boot_s=100.0), provision=False)
    bench.port.scale_pool("big", 3)
    assert sorted(node.phase for node in bench.nodes()) == [NodePhase.BOOTING, NodePhase.BOOTING, NodePhase.READY]
    bench.after(89.0)
    assert sum(node.phase is NodePhase.READY for node in bench.nodes()) == 1
    bench.after(42.0)
    assert sum(node.phase is NodePhase.READY for node in bench.nodes()) == 3


def test_scaling_in_takes_idle_nodes_and_leaves_busy_ones() -> None:
    bench = Bench(replace(ELASTIC, nodes=3), provision=False)
    bench.port.apply(desired(training("t", gang=5)))
    bench.bind_whole("uid-t")
    bench.port.scale_pool("big", 0)
    assert {node.name for node in bench.nodes()} == {pod.node for pod in bench.pods("uid-t")}
    assert bench.seen("uid-t").bound == 5


@pytest.mark.parametrize(("name", "wanted"), [("big", 5), ("big", -1), ("nobody", 1)])
def test_a_pool_cannot_be_scaled_beyond_its_limits(name: str, wanted: int) -> None:
    with pytest.raises(InvalidInput, match="nodes, not"):
        Bench(ELASTIC).port.scale_pool(name, wanted)


def test_nodes_boot_for_pods_that_find_no_room_and_leave_when_idle() -> None:
    bench = Bench(ELASTIC)
    bench.port.apply(desired(training("t", gang=10, duration_s=100.0)))
    bench.after(31.0)
    assert len(bench.nodes()) == 4
    bench.after(200.0)
    bench.bind_whole("uid-t")
    bench.after(400.0)
    assert bench.seen("uid-t").succeeded == 10
    bench.port.delete("uid-t")
    bench.after(1000.0)
    assert len(bench.nodes()) == 1


def test_pods_that_get_bound_at_once_boot_nothing() -> None:
    bench = Bench(ELASTIC)
    bench.port.apply(desired(training("t", gang=4)))
    bench.bind_whole("uid-t")
    bench.after(600.0)
    assert len(bench.nodes()) == 1


def test_a_share_of_a_device_boots_one_node_only() -> None:
    bench = Bench(replace(ELASTIC, nodes=0))
    bench.port.apply(desired(fraction("f")))
    bench.after(60.0)
    assert len(bench.nodes()) == 1
