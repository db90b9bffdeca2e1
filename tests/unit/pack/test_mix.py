"""The demand mix: new arrivals weigh more, shares add up to one, the rare tail is not typical."""

from __future__ import annotations

import pytest

from dure.pack.ask import Ask, device_ask, slice_ask
from dure.pack.codes import CUT, EXCLUSIVE, MPS, WHOLE
from dure.pack.mix import Mix, MixSettings, Shape

A, B, C = (Shape(cpu, 10, 1, WHOLE, -1, -1) for cpu in (1, 2, 3))


def test_a_prior_counts_as_so_many_arrivals_whatever_its_weights_add_up_to() -> None:
    mix = Mix(MixSettings(half_life=1e9, prior=2.0), [(A, 3.0), (B, 2.0), (A, 3.0)])
    assert (dict(mix.shares()), mix.arrivals) == ({A: 0.75, B: 0.25}, 0)
    mix.add(C, times=2)
    assert dict(mix.shares()) == pytest.approx({A: 0.375, B: 0.125, C: 0.5})
    assert mix.arrivals == 2


def test_after_half_a_life_an_arrival_counts_half() -> None:
    mix = Mix(MixSettings(half_life=3.0))
    mix.add(A)
    for _ in range(2):
        mix.add(C)
    mix.add(B)
    weights = dict(mix.shares())
    assert weights[B] == pytest.approx(2 * weights[A])
    assert sum(weights.values()) == pytest.approx(1.0)


def test_several_arrivals_at_once_count_as_the_last_of_them() -> None:
    mix = Mix(MixSettings(half_life=2.0))
    mix.add(A)
    mix.add(B, times=2)
    assert dict(mix.shares()) == pytest.approx({A: 1 / 5, B: 4 / 5})


def test_weights_that_grow_too_large_are_scaled_down_and_what_fell_below_a_millionth_is_dropped() -> None:
    """The weight of arrival n is two to the n: the thirtieth passes 1e9, and 2**-20 of it is below a millionth."""
    mix = Mix(MixSettings(half_life=1.0))
    for number in range(1, 30):
        mix.add({10: A, 11: B}.get(number, C))
    assert len(mix.shares()) == 3
    mix.add(C)
    last = 2.0**31 - 2 - 2**10 - 2**11
    assert dict(mix.shares()) == pytest.approx({B: 2**11 / (last + 2**11), C: last / (last + 2**11)})
    mix.add(A)
    assert dict(mix.shares())[A] == pytest.approx(2**31 / (2**31 + last + 2**11))


def test_a_copy_goes_its_own_way() -> None:
    mix = Mix(MixSettings(half_life=2.0))
    mix.add(A, times=4)
    twin = mix.copy()
    mix.add(B)
    assert (twin.shares(), twin.arrivals) == ([(A, 1.0)], 4)
    twin.add(B)
    assert (twin.shares(), twin.arrivals, twin.settings) == (mix.shares(), mix.arrivals, mix.settings)


def test_shares_are_sorted_by_shape() -> None:
    mix = Mix()
    for one in (C, A, B):
        mix.add(one)
    assert [one for one, _ in mix.shares()] == [A, B, C]


def test_typical_is_what_covers_enough_with_memory_aside_most_frequent_first() -> None:
    mix = Mix(MixSettings(half_life=1e12, typical=0.75))
    for one, times in ((A, 3), (A._replace(mem=99), 2), (B, 3), (C, 1), (C._replace(cpu=9), 1)):
        mix.add(one, times)
    found = mix.typical()
    assert [one for one, _ in found] == [A._replace(mem=0), B._replace(mem=0)]
    assert [share for _, share in found] == pytest.approx([5 / 8, 3 / 8])


def test_typical_stops_as_soon_as_enough_is_covered_and_equals_are_taken_in_their_order() -> None:
    mix = Mix(MixSettings(half_life=1e300, typical=0.5))
    for one in (C, B, A, A._replace(cpu=9)):
        mix.add(one)
    assert mix.typical() == [(A._replace(mem=0), 0.5), (B._replace(mem=0), 0.5)]


def test_devices_of_a_shape_are_its_pieces_times_their_part() -> None:
    assert (A._replace(pieces=3).devices, A._replace(milli=250).devices, A._replace(pieces=0).devices) == (3, 0.25, 0)


def test_an_ask_of_a_trace_is_host_capacity_whole_devices_or_a_free_part_of_one() -> None:
    host, whole, several, part, almost = (
        device_ask(2000, 512, count, milli, 0b10)
        for count, milli in ((0, 700), (1, 1000), (2, 500), (1, 250), (1, 999))
    )
    assert (host.pieces, host.milli, host.mode) == (0, 0, EXCLUSIVE)
    assert (whole.pieces, whole.milli, whole.mode) == (1, WHOLE, EXCLUSIVE)
    assert (several.pieces, several.milli, several.mode) == (2, WHOLE, EXCLUSIVE)
    assert (part.pieces, part.milli, part.mode) == (1, 250, MPS)
    assert (almost.pieces, almost.milli, almost.mode) == (1, 999, MPS)
    assert {(one.cpu, one.mem, one.types, one.profile) for one in (host, whole, several, part, almost)} == {
        (2000, 512, 0b10, -1)
    }


def test_an_ask_for_a_slice_names_its_profile_and_is_written_in_the_order_of_the_columns() -> None:
    ask = slice_ask(2000, 512, 3, 428, 0b1)
    assert ask == Ask(2000, 512, 1, 428, profile=3, mode=CUT, types=1)
    assert ask.shape == Shape(2000, 512, 1, 428, 3, 1)
    assert ask.row().tolist() == [2000, 512, 1, 428, 3, 0, 0, CUT, 1, 1, 0, 0, 0, 0]


def test_turnover_is_how_many_leave_for_each_that_arrives_and_at_most_one() -> None:
    mix = Mix(MixSettings(half_life=1e9), [(A, 1.0)])
    assert mix.turnover == 0.0
    mix.left()
    assert mix.turnover == 0.0, "somebody who was there before: nobody has arrived yet"
    mix.add(A, times=10)
    mix.left(4)
    assert mix.turnover == pytest.approx(0.5)
    assert mix.copy().turnover == mix.turnover
    mix.left(9)
    assert mix.turnover == 1.0


def test_turnover_forgets_as_the_mix_does() -> None:
    """The weight of arrival n is two to the n; at the thirtieth all weights are scaled down."""
    mix = Mix(MixSettings(half_life=1.0))
    for _ in range(29):
        mix.add(A)
    mix.left()
    mix.add(A)
    assert mix.turnover == pytest.approx(2**29 / (2**31 - 2))
    mix.add(A)
    assert mix.turnover == pytest.approx(2**29 / (2**32 - 2))
