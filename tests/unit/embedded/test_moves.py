"""Moves in the live loop: a price or grid that changes moves what should move, and nothing else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.adapters.memory.prices import MemoryPrices
from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import Move, Place
from dure.model.fleet import Connect, Fleet
from dure.model.policy import Policy, Verb
from dure.model.tariff import CarbonSeries, Tariff, Weekly
from dure.model.units import HOUR_S, MICROS, Instant
from dure.model.workload import Phase, Workload, WorkloadStatus
from dure.plane.moving import Moving
from tests.unit.embedded.test_world import START_S, Turner

TWINS = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: twins}
spec:
  currency: KRW
  carbonPrice: 0/tCO2e
  clusters:
    - name: east
      region: kr-east
      grid: KR
      pue: 1.2
      connect: {embedded: {}}
      pools:
        - {name: a100, class: a100-80gb-sxm, nodes: 4, devices: 4, share: [exclusive, mps], price: {owned: 1000/h}}
    - name: west
      region: kr-west
      grid: KR
      pue: 1.2
      connect: {embedded: {}}
      pools:
        - {name: a100, class: a100-80gb-sxm, nodes: 4, devices: 4, share: [exclusive, mps], price: {owned: 1200/h}}
  tenants: [{name: vision, weight: 1}]
"""


class Market:
    """Prices by cluster that a test may change at any moment."""

    def __init__(self, fleet: Fleet) -> None:
        self._fixed = MemoryPrices(fleet, walk=False)
        self.per_hour = {"east": 1000, "west": 1200}

    def fetch_tariffs(self, at_s: Instant) -> tuple[Tariff, ...]:
        return tuple(
            replace(one, owned=Weekly((self.per_hour[one.cluster] * MICROS,)))
            for one in self._fixed.fetch_tariffs(at_s)
        )


def job(name: str, **spec: Any) -> Workload:
    text = f"""
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: vision}}
spec:
  type: training
  classes: [a100-80gb-sxm]
  demand: {{devices: 2}}
  duration: 40h
  checkpoint: 20min
  interruptible: true
"""
    return replace(read_text(text, name).workloads[0], **spec)


def service(name: str = "chat") -> Workload:
    text = f"""
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: vision}}
spec:
  type: serving
  model: chat-7b
  classes: [a100-80gb-sxm]
  demand: {{memory: 18GiB, compute: 30%}}
  replicas: {{min: 2, max: 3}}
  rate: 4/s
"""
    return read_text(text, name).workloads[0]


@pytest.fixture
def turner(known: Catalogue) -> Turner:
    return made(known)


def made(known: Catalogue) -> Turner:
    fleet = read_text(TWINS, "twins").fleets[0]
    turner = Turner(fleet, known)
    turner.world.plane.observer.prices = Market(fleet)
    return turner


def market(turner: Turner) -> Market:
    found = turner.world.plane.observer.prices
    assert isinstance(found, Market)
    return found


def status(turner: Turner, name: str) -> WorkloadStatus:
    return turner.store.fetch_workload(name).status


def home(turner: Turner, name: str) -> str:
    placement = status(turner, name).placement
    return placement.cluster if placement else ""


def moves_of(turner: Turner, name: str) -> list[Move]:
    journal = turner.store.list_journal(workload=name, limit=1000)
    return [entry.decision for entry in journal if isinstance(entry.decision, Move)]


def test_nothing_moves_while_prices_stay(turner: Turner) -> None:
    turner.world.submit([job("steady"), service()])
    turner.run(8 * HOUR_S, step_s=60.0)
    assert home(turner, "steady") == home(turner, "chat") == "east"
    assert moves_of(turner, "steady") == moves_of(turner, "chat") == []


def test_a_dearer_home_is_left_at_a_checkpoint_and_only_by_those_it_pays_for(turner: Turner) -> None:
    turner.world.submit([job("long"), job("bare", checkpoint_s=0.0), job("nearly", duration_s=2.2 * HOUR_S)])
    turner.run(2 * HOUR_S, step_s=60.0)
    assert home(turner, "long") == "east"
    market(turner).per_hour["east"] = 3000
    turner.run(2 * HOUR_S, step_s=60.0)
    assert home(turner, "long") == "west"
    assert home(turner, "bare") == "east"
    [move] = moves_of(turner, "long")
    assert move.saving > 0.15 * (move.placement.bill.total + move.saving)
    assert moves_of(turner, "nearly") == []
    assert status(turner, "long").done_s >= 60 * 60


