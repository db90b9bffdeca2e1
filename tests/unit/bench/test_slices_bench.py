"""The summary of `dure bench slices`: quantiles over all rounds, and an interval that chance alone explains."""

from __future__ import annotations

import numpy as np

from dure.bench.slices import WAYS, Found, summarise


def found(beside: float, rounds: int = 6) -> Found:
    """Every way takes 1 to 100 ms, in some rounds all of them slower; beside a greedy tenant `beside` times that."""
    times = np.arange(1.0, 101.0)
    slower = [1.0 + number % 3 for number in range(rounds)]
    return {way: [(times * by * (beside if way == "beside-greedy" else 1.0), times) for by in slower] for way in WAYS}


def test_what_slows_all_ways_of_a_round_changes_no_ratio() -> None:
    calm = summarise(found(1.05))
    assert calm["p99_beside_greedy_vs_alone"] == 1.05
    assert calm["p99_alone_again_vs_alone"] == 1.0
    assert calm["device_p99_beside_greedy_vs_alone"] == 1.0
    assert summarise(found(2.0))["p50_beside_greedy_vs_alone"] == 2.0


def test_the_interval_holds_the_ratio_and_grows_where_rounds_differ() -> None:
    even = found(1.2)
    uneven = {way: list(rounds) for way, rounds in even.items()}
    waited, used = even["beside-greedy"][0]
    uneven["beside-greedy"][0] = (waited * 3.0, used)
    calm, wild = summarise(even), summarise(uneven)
    name = "p99_beside_greedy_vs_alone"
    for told in (calm, wild):
        assert told[f"{name}_from"] <= told[name] <= told[f"{name}_to"]
    assert wild[f"{name}_to"] > calm[f"{name}_to"]
