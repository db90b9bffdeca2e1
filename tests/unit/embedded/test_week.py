"""A simulated stretch: complete, cheap enough, and the same bytes whatever the hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import pytest

from dure.embedded.week import START_S, Run, simulate, without_moves
from dure.files.builtin import demo_fleet
from dure.model.catalogue import Catalogue
from dure.model.demand import Demand
from dure.model.fleet import Fleet
from dure.model.policy import Policy, Verb
from dure.model.units import DAY_S, HOUR_S
from dure.model.workload import AcceptedClass, Workload, WorkloadType
from dure.place.settings import settings_of


def sim(hash_seed: str, seed: str = "1") -> str:
    command = [sys.executable, "-m", "dure", "sim", "--days", "0.3", "--seed", seed, "--json"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def first() -> str:
    return sim("1")


def test_same_seed_same_bytes_under_two_hash_seeds(first: str) -> None:
    assert first == sim("77")


def test_another_seed_is_another_week(first: str) -> None:
    assert first != sim("1", seed="2")


def test_the_report_accounts_for_every_workload(first: str) -> None:
    report = json.loads(first)
    states = ("done", "failed", "running", "waiting")
    assert sum(report[state] for state in states) == report["submitted"] > 50
    assert report["cost_micros"] == sum(one["cost_micros"] for one in report["by_cluster"].values())
    assert report["cost_micros"] == sum(one["cost_micros"] for one in report["by_tenant"].values())
    assert 0 < report["utilisation"] < 1
    assert 0 < report["slo_attainment"] <= 1


def test_what_still_runs_at_the_end_is_billed_to_the_end(small_fleet: Fleet, known: Catalogue) -> None:
    """Billing comes every half hour: minutes after the last one count too."""
    job = Workload("job", "vision", WorkloadType.BATCH, (AcceptedClass("t4"),), Demand(devices=1), duration_s=DAY_S)
    run = Run(small_fleet, known, [(START_S, job)], days=0.9 * HOUR_S / DAY_S)
    shorter = simulate(msgspec.structs.replace(run, days=0.8 * HOUR_S / DAY_S))
    longer = simulate(run)
    assert longer.running == shorter.running == 1
    assert longer.cost_micros > shorter.cost_micros > 0


def test_a_fleet_without_moves_keeps_its_other_settings() -> None:
    chosen = Policy("goal", Verb.PLACE, settings={"carbonWeight": 2.0})
    fleet = msgspec.structs.replace(demo_fleet(), policies=(chosen,))
    [still] = without_moves(fleet).policies
    assert settings_of(still).moves_at_once == 0
    assert settings_of(still).carbon_weight == 2.0
    assert settings_of(without_moves(demo_fleet()).policies[-1]).moves_at_once == 0
