"""What is left of a pool while a cycle hands it out: whole devices node by node, shares device by device."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.demand import Demand
from dure.model.reason import Reason
from dure.place.room import PoolRoom
from tests.fixtures.small_world import GIB
from tests.unit.place.worlds import pool

BIG_MIB = 40 * GIB


def room(*free: int, unbooted: int = 0) -> PoolRoom:
    """Nodes of four devices with so many free, and some that could be booted."""
    nodes = len(free)
    made = replace(pool("a", nodes=nodes), free_whole=free, free_milli=sum(free) * 1000, nodes_max=nodes + unbooted)
    return PoolRoom(made)


@pytest.mark.parametrize(
    ("free", "unbooted", "devices", "replicas", "reason"),
    [
        ((4, 2), 0, 2, 3, None),
        ((4, 2), 0, 3, 2, Reason.FRAGMENTED),
        ((4, 2), 0, 2, 4, Reason.NO_CAPACITY),
        ((1, 1), 0, 2, 1, Reason.FRAGMENTED),
        ((4, 2), 1, 4, 2, None),
        ((0,), 0, 1, 1, Reason.NO_CAPACITY),
    ],
)
def test_members_need_their_devices_on_one_node_each(
    free: tuple[int, ...], unbooted: int, devices: int, replicas: int, reason: Reason | None
) -> None:
    found = room(*free, unbooted=unbooted).clash(Demand(devices=devices), replicas, BIG_MIB)
    assert (found and found.reason) is reason


@pytest.mark.parametrize(
    ("made", "demand", "replicas", "spare"),
    [
        (room(4, 2, unbooted=1), Demand(devices=2), 3, None),
        (room(4, 2, unbooted=1), Demand(devices=2), 4, 2),
        (room(4, 2, unbooted=2), Demand(devices=3), 2, 1),
        (room(1, unbooted=2), Demand(devices=3), 2, 2),
        (room(1, unbooted=2), Demand(devices=4), 2, 0),
        (room(unbooted=1), Demand(devices=1), 1, 3),
        (room(1), Demand(compute_milli=500), 2, None),
        (room(1, unbooted=1), Demand(compute_milli=500), 3, 3.5),
        (room(unbooted=2), Demand(compute_milli=900), 5, 3.5),
        (room(unbooted=1), Demand(compute_milli=500), 8, 0.0),
    ],
)
def test_a_node_is_booted_only_when_those_that_run_do_not_do_and_the_rest_of_it_is_spare(
    made: PoolRoom, demand: Demand, replicas: int, spare: float | None
) -> None:
    assert made.spare_booted(demand, replicas) == spare


@pytest.mark.parametrize(
    ("made", "demand", "fitting"),
    [
        (room(4, 3), Demand(devices=2), 3),
        (room(4, 3, unbooted=2), Demand(devices=2), 7),
        (room(0), Demand(devices=1), 0),
        (room(1, unbooted=1), Demand(compute_milli=400), 2 + 4 * 2),
        (room(1), Demand(compute_milli=400, memory_mib=BIG_MIB + 1), 0),
        (PoolRoom(replace(pool("a"), free_milli=800, largest_compute_milli=200)), Demand(compute_milli=400), 0),
    ],
)
def test_room_is_counted_on_nodes_that_could_be_booted_as_well(made: PoolRoom, demand: Demand, fitting: int) -> None:
    assert made.fitting(demand) == fitting


def test_what_was_taken_is_gone_and_the_fullest_node_is_used_up_first() -> None:
    left = room(4, 2)
    left.take(Demand(devices=2), 1)
    assert left.clash(Demand(devices=4), 1, BIG_MIB) is None
    left.take(Demand(devices=1), 1)
    assert left.clash(Demand(devices=4), 1, BIG_MIB) is not None
    assert left.clash(Demand(devices=3), 1, BIG_MIB) is None


def test_all_replicas_take_their_part_of_the_hosts() -> None:
    left = room(4, 4)
    left.take(Demand(devices=1, cpu_milli=3000, host_memory_mib=5), 3)
    assert (left.host(0), left.host(1), left.devices_free) == (2 * 64_000 - 9000, 2 * 512 * GIB - 15, 5)


def test_shares_are_counted_in_thousandths_of_a_device() -> None:
    half = Demand(compute_milli=500, memory_mib=GIB)
    left = room(1)
    assert left.clash(half, 2, BIG_MIB) is None
    left.take(half, 1)
    found = left.clash(half, 2, BIG_MIB)
    assert found is not None
    assert found.sentence == "needs 1.00 devices, a/big has 0.50 left"
    assert left.clash(half, 1, BIG_MIB) is None


def test_what_is_missing_is_told_with_what_there_is() -> None:
    def told(left: PoolRoom, devices: int, replicas: int) -> str:
        found = left.clash(Demand(devices=devices), replicas, BIG_MIB)
        assert found is not None
        return found.sentence

    assert told(room(4, 2), 3, 2) == "needs 2 x 3 whole devices, 6 are free in a/big but at most 4 on one node"
    assert told(room(1, 1), 2, 1) == "needs 2 whole devices, 2 are free in a/big but at most 1 on one node"
    assert told(room(1, 1, unbooted=1), 4, 2) == "needs 2 x 4 whole devices, a/big has 6 free"
    assert told(room(1), 2, 1) == "needs 2 whole devices, a/big has 1 free"


@pytest.mark.parametrize(
    ("demand", "told"),
    [
        (Demand(memory_mib=9 * GIB, compute_milli=1), "needs 9 GiB, largest free slice in a/big is 8 GiB"),
        (Demand(compute_milli=301), "needs 30.1 % of a device, largest free share in a/big is 30 %"),
        (Demand(memory_mib=8 * GIB, compute_milli=300), ""),
    ],
)
def test_a_share_must_fit_into_the_largest_slice_unless_a_fresh_node_can_be_had(demand: Demand, told: str) -> None:
    worn = replace(pool("a"), largest_memory_mib=8 * GIB, largest_compute_milli=300)
    found = PoolRoom(worn).clash(demand, 1, BIG_MIB)
    assert (found.sentence if found else "") == told
    grows = PoolRoom(replace(worn, nodes_max=2))
    assert grows.clash(demand, 1, BIG_MIB) is None
    assert grows.clash(Demand(memory_mib=BIG_MIB, compute_milli=1000), 1, BIG_MIB) is None
    assert grows.clash(Demand(memory_mib=BIG_MIB + 1), 1, BIG_MIB) is not None
    assert grows.clash(Demand(compute_milli=1001), 1, BIG_MIB) is not None


def test_nodes_that_could_be_booted_are_room_and_are_used_last() -> None:
    left = room(1, unbooted=2)
    assert (left.free_milli, left.devices_free, left.unbooted) == (9000, 9, [4, 4])
    left.take(Demand(devices=1), 2)
    assert (left.free, left.unbooted, left.free_milli) == ([0], [3, 4], 7000)
    left.take(Demand(devices=3), 1)
    assert (left.free, left.unbooted) == ([0], [0, 4])
    left.take(Demand(compute_milli=250), 2)
    assert (left.free_milli, left.devices_free) == (3500, 4)
    shrunk = PoolRoom(replace(pool("a", nodes=2), nodes_max=1))
    assert (shrunk.unbooted, shrunk.free_milli) == ([], 8000)
