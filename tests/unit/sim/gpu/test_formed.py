"""The squads that run live, on the virtual GPU of the benchmarks: same engine, same figures."""

from __future__ import annotations

import numpy as np
import pytest

from dure.sim.gpu.device import A100
from dure.sim.gpu.experiments import LOADS, crowd, pair, think_times
from dure.sim.gpu.profile import A100_APPS, synthesise
from dure.sim.gpu.run import FORMED, SYSTEMS, Tenant, play


@pytest.mark.parametrize("app", ["VGG11", "ResNet50", "BERT"])
@pytest.mark.parametrize("load", sorted(LOADS))
def test_squads_as_they_run_live_are_as_good_as_the_order_alone(app: str, load: str) -> None:
    """The benchmark's fast loop ranks kernel by kernel; devices form squads. Both must come to the same."""
    ranked, formed = (pair(A100_APPS[app], load, SYSTEMS["slack-guarded" + end], 0) for end in ("", FORMED))
    assert formed.mean_ms == pytest.approx(ranked.mean_ms, rel=0.01)
    assert formed.missed <= ranked.missed + 0.01


def test_live_squads_keep_more_promises_in_a_crowd_than_published_ones() -> None:
    ours, theirs = (crowd("8xR50", SYSTEMS[name])[0] for name in ("slack-guarded" + FORMED, "BLESS-R"))
    assert ours.mean_ms < 0.95 * theirs.mean_ms
    assert ours.missed <= theirs.missed / 2


def test_every_kernel_runs_once_and_the_same_run_gives_the_same_bytes() -> None:
    profile = synthesise(A100_APPS["ResNet50"], A100.sms)
    tenants = [Tenant(profile, 0.5)] * 2
    times = think_times(profile.solo_ms, "B", 0, 2, requests=6)
    first, second = (play(A100, tenants, times, SYSTEMS["slack-guarded" + FORMED], trace_rows=2000) for _ in range(2))
    assert np.array_equal(first.trace, second.trace)
    ended = [tuple(row) for row in first.trace[:, :3].astype(int)]
    assert len(set(ended)) == len(ended)
    for tenant in (0, 1):
        own = [(request, kernel) for k, request, kernel in ended if k == tenant]
        assert own == sorted(own)
    assert first.squads > 6
