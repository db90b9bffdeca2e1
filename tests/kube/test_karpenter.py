"""Dure's node planner beside the real Karpenter: the same pods, the same market, on the real API."""

from __future__ import annotations

import pytest

from lab.fixtures import LabFactory
from lab.karpenter import PARTS
from tests.kube.karpenter_world import arena, compare, mix

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.parts(*PARTS)]


def test_dure_buys_no_dearer_than_karpenter_and_the_scheduler_binds_every_pod(lab_factory: LabFactory) -> None:
    lab = lab_factory(["karpenter", "dure"])
    with arena(lab["karpenter"], lab["dure"]) as both:
        pods = both.give(mix(seed=1, pods=24))
        planned = both.planned(pods)
        theirs, ours = both.karpenter_settles(pods), both.ours_settles(pods)
    print(f"Karpenter {theirs}; Dure planned {planned:.2f}, has {ours}")
    assert ours.bound == theirs.bound == pods
    assert planned <= theirs.usd_per_h
    assert ours.usd_per_h <= theirs.usd_per_h


@pytest.mark.full
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_after_pods_went_dure_consolidates_at_least_as_far(lab_factory: LabFactory, seed: int) -> None:
    lab = lab_factory(["karpenter", "dure"])
    row = compare(lab["karpenter"], lab["dure"], seed, pods=60)
    print(row)
    assert row.planned <= row.karpenter.usd_per_h
    assert row.dure.usd_per_h <= row.karpenter.usd_per_h
    assert row.karpenter_then.usd_per_h < row.karpenter.usd_per_h, "Karpenter did consolidate"
    assert row.dure_then.usd_per_h <= row.karpenter_then.usd_per_h
    assert row.dure_then.bound == row.karpenter_then.bound
