"""From the mix to prices: each term of a node's potential against figures that were worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.accelerator import Geometry
from dure.pack.carving import mask_values
from dure.pack.codes import (
    BACK,
    BACK_CPU,
    BINS,
    CODES,
    CUT0,
    ISOLATION_PRICE,
    NEVER,
    PART,
    RAM_PER_DEVICE,
    RAM_PRICE,
    RHO,
    SWITCH_PRICE,
    TIE_CPU,
    TIE_IDLE,
    TIER,
    WHOLE,
    WIDE,
    WIDE_PRICE,
)
from dure.pack.cutting import remainder_values
from dure.pack.mix import Shape
from dure.pack.plain import PlainNode, plain_tables, potential
from dure.pack.slots import steps
from dure.pack.worth import MICRO, RATE, Hardware, Shares, Worth, WorthSettings, type_prices, worth
from tests.unit.pack.worlds import A100, profile

HW = Hardware(
    devices=(6, 10), widest=4, host_cpu=64_000, steps=(steps(A100), ()), slots=(8, 0), geometries=(A100, None)
)
FRAGMENTS_ALONE = WorthSettings(
    remainder=0.0, ram_per_gib=0.0, broken_node=0.0, type_price=0.0, tie=0.0, rho_cap=0.0
)  # fmt: skip


def shape(
    cpu: int = 0, mem: int = 0, pieces: int = 1, milli: int = WHOLE, profile: int = -1, types: int = -1
) -> Shape:
    return Shape(cpu, mem, pieces, milli, profile, types)


def priced(shares: Shares, hw: Hardware = HW, settings: WorthSettings = FRAGMENTS_ALONE) -> Worth:
    return worth(shares, [(one._replace(mem=0), share) for one, share in shares], hw, settings)


def idle_of(code: int) -> float:
    """Devices' worth that is idle: thousandths, or free slots of eight."""
    return code / 1000 if code <= WHOLE else (8 - (code - CUT0).bit_count()) / 8


def takes(one: Shape, code: int) -> bool:
    """Whether a device in this state can serve a part of a device, by the words of the placement table."""
    if one.profile >= 0:
        mask = code - CUT0 if code > WHOLE else 0
        return code >= WHOLE and any(not mask & bits for bits in A100.profiles[one.profile].masks())
    return code >= one.milli if code <= WHOLE else code == CUT0


def unusable(one: Shape, cpu: int, typ: int, codes: tuple[int, ...]) -> float:
    """Idle devices of a node that this demand could not use."""
    if one.pieces == 0 or not one.types >> typ & 1 or cpu < one.cpu:
        return sum(map(idle_of, codes))
    if one.profile >= 0 or one.milli < WHOLE:
        return sum(idle_of(code) for code in codes if not takes(one, code))
    whole = sum(code in (WHOLE, CUT0) for code in codes)
    return sum(map(idle_of, codes)) - (whole if whole >= one.pieces else 0)


WISHES = st.one_of(
    st.builds(shape, st.sampled_from([0, 2000, 5000]), pieces=st.integers(0, 4), types=st.sampled_from([-1, 1, 2])),
    st.builds(shape, st.sampled_from([0, 2000, 5000]), milli=st.integers(1, 999), types=st.sampled_from([-1, 1, 2])),
    st.builds(
        shape, st.sampled_from([0, 2000, 5000]), milli=st.just(100), profile=st.integers(0, 5), types=st.just(1)
    ),
)
CUT_CODES = st.one_of(st.integers(0, WHOLE), st.just(WHOLE), st.integers(CUT0, CUT0 + 255))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(WISHES, min_size=1, max_size=4, unique=True),
    st.sampled_from([0, 1999, 2000, 4999, 5000, 9000]),
    st.lists(CUT_CODES, min_size=1, max_size=4).map(tuple),
)
def test_the_potential_is_the_idle_capacity_that_the_mix_could_not_use(
    wishes: list[Shape], cpu: int, codes: tuple[int, ...]
) -> None:
    total = sum(range(1, len(wishes) + 1))
    shares = [(one, weight / total) for weight, one in enumerate(wishes, 1)]
    tables = plain_tables(priced(shares).tables)
    for typ, states in ((0, codes), (1, tuple(min(code, WHOLE) for code in codes))):
        expected = sum(share * unusable(one, cpu, typ, states) for one, share in shares)
        found = potential(tables, PlainNode(cpu, 0, typ, states))
        assert found / MICRO == pytest.approx(expected, abs=1e-4)


