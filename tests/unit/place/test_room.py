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
