"""Prices, carbon and metrics of the embedded world."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.memory.carbon import MemoryCarbon, intensity
from dure.adapters.memory.metrics import MemoryMetrics
from dure.adapters.memory.prices import MemoryPrices, spot_factor
from dure.files.builtin import demo_fleet
from dure.model.sample import Sample
from dure.model.tariff import Tariff
from dure.model.units import HOUR_S
from tests.fixtures.embedded import START_S

HOUR = int(START_S // HOUR_S)


def by_pool(tariffs: tuple[Tariff, ...]) -> dict[tuple[str, str], Tariff]:
    return {(tariff.cluster, tariff.pool): tariff for tariff in tariffs}


def test_every_pool_has_its_tariff_in_order() -> None:
    fleet = demo_fleet()
    tariffs = MemoryPrices(fleet, seed=1).fetch_tariffs(START_S)
    pools = sorted((spec.info.name, pool.name) for spec in fleet.clusters for pool in spec.pools)
    assert [(tariff.cluster, tariff.pool) for tariff in tariffs] == pools


def test_only_spot_prices_wander_and_only_a_little() -> None:
    fleet = demo_fleet()
    plain = by_pool(MemoryPrices(fleet, walk=False).fetch_tariffs(START_S))
    prices = MemoryPrices(fleet, seed=1)
    wandered = False
    for hour in range(48):
        for key, tariff in by_pool(prices.fetch_tariffs(START_S + hour * HOUR_S)).items():
            before = plain[key]
            assert (tariff.owned, tariff.on_demand, tariff.electricity) == (
                before.owned,
                before.on_demand,
                before.electricity,
            )
            if tariff.spot is not None and before.spot is not None:
                now, base = tariff.spot.at(START_S), before.spot.at(START_S)
                assert 0.83 * base <= now <= 1.17 * base
                wandered |= now != base
    assert wandered


@given(st.integers(0, 10**7), st.integers(0, 5))
def test_spot_prices_move_gently_from_hour_to_hour(hour: int, seed: int) -> None:
    here, there = spot_factor("c", "p", hour, seed), spot_factor("c", "p", hour + 1, seed)
    assert 0.84 <= here <= 1.16
    assert abs(here - there) < 0.09


def test_carbon_comes_by_the_hour_for_any_window_and_is_marked_as_demo() -> None:
    carbon = MemoryCarbon(["US-NW", "KR", "KR"], seed=1)
    korea, abroad = carbon.fetch_carbon(START_S + 10.0, START_S + 5 * HOUR_S + 1)
    assert (korea.grid, abroad.grid) == ("KR", "US-NW")
    assert korea.demo
    assert abroad.demo
    assert korea.start_s == START_S
    assert len(korea.g_per_kwh) == 6
    later = carbon.fetch_carbon(START_S + 3 * HOUR_S, START_S + 4 * HOUR_S)[0]
    assert later.at(START_S + 3 * HOUR_S) == korea.at(START_S + 3 * HOUR_S)


def test_an_unknown_grid_is_unknown_and_not_clean() -> None:
    (series,) = MemoryCarbon(["XX"]).fetch_carbon(START_S, START_S + 2 * HOUR_S)
    assert series.g_per_kwh == (None, None)


def test_the_korean_grid_is_steady_and_the_one_abroad_has_a_solar_valley() -> None:
    week = range(HOUR, HOUR + 168)
    korea = [intensity("KR", hour, 1) or 0.0 for hour in week]
    abroad = [intensity("US-NW", hour, 1) or 0.0 for hour in week]
    assert 400 < sum(korea) / 168 < 445
    assert max(korea) - min(korea) < 80
    assert max(abroad) - min(abroad) > 150


def test_old_samples_fall_out_of_memory() -> None:
    metrics = MemoryMetrics(keep=3)
    for at_s in (1.0, 2.0, 3.0, 4.0):
        metrics.write_samples([Sample("dure_use", {"pool": "a"}, at_s, at_s)])
    assert [one.at_s for one in metrics.fetch_samples("dure_use", 0, 100)] == [2.0, 3.0, 4.0]
