"""SMs, memory and bandwidth: what is given out never exceeds what there is, and is given where it helps most."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.share import bandwidth, memory
from dure.share.split import Duration, freed, split

CURVE = st.tuples(st.floats(0.0, 5.0), st.floats(0.1, 20.0))


def curve(fixed: float, scaling: float) -> Duration:
    return lambda parts: fixed + scaling / parts


@settings(deadline=None)
@given(curves=st.lists(CURVE, min_size=1, max_size=4))
def test_the_split_is_as_good_as_trying_all_of_them(curves: list[tuple[float, float]]) -> None:
    parts = 8
    durations = [curve(*c) for c in curves]
    chosen = split(durations, parts)
    best = min(
        max(d(n) for d, n in zip(durations, option, strict=True))
        for option in itertools.product(range(1, parts + 1), repeat=len(curves))
        if sum(option) <= parts
    )
    assert max(d(n) for d, n in zip(durations, chosen, strict=True)) == pytest.approx(best, rel=2e-3)
    assert sum(chosen) == parts
    assert min(chosen) >= 1


def test_more_members_than_partitions_is_an_error() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        split([lambda n: 1.0 / n] * 3, 2)


@settings(deadline=None)
@given(
    needs=st.lists(st.integers(0, 108), min_size=1, max_size=6),
    claims=st.lists(st.integers(0, 18), min_size=6, max_size=6),
)
def test_freed_sms_flow_down_the_order_and_nobody_loses_its_claim(needs: list[int], claims: list[int]) -> None:
    names = [f"t{i}" for i in range(len(needs))]
    need, claim = dict(zip(names, needs, strict=True)), dict(zip(names, claims, strict=False))
    held = freed(claim, need, names, 108)
    assert sum(held.values()) <= 108
    assert all(min(claim[n], need[n]) <= held[n] <= need[n] for n in names)
    if sum(held.values()) < 108:
        assert held == need


@settings(deadline=None)
@given(
    claims=st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 40_000)), min_size=1, max_size=6),
    total=st.integers(1, 80_000),
)
def test_memory_is_never_given_twice(claims: list[tuple[int, int]], total: int) -> None:
    asked = [memory.Claim(f"t{i}", want, kept) for i, (want, kept) in enumerate(claims)]
    granted = memory.divide(asked, total)
    assert sum(g.granted_mib for g in granted) <= total
    assert all(g.short_mib >= 0 for g in granted)


def test_a_reserved_region_is_kept_while_its_owner_is_small() -> None:
    small, greedy = memory.divide([memory.Claim("critical", 100, 6000), memory.Claim("batch", 5000)], 10_000)
    assert small.granted_mib == 6000
    assert greedy.granted_mib == 0
    assert greedy.short_mib == 1000


@settings(deadline=None)
@given(wanted=st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(0.0, 2.0), min_size=1, max_size=6))
def test_bandwidth_is_shared_without_waste(wanted: dict[str, float]) -> None:
    shares = bandwidth.divide(wanted, dict.fromkeys(wanted, 1.0))
    assert all(shares[name] <= wanted[name] + 1e-12 for name in wanted)
    assert sum(shares.values()) == pytest.approx(min(1.0, sum(wanted.values())))


def test_bandwidth_follows_weight_when_everyone_wants_all() -> None:
    assert bandwidth.divide({"a": 9.0, "b": 9.0}, {"a": 3.0, "b": 1.0}) == pytest.approx({"a": 0.75, "b": 0.25})
