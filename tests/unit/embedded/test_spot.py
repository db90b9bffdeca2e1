"""The live plane on a spot market that comes and goes: it rents what the benchmark's rule rents, tick by tick."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.adapters.memory import pods
from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.laws import CALM
from dure.adapters.memory.prices import MemoryPrices
from dure.adapters.memory.world import Kind
from dure.bench.data import data_dir, data_file
from dure.bench.spot_replay import Bools, Job, Moment, Zones, replay
from dure.bench.spot_rules import ours
from dure.bench.spot_trace import DEFAULT_ZONES, FILE, read_zones
from dure.embedded.world import EmbeddedWorld
from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterInfo
from dure.model.decision import Hold, Move
from dure.model.fleet import Connect
from dure.model.reason import Reason
from dure.model.tariff import Capacity
from dure.model.workload import Phase, Workload
from dure.place.spot import LOOK_S, Rent
from tests.unit.embedded.test_world import START_S, Turner

RESTART_S = 600.0
CHECKPOINT_S = 1.0
# Looks before the workload comes: more than three days, so that days are told apart.
PAST = 460
# Between two steps of the world at one tick: the next report must be later than what it answers.
MOMENT_S = 1 / 1024


def fleet_text(zones: int) -> str:
    price = "{spot: 300/h, reclaim: 50%/h}"
    spot = "\n".join(
        f"        - {{name: z{zone}, class: a100-80gb-sxm, nodes: 1, devices: 1, price: {price}}}"
        for zone in range(zones)
    )
    return f"""
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {{name: market}}
spec:
  currency: KRW
  carbonPrice: 0/tCO2e
  clusters:
    - name: cloud
      region: kr
      grid: KR
      pue: 1.0
      connect: {{embedded: {{}}}}
      pools:
{spot}
        - {{name: sure, class: a100-80gb-sxm, nodes: 4, devices: 1, boot: 10min, price: {{onDemand: 1000/h}}}}
  tenants: [{{name: vision, weight: 1}}]
  policies:
    - {{name: place, verb: place, settings: {{durationLow: 1.0, durationHigh: 1.0, learning: "off"}}}}
"""


def training(work_s: float, deadline_s: float) -> Workload:
    text = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: fit, tenant: vision}
spec: {type: training, classes: [a100-80gb-sxm], demand: {devices: 1}, duration: 1h, checkpoint: 1s}
"""
    made = read_text(text, "fit").workloads[0]
    return replace(made, duration_s=work_s, deadline_s=deadline_s)


class Cloud(Turner):
    """A fleet whose spot zones follow a record."""

    def __init__(self, up: Bools, known: Catalogue) -> None:
        super().__init__(read_text(fleet_text(len(up)), "market").fleets[0], known)
        self.up, self.tick = up, 0
        self.was = np.ones(len(up), np.bool_)

    def _build(self) -> EmbeddedWorld:
        made = super()._build()
        made.idle_s = 0.0
        made.plane.observer.prices = MemoryPrices(self.fleet, walk=False)
        return made

    def one_tick(self) -> None:
        """What the record says happens, then everybody who has something to do about it does it."""
        world = self.world.clusters["cloud"]._world
        now = self.up[:, self.tick]
        for zone in np.flatnonzero(now != self.was).tolist():
            if now[zone]:
                world.foresee(self.clock.now(), Kind.NODE_WANTED, f"z{zone}")
            else:
                [node] = [name for name, one in world.nodes.items() if one.pool == f"z{zone}"]
                world.foresee(self.clock.now(), Kind.NODE_GONE, node)
        self.was = now
        for at_s in (0.0, CHECKPOINT_S):
            # What has to wait for a checkpoint has one after this long.
            self.clock.advance(START_S + self.tick * LOOK_S + at_s)
            for _ in range(12):
                self.world.nudge()
                self.world.step()
                self.clock.advance(self.clock.now() + MOMENT_S)

    def next_tick(self) -> None:
        self.tick += 1
        self.clock.advance(START_S + self.tick * LOOK_S)

    def rents(self) -> tuple[Rent, str]:
        home = self.store.fetch_workload("fit").status.placement
        if home is None:
            return Rent.IDLE, ""
        return (Rent.SPOT, home.pool) if home.capacity is Capacity.SPOT else (Rent.ON_DEMAND, "")


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches take as long as the rule reckons with, and nothing goes or comes that the record does not say."""
    monkeypatch.setattr(pods, "_CONTAINER_S", RESTART_S)
    usual = MemoryCluster.__init__.__kwdefaults__
    assert usual is not None
    monkeypatch.setitem(usual, "hazards", replace(CALM, spot_back_s=math.inf))


def expected(up: Bools, past: int, job: Job) -> list[tuple[Rent, str]]:
    """What the benchmark's replay rents in each tick, and where."""
    zones = Zones(up[:, past:], LOOK_S, up[:, :past])
    rents: list[tuple[Rent, str]] = []

    def rule(moment: Moment) -> Rent:
        wish = ours(moment)
        if wish is Rent.SPOT:
            now = zones.look(round(moment.now_s / LOOK_S))
            at = zones.home if moment.view.running is Rent.SPOT else zones.pick(now)
            rents.append((wish, f"z{at}"))
        else:
            rents.append((wish, ""))
        return wish

    assert replay(job, zones, rule).end_s <= job.deadline_s
    return rents