def test_in_a_fleet_with_a_real_cluster_nobody_moves_unless_the_policy_asks_for_it(turner: Turner) -> None:
    observer = turner.world.plane.observer
    here = observer.fleet.clusters[0]
    real = replace(here, info=replace(here.info, name="real"), connect=Connect(kubeconfig="nowhere"), pools=())
    observer.fleet = replace(observer.fleet, clusters=(*observer.fleet.clusters, real))
    turner.world.submit([job("long")])
    turner.run(HOUR_S, step_s=60.0)
    market(turner).per_hour["east"] = 3000
    turner.run(2 * HOUR_S, step_s=60.0)
    assert home(turner, "long") == "east"
    turner.store.write_policy(Policy("ours", Verb.PLACE, settings={"movesAtOnce": 2}))
    turner.run(2 * HOUR_S, step_s=60.0)
    assert home(turner, "long") == "west"


def test_a_price_that_jumps_within_the_hour_is_looked_at_at_once_and_a_trembling_one_is_not(
    turner: Turner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an hour into an hour; the next look would be ten minutes away, and one at savings half an hour."""
    turner.world.submit([service()])
    turner.run(2.5 * HOUR_S, step_s=60.0)
    moving = turner.world.plane.later[0]
    assert isinstance(moving, Moving)
    looks: list[bool] = []
    planned = moving._plan

    def plan(*args: Any, jumped: bool, rule_only: bool) -> None:
        looks.append(jumped)
        planned(*args, jumped=jumped, rule_only=rule_only)

    monkeypatch.setattr(moving, "_plan", plan)
    market(turner).per_hour["east"] = 1040
    turner.run(120.0, step_s=60.0)
    assert True not in looks
    market(turner).per_hour["east"] = 3000
    turner.run(120.0, step_s=60.0)
    assert looks.count(True) == 1
    [move] = moves_of(turner, "chat")
    assert move.placement.cluster == "west"


class Grids:
    """g/kWh of either grid in every hour, which a test may change at any moment."""

    def __init__(self) -> None:
        self.figures = {"KR": 100.0, "NO": 100.0}
        self.read = 0

    def fetch_carbon(self, since_s: Instant, until_s: Instant) -> tuple[CarbonSeries, ...]:
        self.read += 1
        hours = int((until_s - since_s) // HOUR_S)
        return tuple(CarbonSeries(grid, since_s, (value,) * hours) for grid, value in sorted(self.figures.items()))

    def revision(self) -> Instant:
        return sum(self.figures.values())


def test_a_grid_that_changes_within_the_hour_moves_a_serving_at_once(turner: Turner) -> None:
    observer = turner.world.plane.observer
    carbon = Grids()
    observer.carbon = carbon
    clusters = tuple(
        replace(one, info=replace(one.info, grid="KR" if one.info.name == "east" else "NO"))
        for one in observer.fleet.clusters
    )
    observer.fleet = replace(observer.fleet, clusters=clusters, carbon_micros_per_kg=3000 * MICROS)
    turner.world.submit([service()])
    turner.run(2.5 * HOUR_S, step_s=60.0)
    assert home(turner, "chat") == "east"
    assert carbon.read <= 4
    carbon.figures["KR"] = 103.0
    turner.run(120.0, step_s=60.0)
    assert moves_of(turner, "chat") == []
    carbon.figures["KR"] = 900.0
    turner.run(120.0, step_s=60.0)
    [move] = moves_of(turner, "chat")
    assert move.placement.cluster == "west"


def test_a_small_difference_moves_nobody(turner: Turner) -> None:
    turner.world.submit([job("long"), service()])
    turner.run(HOUR_S, step_s=60.0)
    market(turner).per_hour["east"] = 1300
    turner.run(4 * HOUR_S, step_s=60.0)
    assert home(turner, "long") == home(turner, "chat") == "east"


def test_a_serving_moves_without_ever_having_fewer_replicas_ready_than_its_least(turner: Turner) -> None:
    turner.world.submit([service()])
    turner.run(HOUR_S, step_s=60.0)
    assert status(turner, "chat").ready == 2
    market(turner).per_hour["east"] = 3000
    warmed = False
    for _ in range(360):
        turner.run(10.0, step_s=10.0)
        now = status(turner, "chat")
        warmed |= now.incoming is not None
        assert now.ready >= 2
        assert ready_somewhere(turner, "chat") >= 2
    assert warmed
    assert home(turner, "chat") == "west"
    assert now.requests is not None
    assert now.requests_good == pytest.approx(now.requests, rel=0.02)


def ready_somewhere(turner: Turner, name: str) -> int:
    """Replicas that really run, in whatever cluster."""
    return max(
        sum(pod.workload == name and pod.phase == "running" for pod in cluster.fetch_state().pods)
        for cluster in turner.world.clusters.values()
    )


def test_a_move_that_finds_its_new_home_taken_ends_in_any_home(turner: Turner) -> None:
    turner.world.submit([job("long")])
    turner.run(HOUR_S, step_s=60.0)
    market(turner).per_hour["east"] = 3000
    turner.world.submit([job(f"other{index}", duration_s=90 * HOUR_S) for index in range(8)])
    turner.run(6 * HOUR_S, step_s=60.0)
    assert status(turner, "long").phase in (Phase.RUNNING, Phase.HELD)


def test_a_policy_that_allows_no_moves_is_obeyed(turner: Turner) -> None:
    turner.store.write_policy(Policy("still", Verb.PLACE, settings={"moves_at_once": 0}))
    turner.world.submit([job("long")])
    turner.run(HOUR_S, step_s=60.0)
    market(turner).per_hour["east"] = 5000
    turner.run(3 * HOUR_S, step_s=60.0)
    assert home(turner, "long") == "east"


@settings(max_examples=5, deadline=None)
@given(st.lists(st.tuples(st.integers(200, 6000), st.integers(200, 6000)), min_size=8, max_size=8))
def test_whatever_prices_do_moves_are_few_and_no_work_is_lost(
    known: Catalogue, prices: list[tuple[int, int]]
) -> None:
    turner = made(known)
    turner.store.write_policy(Policy("brisk", Verb.PLACE, settings={"moves_per_hour": 3, "move_cooldown_h": 2.0}))
    names = [f"job{index}" for index in range(5)]
    turner.world.submit([*(job(name) for name in names), service()])
    turner.run(HOUR_S, step_s=60.0)
    safe = dict.fromkeys(names, 0.0)
    for east, west in prices:
        market(turner).per_hour |= {"east": east, "west": west}
        for _ in range(6):
            turner.run(600.0, step_s=120.0)
            for name in names:
                done = status(turner, name).done_s
                assert done >= safe[name]
                safe[name] = done
            assert ready_somewhere(turner, "chat") >= 2
    began = [entry for name in [*names, "chat"] for entry in turner.store.list_journal(workload=name, limit=1000)]
    moved = [entry for entry in began if isinstance(entry.decision, Move)]
    assert all(isinstance(entry.decision, Move) and entry.decision.saving > 0 for entry in moved)
    for hour in range(10):
        since = START_S + hour * HOUR_S
        assert sum(since <= entry.at_s < since + HOUR_S for entry in moved) <= 3
    for name in [*names, "chat"]:
        times = [entry.at_s for entry in moved if entry.workload == name]
        assert all(later - earlier >= 2 * HOUR_S for earlier, later in pairwise(times))


SPOTTY = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: spotty}
spec:
  currency: KRW
  carbonPrice: 0/tCO2e
  clusters:
    - name: cloud
      region: kr-east
      grid: KR
      connect: {embedded: {}}
      pools:
        - name: spot
          class: a100-80gb-sxm
          nodes: 3
          devices: 4
          boot: 120s
          price: {spot: 300/h, reclaim: 45%/h}
        - {name: rented, class: a100-80gb-sxm, nodesMax: 6, devices: 4, boot: 120s, price: {onDemand: 1000/h}}
  tenants: [{name: vision, weight: 1}]
"""


def test_a_workload_on_spot_is_done_in_time_however_often_it_is_reclaimed(known: Catalogue) -> None:
    turner = Turner(read_text(SPOTTY, "spotty").fleets[0], known)
    # Whose real work is no more than they say: nobody can keep a promise made on a wrong estimate.
    names = ["tune0", "tune1", "tune3"]
    turner.world.submit([job(name, duration_s=6 * HOUR_S, deadline_s=8.2 * HOUR_S) for name in names])
    turner.run(13 * HOUR_S, step_s=60.0)
    records = [turner.store.fetch_workload(name) for name in names]
    assert all(one.status.phase is Phase.DONE for one in records)
    assert all((one.status.finished_s or 0.0) <= one.status.submitted_s + 8.2 * HOUR_S for one in records)
    assert sum(one.status.restarts for one in records) > 0
    homes = [
        entry.decision.placement.pool
        for name in names
        for entry in turner.store.list_journal(workload=name, limit=1000)
        if isinstance(entry.decision, (Place, Move))
    ]
    assert {"spot", "rented"} == set(homes)