def test_idle_slots_of_a_cut_device_are_counted_in_whole_thousandths() -> None:
    three = Geometry(3, 3, (profile("one", 1, (0, 1, 2), 1, 3),))
    hw = Hardware(devices=(1, 1), widest=1, host_cpu=1, steps=(steps(three), ()), slots=(3, 0))
    idles = priced([(shape(), 1.0)], hw).tables.idles
    assert idles.shape == (2, CODES)
    assert idles[0, : WHOLE + 1].tolist() == list(range(WHOLE + 1))
    assert idles[0, CUT0 : CUT0 + 9].tolist() == [1000, 666, 666, 333, 666, 333, 333, 0, 0]
    assert not idles[1, CUT0:].any()
    assert not priced([(shape(), 1.0)], Hardware((1,), 1, 1)).tables.idles[0, CUT0:].any()


def test_steps_are_the_slots_after_a_placement_and_minus_one_elsewhere() -> None:
    table = priced([(shape(), 1.0)]).tables.step
    assert table.shape == (2, len(A100.profiles), 256)
    assert tuple(tuple(row) for row in table[0].tolist()) == steps(A100)
    assert (table[1] == -1).all()
    assert priced([(shape(), 1.0)], Hardware((1,), 1, 1)).tables.step.shape == (1, 1, 256)


def test_a_profile_that_a_type_does_not_have_finds_no_place_on_it() -> None:
    """Nothing of type 1 is cut: what is left of an opened device is lost to a slice, a whole one is not."""
    tables = plain_tables(priced([(shape(milli=100, profile=0), 1.0)]).tables)
    assert potential(tables, PlainNode(0, 0, 1, (400,))) == pytest.approx(0.4 * MICRO, abs=2)
    assert potential(tables, PlainNode(0, 0, 1, (WHOLE,))) == pytest.approx(0, abs=2)


HALVES = [(shape(1000, milli=500), 0.5), (shape(4000, milli=250), 0.5)]


def test_remainders_are_worth_what_the_fractions_of_the_mix_make_of_them() -> None:
    """A level of 1000 millicores serves the halves alone, the next one the quarters as well."""
    reach = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    plain, valued = (
        priced(HALVES, settings=WorthSettings(remainder=weight, type_price=0.0)).tables.value for weight in (0.0, 8.0)
    )
    values = remainder_values(np.array([250, 500]), np.array([0.5, 0.5]), reach)
    for typ in range(2):
        lost = (plain[typ, :, : WHOLE + 1] - valued[typ, :, : WHOLE + 1]) / MICRO
        np.testing.assert_allclose(lost, 8.0 * values, atol=3e-6)


