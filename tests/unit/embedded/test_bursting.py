"""Burst on the embedded fleet: a serving gets replicas when its answers run late, and gives them back when calm."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import JournalEntry, ScaleReplicas
from dure.model.fleet import Fleet
from dure.model.units import DAY_S, HOUR_S
from dure.model.workload import Phase, Workload, WorkloadRecord
from tests.unit.embedded.test_world import Turner, batch


def service(most: int) -> Workload:
    """One replica carries a mean hour well and a busy one badly."""
    text = f"""
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: detector, tenant: vision}}
spec:
  type: serving
  model: detector-m
  classes: [t4]
  demand: {{memory: 3GiB, compute: 40%}}
  replicas: {{min: 1, max: {most}}}
  rate: 60/s
  slo: {{latency: {{p95: 120ms}}}}
"""
    return read_text(text, "detector").workloads[0]


def day(fleet: Fleet, known: Catalogue, most: int) -> Turner:
    turner = Turner(fleet, known)
    turner.world.submit([service(most)])
    turner.run(DAY_S, step_s=60.0)
    return turner


def changes(turner: Turner) -> list[JournalEntry]:
    journal = turner.store.list_journal(workload="detector", limit=1000)
    return [entry for entry in journal if isinstance(entry.decision, ScaleReplicas)]


def steps(turner: Turner) -> list[ScaleReplicas]:
    return [entry.decision for entry in changes(turner) if isinstance(entry.decision, ScaleReplicas)]


def record(turner: Turner) -> WorkloadRecord:
    return turner.store.fetch_workload("detector")


def in_time(turner: Turner) -> float:
    status = record(turner).status
    assert status.requests
    return (status.requests_good or 0) / status.requests


@pytest.fixture(scope="module")
def elastic(small_fleet: Fleet, known: Catalogue) -> Turner:
    return day(small_fleet, known, 4)


def test_replicas_are_granted_and_given_back_with_a_reason_in_numbers(elastic: Turner) -> None:
    found = steps(elastic)
    assert any(one.after > one.before for one in found)
    assert any(one.after < one.before for one in found)
    for one in found:
        assert "late" in one.reason
        assert "%" in one.reason


def test_each_step_follows_the_one_before_and_returns_are_one_at_a_time(elastic: Turner) -> None:
    found = steps(elastic)
    assert all(first.after == second.before for first, second in pairwise(found))
    assert all(one.before - one.after == 1 for one in found if one.after < one.before)
    assert all(1 <= one.after <= 4 for one in found)
    home = record(elastic).status.placement
    assert home is not None
    assert home.replicas == found[-1].after


def test_it_does_not_flap(elastic: Turner) -> None:
    """A grant that takes back a return makes the next calm last twice as long."""
    entries = changes(elastic)
    assert len(entries) <= 16
    regrets = [
        second.at_s - first.at_s
        for first, second in pairwise(entries)
        if isinstance(first.decision, ScaleReplicas)
        and isinstance(second.decision, ScaleReplicas)
        and first.decision.after < first.decision.before
        and second.decision.after > second.decision.before
    ]
    assert len(regrets) <= 6


def test_more_is_answered_in_time_than_without(elastic: Turner, small_fleet: Fleet, known: Catalogue) -> None:
    fixed = day(small_fleet, known, 1)
    assert steps(fixed) == []
    assert in_time(elastic) > in_time(fixed) + 0.02


def test_replicas_that_run_go_on_and_every_hour_is_billed_once(elastic: Turner) -> None:
    found = record(elastic)
    assert found.status.phase is Phase.RUNNING
    assert found.status.restarts == 0
    charged = sum(charge.micros for charge in elastic.store.list_charges(0, 99_999))
    assert charged == found.status.spent_micros
    hours = (found.status.billed_until_s - (found.status.started_s or 0.0)) / HOUR_S
    whole_day_of_one = 150_000_000 * 0.4 * hours
    assert whole_day_of_one < charged < 4 * whole_day_of_one


def test_no_more_is_granted_than_the_pool_has_free(small_fleet: Fleet, known: Catalogue) -> None:
    turner = Turner(small_fleet, known)
    turner.world.submit([service(4)])
    turner.run(600.0, step_s=60.0)
    turner.world.submit([batch(f"w{index}", duration="200h", classes="{name: t4}") for index in range(3)])
    turner.run(DAY_S, step_s=60.0)
    assert all(turner.store.fetch_workload(f"w{index}").status.phase is Phase.RUNNING for index in range(3))
    assert max(one.after for one in steps(turner)) == 2, (
        "three of four devices are taken, the fourth has room for one"
    )