def lived(
    up: Bools, past: int, job: Job, known: Catalogue, *, crash_at: int = -1, beside_real: bool = False
) -> list[tuple[Rent, str]]:
    """What the plane rents in each tick until the work is done, which it is in time."""
    cloud = Cloud(up, known)
    if beside_real:
        observer, [mine] = cloud.world.plane.observer, cloud.fleet.clusters
        real = replace(mine, info=ClusterInfo("real"), connect=Connect(agent="real"))
        observer.fleet = replace(cloud.fleet, clusters=(mine, real))
    rents: list[tuple[Rent, str]] = []
    while True:
        if cloud.tick == past:
            cloud.world.submit([training(job.work_s, job.deadline_s)])
        if cloud.tick == crash_at:
            cloud.crash()
        cloud.one_tick()
        if cloud.tick >= past:
            status = cloud.store.fetch_workload("fit").status
            if status.phase is Phase.DONE:
                assert status.finished_s is not None
                assert status.finished_s <= status.submitted_s + job.deadline_s
                assert_moves_pay(cloud)
                return rents
            rents.append(cloud.rents())
        cloud.next_tick()


def assert_moves_pay(cloud: Cloud) -> None:
    """By their own forecast, unless it is for the deadline; and never more of them in an hour than may be."""
    journal = cloud.store.list_journal(workload="fit", limit=5000)
    moved = [entry for entry in journal if isinstance(entry.decision, Move)]
    for entry in moved:
        assert isinstance(entry.decision, Move)
        assert entry.decision.saving > 0 or entry.decision.reason.reason is Reason.DEADLINE_AT_RISK
        assert sum(0 <= entry.at_s - other.at_s < 3600 for other in moved) <= 12


def record(seed: int, zones: int, ticks: int) -> Bools:
    """Zones whose spells last the longer the longer they have lasted."""
    rng = np.random.default_rng(seed)
    up = np.zeros((zones, ticks), np.bool_)
    for zone in up:
        at, state = 0, bool(rng.integers(2))
        while at < ticks:
            length = 1 + int(min(200.0, 4.0 * rng.pareto(0.9 if state else 1.1)))
            zone[at : at + length] = state
            at, state = at + length, not state
    return up


def job_of(hours: float, factor: float) -> Job:
    """Off the full ticks by half of one, so that what a report is late by never makes the difference."""
    work_s = round(hours * 6) * LOOK_S + 300.0
    slack_s = round(work_s * (factor - 1) / LOOK_S) * LOOK_S + 300.0
    return Job(work_s, RESTART_S, work_s + slack_s, 0.3)


@pytest.mark.parametrize("zones", [1, 3])
@pytest.mark.parametrize("factor", [1.25, 1.6, 2.2])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_plane_rents_what_the_benchmark_rents_tick_by_tick(
    zones: int, factor: float, seed: int, known: Catalogue
) -> None:
    job = job_of(12.0, factor)
    up = record(seed, zones, PAST + int(job.deadline_s / LOOK_S) + 4)
    assert lived(up, PAST, job, known) == expected(up, PAST, job)