def test_only_parts_of_one_device_count_as_fractions() -> None:
    """Whole devices, several pieces, slices and host capacity leave a remainder worthless but for a whole device."""
    shares = [
        (shape(pieces=1, milli=WHOLE), 0.2),
        (shape(pieces=2, milli=WHOLE), 0.2),
        (shape(milli=100, profile=0, types=1), 0.3),
        (shape(pieces=0, milli=0), 0.2),
        (shape(pieces=1, milli=0), 0.1),
    ]
    plain, valued = (priced(shares, settings=WorthSettings(remainder=weight)).tables.value for weight in (0.0, 1.0))
    lost = (plain[1] - valued[1])[:, : WHOLE + 1]
    assert not lost[:, :WHOLE].any()
    assert lost[:, WHOLE].tolist() == [MICRO, MICRO]
    for size, code in ((1, 1), (999, 999)):
        plain, valued = (
            priced([(shape(milli=size), 1.0)], settings=WorthSettings(remainder=w)).tables.value for w in (0, 1)
        )
        lost = (plain[1] - valued[1])[1]
        assert lost[[code - 1, code]].tolist() == [0, pytest.approx(MICRO / (WHOLE // size), abs=2)]


def test_masks_are_worth_what_the_slices_asked_of_that_type_make_of_them() -> None:
    """Of profile 0 two thirds need 1000 millicores and one third 4000; profile 3 is asked of the other type."""
    shares = [
        (shape(1000, milli=100, profile=0, types=1), 0.4),
        (shape(4000, milli=100, profile=0, types=1), 0.2),
        (shape(1000, milli=400, profile=3, types=2), 0.3),
        (shape(1000, milli=400, profile=6, types=1), 0.1),
    ]
    amounts = np.array([0.6, 0, 0, 0, 0, 0])
    reach = np.zeros((3, 6))
    reach[1:, 0] = 2 / 3, 1.0
    plain, valued = (priced(shares, settings=WorthSettings(remainder=weight)).tables.value for weight in (0.0, 8.0))
    lost = (plain[0] - valued[0])[:, CUT0 : CUT0 + 256] / MICRO
    np.testing.assert_allclose(lost, 8.0 * mask_values(A100, amounts, reach), atol=3e-6)
    assert not (plain[1] - valued[1])[:, CUT0:].any(), "the other type has no slots"


def test_the_scalars_are_the_settings_in_millionths_and_rates() -> None:
    shares = [
        (shape(8000, 6000, pieces=2), 0.25),
        (shape(2000, 1000, milli=500), 0.75),
        (shape(0, 99, pieces=0), 0.0),
    ]
    scal = priced(shares, settings=WorthSettings()).tables.scal
    memory = round((6000 * 0.25 + 1000 * 0.75) / (2 * 0.25 + 0.5 * 0.75))
    assert memory == 2571
    assert int(scal[RAM_PER_DEVICE]) == round(memory * RATE)
    assert (int(scal[RAM_PRICE]), int(scal[WIDE_PRICE])) == (8_000, 200_000)
    assert (int(scal[SWITCH_PRICE]), int(scal[ISOLATION_PRICE])) == (2_000_000, 1_000_000)
    assert int(scal[WIDE]) == 4
    assert int(scal[TIE_CPU]) == round(100_000 * 1000 * RATE / 64_000)
    assert int(scal[TIE_IDLE]) == round(100_000 * RATE / 4)


def test_where_pods_leave_a_device_comes_back_with_its_mean_of_cores_and_low_hosts_pull_less() -> None:
    shares = [(shape(4000), 0.5), (shape(12_000), 0.5)]
    fills, lives = (worth(shares, shares, HW, WorthSettings(), turnover=part).tables.scal for part in (0.0, 0.75))
    assert (int(fills[BACK]), int(lives[BACK])) == (0, 750)
    assert int(lives[BACK_CPU]) == pytest.approx(8000 * RATE, rel=1e-6)
    assert int(lives[TIE_CPU]) == pytest.approx(0.25 * int(fills[TIE_CPU]), rel=1e-3)
    same = [at for at in range(TIER) if at not in (BACK, TIE_CPU)]
    assert fills[same].tolist() == lives[same].tolist()


def test_a_fleet_of_single_devices_has_no_wide_nodes() -> None:
    assert priced([(shape(), 1.0)], Hardware((3,), 1, 1000)).tables.scal[WIDE] == NEVER
    assert priced([(shape(), 1.0)], Hardware((4,), 2, 1000)).tables.scal[WIDE] == 2


def test_demand_without_devices_brings_neither_memory_nor_cores_along() -> None:
    scal = priced([(shape(8000, 6000, pieces=0), 1.0)], settings=WorthSettings()).tables.scal
    assert scal[RAM_PER_DEVICE] == 0
    assert not scal[RHO:TIER].any()


def ratios(shares: Shares) -> list[float]:
    scal = priced(shares, settings=WorthSettings(rho_cap=30.0)).tables.scal
    return [round(float(one) / 1000 / RATE, 3) for one in scal[RHO:TIER]]


def test_cores_per_device_are_read_at_equally_heavy_points_of_the_demand_largest_first() -> None:
    light, heavy = shape(4000), shape(24_000, pieces=2)
    assert ratios([(light, 0.5), (heavy, 0.25)]) == [12.0] * 8 + [4.0] * 8
    assert ratios([(shape(1000, milli=500), 0.5), (heavy, 0.375)]) == [12.0] * 12 + [2.0] * 4
    assert ratios([(shape(90_000), 1.0)]) == [30.0] * BINS, "no more than the cap"
    assert ratios([(light, 1 / 32), (shape(8000), 31 / 32)]) == [8.0] * 15 + [4.0], "the first point is just reached"
    assert ratios([(light, 1 / 33), (shape(8000), 32 / 33)]) == [8.0] * BINS


def test_a_type_costs_what_insists_on_it_for_each_idle_device_that_would_do() -> None:
    """Of 0.8 devices of demand 0.2 insist on type 0 and 0.3 on 0 or 1: spread over 5 of 40, and over 20 of 40."""
    shares = [
        (shape(types=0b001), 0.2),
        (shape(types=0b011), 0.3),
        (shape(types=0b111), 0.2),
        (shape(types=-1, milli=500), 0.2),
        (shape(types=0b100, pieces=0), 0.1),
    ]
    found = type_prices(shares, [5.0, 15.0, 20.0], WorthSettings(type_cap=9.0))
    assert found.tolist() == pytest.approx([0.25 * 40 / 5 + 0.375 * 40 / 20, 0.375 * 40 / 20, 0.0])
    capped = type_prices(shares, [5.0, 15.0, 20.0], WorthSettings(type_cap=1.5))
    assert capped.tolist() == pytest.approx([1.5, 0.75, 0.0])
    assert type_prices(shares, [0.0, 0.0, 4.0], WorthSettings(type_cap=9.0))[0] == pytest.approx(0.25 * 4 + 0.375 * 4)
    assert type_prices([(shape(pieces=0, types=1), 1.0)], [1.0, 1.0], WorthSettings()).tolist() == [0.0, 0.0]


def test_the_price_of_a_type_lowers_the_price_of_its_idle_capacity() -> None:
    shares = [(shape(types=1), 1.0)]
    free, dear = (
        priced(shares, settings=WorthSettings(type_price=price)).tables.rates[:, :, -1] for price in (0, 16)
    )
    by_fleet = (free - dear) / RATE / MICRO
    np.testing.assert_allclose(by_fleet, [[16 * 1.5] * 2, [0.0] * 2], atol=1e-6)
    late = worth(shares, shares, HW, WorthSettings(type_price=16.0), idle_now=(16.0, 0.0)).tables.rates[:, :, -1]
    np.testing.assert_allclose((free - late)[0] / RATE / MICRO, 16.0, atol=1e-6)


def tiers(shares: Shares, *hosts: int) -> tuple[list[int], list[float]]:
    made = priced(shares, Hardware((8,), 4, 64_000, wide_cpu=hosts))
    named = [int(one) for one in made.tables.scal[TIER:] if one != NEVER]
    return named, [round(4 * nodes, 6) for nodes in made.wide_nodes[1:]]


def test_whole_wide_nodes_form_tiers_by_the_host_cpu_they_need() -> None:
    """Ten devices of demand: 4 need 20 cores, 2 need 30, 2 need none; needs that one host meets are one tier."""
    wide = [
        (shape(20_000, pieces=4), 0.1),
        (shape(30_000, pieces=4), 0.05),
        (shape(0, pieces=4), 0.05),
        (shape(50_000, pieces=2), 0.1),
    ]
    assert tiers(wide, 16_000, 32_000, 64_000) == ([0, 30_000], [0.6, 0.6])
    assert tiers(wide, 20_000, 32_000) == ([20_000, 30_000], [0.6, 0.2])
    assert tiers(wide) == ([0, 20_000, 30_000], [0.6, 0.6, 0.2])
    assert tiers([(shape(50_000, pieces=2), 1.0)], 64_000) == ([], [])


def test_of_more_than_four_tiers_the_heaviest_stay() -> None:
    wide = [
        (shape(cpu, pieces=4), share) for cpu, share in ((1, 0.3), (2, 0.1), (3, 0.2), (4, 0.15), (5, 0.1), (6, 0.15))
    ]
    assert tiers(wide) == ([1, 3, 4, 6], [1.0, 0.7, 0.4, 0.25])


def test_single_devices_are_never_wide() -> None:
    made = priced([(shape(5000), 1.0)], Hardware((8,), 1, 64_000))
    assert made.wide_nodes == (0.0,)
    assert made.tables.scal[PART] == NEVER
    assert (made.tables.scal[TIER:] == NEVER).all()


def test_rooms_for_the_widest_demand_below_a_node_are_wanted_beside_whole_nodes() -> None:
    """A device of demand asks for a tenth of a node and 0.15 rooms for two; three ask for more than each node has."""
    mixed = [
        (shape(20_000, pieces=4), 0.1),
        (shape(9_000, pieces=2), 0.1),
        (shape(15_000, pieces=2), 0.05),
        (shape(21_000, pieces=3), 0.1),
    ]
    made = priced(mixed, Hardware((8,), 4, 64_000, wide_cpu=(32_000,)))
    assert made.tables.scal[PART:BACK].tolist() == [2, 15_000]
    assert made.wide_nodes == pytest.approx((0.25, 0.1))
    alone = priced(mixed[1:], Hardware((8,), 4, 64_000, wide_cpu=(32_000,)))
    assert alone.tables.scal[PART:BACK].tolist() == [3, 21_000], "no tier of whole nodes bounds it"
    assert alone.wide_nodes == pytest.approx((0.1 / 0.6,))
    whole = priced(mixed[:1], Hardware((8,), 4, 64_000, wide_cpu=(32_000,)))
    assert whole.tables.scal[PART] == NEVER
    assert whole.wide_nodes == (0.0, 0.25)


def test_what_the_guard_needs_is_the_margin_of_the_wide_nodes_for_each_device() -> None:
    made = Worth(priced([(shape(), 1.0)]).tables, (0.125, 0.0625), WorthSettings())
    assert made.needs(5).tolist() == [50_000_000, 1000, 3000, 150_000, 75_000, 0, 0]


@pytest.mark.parametrize("typ", [0, 1])
def test_levels_are_the_host_cpu_figures_of_the_typical_demand(typ: int) -> None:
    tables = priced([(shape(4000), 0.5), (shape(1000, milli=500), 0.25), (shape(4000, pieces=2), 0.25)]).tables
    assert tables.levels.tolist() == [1000, 4000]
    assert tables.value.shape == (2, 3, CODES)
    assert tables.rates.shape == (2, 3, HW.widest + 2)
    assert tables.rates[typ, :, 2].tolist() == [0, 0, pytest.approx(2 * 0.75 * MICRO)]


def test_rare_demand_that_needs_more_host_cpu_than_the_typical_counts_at_the_highest_level() -> None:
    typical = [(shape(1000, milli=500), 1.0)]
    shares = [(shape(1000, milli=500), 0.5), (shape(90_000, milli=500), 0.5)]
    plain, valued = (
        worth(shares, typical, HW, WorthSettings(remainder=weight)).tables.value for weight in (0.0, 1.0)
    )
    lost = (plain - valued)[1, :, WHOLE]
    assert lost.tolist() == [0, MICRO]
