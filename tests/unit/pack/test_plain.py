"""The potential of a node, term by term, on tables that can be added up by hand; the state of a device as a code."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from dure.model.accelerator import Geometry, ShareMode
from dure.model.cluster import Device, Pod, Slice
from dure.model.tenant import Isolation
from dure.pack.codes import (
    BACK,
    BACK_CPU,
    BINS,
    CORE_PRICE,
    CUT0,
    ISOLATION_PRICE,
    RAM_PER_DEVICE,
    RAM_PRICE,
    RHO,
    SCALARS,
    SHIFT,
    SWITCH_PRICE,
    TIE_CPU,
    TIE_IDLE,
    WHOLE,
    WIDE,
    WIDE_PRICE,
)
from dure.pack.plain import PlainNode, PlainTables, potential, pull, step_cost
from dure.pack.room import DeviceRoom, NodeRoom
from dure.pack.score import Scorer, code_of
from tests.unit.pack.worlds import BIG, SMALL, node, pod

ONE = 1 << SHIFT
NOTHING: Mapping[int, int] = {}
CODES = (*range(WHOLE + 1), *range(CUT0, CUT0 + 256))


def tables(scalars: Mapping[int, int] = NOTHING, types: int = 1) -> PlainTables:
    """Two levels of host CPU, at most two devices. On the upper level a device is worth its code, on the lower twice
    that; whole devices save 10 and 30 (upper level); idle capacity costs one for each thousandth."""
    scal = [0] * SCALARS
    scal[WIDE] = 99
    for at_column, figure in scalars.items():
        scal[at_column] = figure
    idles = [code if code <= WHOLE else (8 - (code - CUT0).bit_count()) * 125 for code in CODES]
    value = [[2 * code for code in CODES], list(CODES)]
    rates = [[0, 0, 0, ONE], [0, 10, 30, ONE]]
    return PlainTables([4000], [value] * types, [rates] * types, [idles] * types, scal)


def at(*codes: int, cpu: int = 4000, mem: int = 0) -> PlainNode:
    return PlainNode(cpu, mem, 0, codes)


def test_devices_whole_devices_and_idle_capacity_add_up() -> None:
    assert potential(tables(), at(300)) == 300 + 300
    assert potential(tables(), at(300, cpu=3999)) == 600 + 300, "below the level"
    assert potential(tables(), at(WHOLE, 300)) == 1300 + 1300 - 10
    assert potential(tables(), at(WHOLE, CUT0)) == WHOLE + CUT0 + 2000 - 30, "an uncut device is whole in either code"
    assert potential(tables(), at(CUT0 + 1)) == CUT0 + 1 + 875
    assert potential(tables(), at(0)) == 0


def test_missing_cores_cost_at_every_point_of_the_demand() -> None:
    t = tables()
    t.scal[RHO], t.scal[RHO + 1], t.scal[RHO + BINS - 1] = 6 * ONE, 5 * ONE, 4 * ONE
    base = potential(tables(), at(WHOLE, cpu=5000))
    assert potential(t, at(WHOLE, cpu=6000)) == base
    assert potential(t, at(WHOLE, cpu=5000)) == base + 1000 * CORE_PRICE
    assert potential(t, at(WHOLE, cpu=4500)) == base + (1500 + 500) * CORE_PRICE
    assert potential(t, at(500, cpu=4000)) == potential(tables(), at(500)), "half a device needs half of it"
    t.scal[RHO + BINS] = 99 * ONE
    assert potential(t, at(WHOLE, cpu=6000)) == base, "what stands behind the points is something else"


def test_cores_are_wanted_beside_what_comes_back_too() -> None:
    """Half a device comes back with two of the cores that it used; its next user needs three, at one point four."""
    t = tables({BACK: 500, BACK_CPU: 4 * ONE})
    t.scal[RHO : RHO + BINS] = [6 * ONE] * BINS
    t.scal[RHO] = 8 * ONE
    base, still = tables(), (BINS - 1) * CORE_PRICE
    assert potential(t, at(0, cpu=4000)) == potential(base, at(0)), "cores to spare"
    assert potential(t, at(0, cpu=500)) == potential(base, at(0, cpu=500)) + 500 * still + 1500 * CORE_PRICE
    assert potential(t, at(800, cpu=4800)) == potential(base, at(800)) + 400 * still + 2400 * CORE_PRICE, (
        "0.2 is held"
    )
    assert potential(t, at(WHOLE, cpu=6000)) == potential(base, at(WHOLE)) + 2000 * CORE_PRICE, "nothing is held"


def test_missing_memory_costs_by_the_gib() -> None:
    t = tables({RAM_PER_DEVICE: 4 * ONE, RAM_PRICE: 8000})
    base = potential(tables(), at(WHOLE))
    assert potential(t, at(WHOLE, mem=4000)) == base
    assert potential(t, at(WHOLE, mem=4000 - 1024)) == base + 8000
    assert potential(t, at(WHOLE, mem=4000 - 1)) == base + 8000 // 1024
    assert potential(t, at(500, mem=4000 - 2512)) == potential(tables(), at(500)) + 512 * 8000 // 1024


def test_a_wide_node_that_is_broken_costs_and_a_narrow_one_does_not() -> None:
    t = tables({WIDE: 2, WIDE_PRICE: 7})
    for codes, extra in (((WHOLE, 999), 7), ((0, 0), 7), ((WHOLE, WHOLE), 0), ((WHOLE, CUT0), 0), ((500,), 0)):
        assert potential(t, at(*codes)) == potential(tables(), at(*codes)) + extra


def test_a_step_costs_the_change_of_potential_and_the_pull_of_what_is_left() -> None:
    t = tables({TIE_CPU: 3 * ONE, TIE_IDLE: 5 * ONE})
    before, after = at(WHOLE, 300, cpu=6000), at(WHOLE, 100, cpu=5000)
    assert pull(t, after) == 3 * 5000 + 5 * 1100
    assert step_cost(t, before, after) == potential(t, after) - potential(t, before) + 3 * 5000 + 5 * 1100


def device(mode: ShareMode = ShareMode.EXCLUSIVE, *, healthy: bool = True) -> DeviceRoom:
    return DeviceRoom(Device("d", "big", mode, healthy=healthy), BIG)


def held(room: DeviceRoom, **part: object) -> DeviceRoom:
    made = {"mode": room.mode, **part}
    room.take(Slice("d", **made), pod("p"))  # type: ignore[arg-type]
    return room


def test_the_code_of_a_device_is_what_is_left_of_the_scarcer_of_compute_and_memory() -> None:
    assert code_of(device()) == WHOLE
    assert code_of(device(healthy=False)) == 0
    assert code_of(held(device(ShareMode.MPS), compute_milli=300, memory_mib=8192)) == 700
    assert code_of(held(device(ShareMode.MPS), compute_milli=300, memory_mib=40_960)) == 500
    assert code_of(held(device(ShareMode.MPS))) == WHOLE
    assert code_of(held(device(ShareMode.MPS), compute_milli=1200)) == 0
    assert code_of(held(device())) == 0, "exclusive, whatever it says to use"


def test_the_code_of_a_cut_device_is_its_slots_if_the_tables_have_room_for_them() -> None:
    assert code_of(held(device(ShareMode.MIG), start=1, slots=2)) == CUT0 + 0b110
    wide = msgspec.structs.replace(BIG, mig=Geometry(9, 9, ()))
    room = DeviceRoom(Device("d", "big", ShareMode.MIG), wide)
    assert code_of(held(room, start=1, slots=2, compute_milli=400)) == 600


def node_room(*modes: ShareMode, cls: str = "big") -> NodeRoom:
    made = [DeviceRoom(Device(f"d{i}", cls, mode), BIG) for i, mode in enumerate(modes)]
    return NodeRoom(node("n", 0), made)


def part(device: str, mode: ShareMode, milli: int) -> tuple[Slice, ...]:
    return (Slice(device, mode, compute_milli=milli),)


def test_a_seat_costs_its_step_and_the_room_is_as_before() -> None:
    room = node_room(ShareMode.MPS, ShareMode.MPS)
    t = tables({TIE_CPU: 3 * ONE, TIE_IDLE: 5 * ONE, SWITCH_PRICE: 4000, ISOLATION_PRICE: 9000})
    wish = pod("p", compute=300)
    free = PlainNode(64_000, 262_144, 0, (WHOLE, WHOLE))
    after = PlainNode(62_000, 258_048, 0, (WHOLE, 700))
    both = part("d0", ShareMode.MPS, 1000) + part("d1", ShareMode.MPS, 1000)
    full = after._replace(codes=(0, 0))
    seats = [part("d1", ShareMode.MPS, 300), both]
    assert Scorer(t, ("big",)).costs(wish, room, seats) == [step_cost(t, free, after), step_cost(t, free, full)]
    assert (room.cpu_milli, room.pods, room.free_whole) == (64_000, {}, 2)


@pytest.mark.parametrize(
    ("was", "becomes", "price"),
    [
        (ShareMode.MPS, ShareMode.MPS, 0),
        (ShareMode.MPS, ShareMode.MIG, 4000),
        (ShareMode.EXCLUSIVE, ShareMode.MPS, 1000),
        (ShareMode.MPS, ShareMode.EXCLUSIVE, 1000),
    ],
)
def test_a_change_of_mode_costs_a_quarter_where_the_device_was_or_becomes_exclusive(
    was: ShareMode, becomes: ShareMode, price: int
) -> None:
    room, wish = node_room(was), pod("p", compute=300)
    free, priced = (Scorer(tables({SWITCH_PRICE: figure}), ("big",)) for figure in (0, 4000))
    seats = [part("d0", becomes, 300)]
    assert priced.costs(wish, room, seats)[0] - free.costs(wish, room, seats)[0] == price


def test_a_fence_costs_once_where_a_device_was_empty() -> None:
    seats = [part("d0", ShareMode.MPS, 300)]
    free, priced = (Scorer(tables({ISOLATION_PRICE: figure}), ("big",)) for figure in (0, 9000))

    def extra(wish: Pod, room: NodeRoom) -> int:
        return priced.costs(wish, room, seats)[0] - free.costs(wish, room, seats)[0]

    own, shared = pod("p", isolation=Isolation.OWN_DEVICE), pod("p")
    empty, taken = node_room(ShareMode.MPS), node_room(ShareMode.MPS)
    taken.take(pod("q"), part("d0", ShareMode.MPS, 100))
    assert (extra(own, empty), extra(shared, empty), extra(own, taken)) == (9000, 0, 0)


def test_a_node_is_priced_by_the_class_of_its_devices_and_no_wider_than_the_tables() -> None:
    t = tables(types=2)
    t.value[1] = [[5 * code for code in CODES], [7 * code for code in CODES]]
    seats = [part("d0", ShareMode.EXCLUSIVE, 1000)]

    def cost(room: NodeRoom) -> int:
        return Scorer(t, ("big", "small")).costs(pod("p"), room, seats)[0]

    assert cost(node_room(ShareMode.EXCLUSIVE)) == -(WHOLE + WHOLE - 10)
    assert cost(node_room(ShareMode.EXCLUSIVE, cls="small")) == -(7 * WHOLE + WHOLE - 10)
    assert cost(node_room(ShareMode.EXCLUSIVE, cls="unheard-of")) == cost(node_room(ShareMode.EXCLUSIVE))
    three = node_room(*[ShareMode.EXCLUSIVE] * 3)
    assert cost(three) == cost(node_room(*[ShareMode.EXCLUSIVE] * 2)), "the third is beyond the tables"
    assert Scorer(t, ("big",)).costs(pod("p"), node_room(), [()]) == [0]


def test_a_device_without_memory_of_its_own_is_full_once_it_is_held() -> None:
    bare = DeviceRoom(Device("d", "small", ShareMode.MPS), msgspec.structs.replace(SMALL, memory_mib=0))
    assert code_of(held(bare, compute_milli=300)) == 0
