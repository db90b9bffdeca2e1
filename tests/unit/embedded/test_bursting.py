"""Burst on the embedded fleet: a serving gets replicas when its answers run late, and gives them back when calm."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from dure.files import read_text
from dure.model.accelerator import ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import VNodePool
from dure.model.decision import JournalEntry, ScaleReplicas
from dure.model.errors import InvalidInput
from dure.model.fleet import Fleet
from dure.model.policy import Policy, Verb
from dure.model.report import Report
from dure.model.tariff import Capacity
from dure.model.units import DAY_S, HOUR_S
from dure.model.workload import Phase, Placement, Workload, WorkloadRecord, WorkloadStatus
from dure.plane.apply import Draft
from dure.plane.bursting import Sight, _counted, _Watch
from dure.plane.policies import checked
from dure.scale.bursts import Bursts
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
        assert ("late" in one.reason and "%" in one.reason) or "requests wait" in one.reason


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


def real(turner: Turner) -> None:
    """The same clusters, as if somebody else ran them."""
    turner.world.plane.bursting._embedded = set()


def test_a_serving_of_a_real_cluster_is_scaled_only_when_a_policy_asks_for_it(
    small_fleet: Fleet, known: Catalogue
) -> None:
    found = []
    for asked in (False, True):
        turner = Turner(small_fleet, known)
        real(turner)
        turner.store.write_policy(Policy("bursts", Verb.SCALE, settings={"realClusters": asked}))
        turner.world.submit([service(4)])
        turner.run(DAY_S / 2, step_s=60.0)
        found.append(any(one.after > one.before for one in steps(turner)))
    assert found == [False, True]


def test_nobody_is_scaled_while_the_policy_is_paused(small_fleet: Fleet, known: Catalogue) -> None:
    turner = Turner(small_fleet, known)
    turner.store.write_policy(Policy("bursts", Verb.SCALE, paused=True))
    turner.world.submit([service(4)])
    turner.run(DAY_S / 2, step_s=60.0)
    assert steps(turner) == []


def test_a_policy_that_was_kept_unchecked_counts_as_none(small_fleet: Fleet, known: Catalogue) -> None:
    turner = Turner(small_fleet, known)
    turner.store.write_policy(Policy("old", Verb.SCALE, settings={"target": 0.7}))
    turner.world.submit([service(4)])
    turner.run(DAY_S / 2, step_s=60.0)
    assert any(one.after > one.before for one in steps(turner))


class Counted:
    """One serving in a cluster with room, whose counters a test moves."""

    def __init__(self, **rules: Any) -> None:
        placement = Placement("detector", 1, "c", "t4", "t4", ShareMode.MPS, Capacity.OWNED, 1, 0.0)
        status = WorkloadStatus(
            Phase.RUNNING, placement=placement, generation=1, ready=1, requests=0, requests_good=0
        )
        self.draft = Draft(WorkloadRecord("u", service(4), status))
        pool = VNodePool(
            "c", "t4", "t4", Capacity.OWNED, devices=8, free_milli=8000,
            largest_memory_mib=16384, largest_compute_milli=1000,
        )  # fmt: skip
        self.reports = (Report("c", 0.0, "1", (pool,), ()),)
        self.watch = _Watch(
            0.0, Bursts(sample_s=10.0, window_s=60.0, horizon_s=20.0, calm_s=30.0, **rules), service(4)
        )
        self.now_s = 0.0
        self.count(0, 0)

    def count(self, asked: int, late: int, waiting: int | None = None) -> ScaleReplicas | None:
        """What is decided after another sample with these."""
        self.now_s += self.watch.bursts.sample_s
        status = self.draft.status
        requests, good = (status.requests or 0) + asked, (status.requests_good or 0) + asked - late
        self.draft.status = replace(status, requests=requests, requests_good=good, waiting=waiting)
        found = self.watch.decide(self.draft, self.reports, self.now_s, Sight())
        if found is not None:
            home = self.draft.status.placement
            assert home is not None
            self.draft.status = replace(
                self.draft.status, placement=replace(home, replicas=found.after), ready=found.after
            )
        return found


def test_replicas_go_back_when_nobody_asks_any_more() -> None:
    """Silence is calm: without requests there is no late share, and it must not keep what was granted for ever."""
    world = Counted()
    granted = [found for _ in range(5) if (found := world.count(200, 100)) is not None]
    assert granted[0].after > 1
    given_back = [found for _ in range(400) if (found := world.count(0, 0)) is not None]
    assert [one.before - one.after for one in given_back] == [1] * (granted[-1].after - 1)
    assert given_back[-1].after == 1


def test_a_queue_that_stands_gets_the_replicas_that_work_it_off_before_an_answer_was_late() -> None:
    """One replica answers ten a second, thirteen come: after two looks, with the figures in the reason."""
    world = Counted()
    assert world.count(100, 0, 0) is None
    assert world.count(100, 0, 30) is None, "seen once"
    found = world.count(100, 0, 60)
    assert found is not None
    assert found.after == 3, "13 a second and 30 within 20 s, ten for each of which seven are given"
    assert found.reason.startswith("30 requests wait, 3 s for the last of them where 0.12 s are promised: 13/s come")


def test_a_queue_is_answered_though_nobody_is_answered_often_enough_for_a_trend() -> None:
    """Long answers: three in ten seconds make no share, and that so few are done is no calm."""
    world = Counted()
    found = [world.count(3, 0, waiting) for waiting in (40, 50, 60)]
    assert [one.after for one in found if one is not None] == [4], "no more than the workload may have"
    assert [world.count(3, 0, 60) for _ in range(200)] == [None] * 200, "nothing is given back either"


def test_a_short_queue_or_one_that_is_soon_gone_grants_nothing() -> None:
    world = Counted()
    assert [world.count(100, 0, 1) for _ in range(50)] == [None] * 50, "a tenth of a second is in time"
    assert [world.count(100, 0, waiting) for waiting in (0, 500, 0, 500, 0)] == [None] * 5


def test_a_queue_of_a_generation_before_says_nothing_of_this_one() -> None:
    world = Counted()
    world.count(100, 0, 30)
    world.draft.status = replace(world.draft.status, requests=0, requests_good=0)
    assert world.count(50, 0, 60) is None


def test_the_embedded_fleet_grants_for_a_queue_of_long_answers(small_fleet: Fleet, known: Catalogue) -> None:
    """Twelve a minute are too few for a trend of the late share; half as much again as one replica can is a queue."""
    turner = Turner(small_fleet, known)
    slow = service(4)
    turner.world.submit([replace(slow, rate_per_s=0.05, slo=replace(slow.slo, latency_p95_ms=30_000.0))])
    turner.run(600.0, step_s=60.0)
    assert record(turner).status.waiting == 0
    begin_s = turner.clock.now()
    for cluster in turner.world.clusters.values():
        cluster.surge("detector", 4.0, begin_s, begin_s + 3 * HOUR_S)
    turner.run(HOUR_S, step_s=60.0)
    found = steps(turner)
    assert found[0].after > found[0].before == 1
    assert "requests wait" in found[0].reason
    turner.run(HOUR_S, step_s=60.0)
    assert record(turner).status.waiting == 0, "worked off"
    assert steps(turner) == found, "kept while it is needed, and no more than that"


def test_a_few_late_answers_among_few_grant_nothing() -> None:
    world = Counted()
    assert [world.count(3, 3) for _ in range(200)] == [None] * 200


def test_one_whose_answers_in_time_nobody_counts_is_left_alone() -> None:
    """A histogram without a bound below the promise says how many came, not how many were good."""
    world = Counted()
    assert _counted(world.draft)
    world.draft.status = replace(world.draft.status, requests_good=None)
    assert not _counted(world.draft)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"sampleS": 0}, "more than 0"),
        ({"sampleS": 60, "windowS": 100}, "do not fit"),
        ({"leastSamples": 1}, "no trend"),
        ({"realCluster": True}, "realClusters"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        checked(Policy("bursts", Verb.SCALE, settings=settings))
    assert says in f"{error.value} {error.value.remedy}"


def test_there_is_one_way_of_scaling() -> None:
    with pytest.raises(InvalidInput, match="no way of scaling 'magic'"):
        checked(Policy("bursts", Verb.SCALE, algorithm="magic"))