@pytest.mark.skipif(data_dir() is None, reason="needs the public data named by DURE_DATA")
@pytest.mark.parametrize(("count", "begin"), [(1, 1500), (4, 9000)])
def test_on_zones_that_were_recorded_too(count: int, begin: int, known: Catalogue) -> None:
    """Every third look of the record, as the plane looks less often."""
    job = job_of(12.0, 1.4)
    ticks = PAST + int(job.deadline_s / LOOK_S) + 4
    zones = read_zones(data_file(FILE), DEFAULT_ZONES)[:count]
    up = np.stack([zone.up[begin : begin + 3 * ticks : 3] for zone in zones])
    assert lived(up, PAST, job, known) == expected(up, PAST, job)


def test_a_plane_and_agents_that_die_go_on_with_what_was_seen(known: Catalogue) -> None:
    job = job_of(12.0, 1.6)
    up = record(2, 1, PAST + int(job.deadline_s / LOOK_S) + 4)
    assert lived(up, PAST, job, known, crash_at=PAST + 32) == expected(up, PAST, job)


def test_in_a_fleet_with_real_clusters_the_rule_moves_those_it_has_put_on_spot(known: Catalogue) -> None:
    job = job_of(12.0, 1.25)
    up = record(2, 1, PAST + int(job.deadline_s / LOOK_S) + 4)
    rents = lived(up, PAST, job, known, beside_real=True)
    assert rents == expected(up, PAST, job)
    assert {rent for rent, _ in rents} >= {Rent.SPOT, Rent.ON_DEMAND}


def test_what_was_seen_of_the_pools_is_in_the_snapshot_and_survives_everybody(known: Catalogue) -> None:
    up = np.array([[True] * 3 + [False] * 3 + [True] * 4])
    cloud = Cloud(up, known)
    for _ in range(8):
        cloud.one_tick()
        cloud.next_tick()
    [before] = cloud.world.desk.snapshot().spells
    first, second = before.spells
    assert (before.cluster, before.pool, before.asks) == ("cloud", "z0", False)
    assert (first.lost, second.end_s) == (True, None)
    assert [first.begin_s, first.end_s, second.begin_s] == pytest.approx(
        [START_S, START_S + 3 * LOOK_S, START_S + 6 * LOOK_S], abs=2.0
    )
    cloud.crash()
    cloud.one_tick()
    assert cloud.world.desk.snapshot().spells == (before,)


def test_people_are_told_why_it_waits_for_spot_runs_on_it_or_pays_in_full(known: Catalogue) -> None:
    up = np.zeros((1, 400), np.bool_)
    up[0, :100], up[0, 105:112] = True, True
    job = job_of(6.0, 2.0)
    cloud = Cloud(up, known)
    told: dict[Rent, str] = {}
    while cloud.tick < 190:
        if cloud.tick == 101:
            cloud.world.submit([training(job.work_s, job.deadline_s)])
        cloud.one_tick()
        if cloud.tick == 100:
            assert "waits for spot" in cloud.world.desk.plan(training(job.work_s, job.deadline_s)).note
        if cloud.tick >= 101 and cloud.store.fetch_workload("fit").status.phase is not Phase.DONE:
            why = cloud.world.desk.why("fit")
            told[cloud.rents()[0]] = "\n".join(f"{line.where} {line.sentence}" for line in why.lines)
        cloud.next_tick()
    assert "expected back in" in told[Rent.IDLE]
    assert "takes spot" in told[Rent.SPOT]
    assert "slack" in told[Rent.SPOT]
    assert "pays in full" in told[Rent.ON_DEMAND]
    held = [one.decision for one in cloud.store.list_journal(workload="fit", limit=500)]
    reasons = {verdict.reason for one in held if isinstance(one, Hold) for verdict in one.verdicts}
    assert Reason.WAITING_FOR_SPOT in reasons


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.booleans(), min_size=90, max_size=90), min_size=1, max_size=3),
    st.sampled_from([1.15, 1.4, 2.0]),
)
def test_whatever_the_market_does_nothing_is_late_that_on_demand_could_have_done(
    known: Catalogue, up: list[list[bool]], factor: float
) -> None:
    lived(np.array(up), 6, job_of(5.0, max(factor, 1.0 + 2400.0 / (5 * 3600))), known)
