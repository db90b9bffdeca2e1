"""The summary of `dure bench slices`: ratios are taken within a round, then their median."""

from __future__ import annotations

from dure.bench.slices import WAYS, summarise


def rows(*rounds: tuple[float, float, float]) -> list[dict[str, object]]:
    return [
        {"policy": way, "seed": number, "p50_ms": ms, "p99_ms": 2 * ms, "mean_ms": ms}
        | ({"device_p50_ms": ms, "device_p99_ms": 1.5 * ms} if way != "direct" else {})
        for number, times in enumerate(rounds)
        for way, ms in zip(WAYS, times, strict=True)
    ]


def test_a_slow_moment_of_the_machine_hits_all_ways_and_changes_no_ratio() -> None:
    calm = summarise(rows((1.0, 1.2, 1.26)))
    assert calm == summarise(rows((1.0, 1.2, 1.26), (10.0, 12.0, 12.6))) | {"p50_extra_ms": 0.2}
    assert calm["p50_slice_vs_direct"] == 1.2
    assert calm["p99_beside_greedy_vs_alone"] == 1.05
    assert calm["device_p99_beside_greedy_vs_alone"] == 1.05


def test_one_bad_round_of_three_does_not_count() -> None:
    found = summarise(rows((1.0, 1.2, 1.2), (1.0, 9.0, 1.2), (1.0, 1.2, 1.2)))
    assert found["p50_slice_vs_direct"] == 1.2
    assert found["p50_extra_ms"] == 0.2
