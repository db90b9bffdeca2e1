"""Replicas of a language-model service on the embedded fleet: set by Dure's policy from what its engines show."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dure.adapters.memory import serving
from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import ScaleReplicas
from dure.model.fleet import Fleet
from dure.model.pulse import Scaling
from dure.model.units import DAY_S, HOUR_S
from dure.model.workload import Workload
from dure.plane.steering import steered_of
from tests.unit.embedded.test_world import START_S, Turner


def chat(most: int = 4, scaling: str = "auto") -> Workload:
    text = f"""
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: chat, tenant: vision}}
spec:
  type: serving
  model: chat-7b
  classes: [t4]
  demand: {{memory: 3GiB, compute: 40%}}
  replicas: {{min: 1, max: {most}}}
  rate: 60/s
  slo: {{latency: {{p95: 900ms}}}}
  scaling: {scaling}
"""
    return read_text(text, "chat").workloads[0]


def steps(turner: Turner) -> list[ScaleReplicas]:
    journal = turner.store.list_journal(workload="chat", limit=1000)
    return [entry.decision for entry in journal if isinstance(entry.decision, ScaleReplicas)]


def day(fleet: Fleet, known: Catalogue, workload: Workload) -> Turner:
    turner = Turner(fleet, known)
    turner.world.submit([workload])
    turner.run(DAY_S, step_s=60.0)
    return turner


def in_time(turner: Turner) -> float:
    status = turner.store.fetch_workload("chat").status
    assert status.requests
    return (status.requests_good or 0) / status.requests


@pytest.fixture(scope="module")
def steered(small_fleet: Fleet, known: Catalogue) -> Turner:
    return day(small_fleet, known, chat())


def test_the_policy_of_the_benchmark_moves_the_replicas_and_says_why(steered: Turner) -> None:
    found = steps(steered)
    assert any(one.after > one.before for one in found)
    assert any(one.after < one.before for one in found)
    for one in found:
        assert one.reason.startswith(("DemandAbove: ", "ForecastFloor: ", "DemandBelow: "))
        assert "demand fills" in one.reason
    assert len(found) <= 24, "it must not flap"


def test_more_is_answered_in_time_than_with_one(steered: Turner, small_fleet: Fleet, known: Catalogue) -> None:
    fixed = day(small_fleet, known, chat(1))
    assert steps(fixed) == []
    assert in_time(steered) > max(0.95, in_time(fixed) + 0.02)


def test_who_asks_why_hears_who_steers_it(steered: Turner) -> None:
    said = steered.world.desk.why("chat").scaling
    assert "wanted by 'serving'" in said
    assert "requests wait" in said


def test_a_full_pool_is_named_where_it_keeps_a_service_small(small_fleet: Fleet, known: Catalogue) -> None:
    """Four devices with room for two replicas each; more than twenty are asked for."""
    turner = Turner(small_fleet, known)
    turner.world.submit([chat(20)])
    turner.run(HOUR_S, step_s=60.0)
    begin_s = turner.clock.now()
    for cluster in turner.world.clusters.values():
        cluster.surge("chat", 30.0, begin_s, begin_s + 2 * HOUR_S)
    turner.run(HOUR_S, step_s=60.0)
    status = turner.store.fetch_workload("chat").status
    assert status.placement is not None
    assert status.ready == 8
    assert status.placement.replicas <= 10, "what free shares add up to, at most"
    assert "busan/t4 has room for 8 (NoCapacity)" in turner.world.desk.why("chat").scaling


def test_a_service_grows_onto_nodes_that_are_booted_for_it(small_fleet: Fleet, known: Catalogue) -> None:
    busan = small_fleet.clusters[1]
    grows = replace(busan.pools[0], nodes=0, nodes_max=3)
    fleet = replace(small_fleet, clusters=(small_fleet.clusters[0], replace(busan, pools=(grows,))))
    turner = Turner(fleet, known)
    turner.world.submit([chat(12)])
    turner.run(HOUR_S, step_s=60.0)
    begin_s = turner.clock.now()
    for cluster in turner.world.clusters.values():
        cluster.surge("chat", 8.0, begin_s, begin_s + 3 * HOUR_S)
    turner.run(2 * HOUR_S, step_s=60.0)
    assert turner.store.fetch_workload("chat").status.ready > 4, "one node holds four"


@pytest.mark.parametrize("scaling", ["hpa", "keda"])
def test_its_owner_may_ask_for_other_rules(small_fleet: Fleet, known: Catalogue, scaling: str) -> None:
    turner = day(small_fleet, known, chat(scaling=scaling))
    assert steered_of(turner.store)["chat"].verdict.by is Scaling(scaling)
    assert {one.reason.split(":")[0] for one in steps(turner)} == {f"{scaling.upper()} rules"}
    assert in_time(turner) > 0.95


def test_when_engines_fall_silent_hpa_goes_on_and_people_are_told(
    small_fleet: Fleet, known: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    turner = Turner(small_fleet, known)
    turner.world.submit([chat()])
    turner.run(3 * HOUR_S, step_s=60.0)
    whole = serving.pulse

    def cut(*seen: Any) -> Any:
        """The scraper's last answer again and again, as when its target does not answer any more."""
        found = whole(*seen)
        return replace(found, at_s=START_S + 3 * HOUR_S) if found is not None else None

    monkeypatch.setattr(serving, "pulse", cut)
    turner.run(HOUR_S, step_s=60.0)
    verdict = steered_of(turner.store)["chat"].verdict
    assert verdict.by is Scaling.HPA
    assert verdict.fallback.startswith("serving metrics are ")
    assert "requests/s" in verdict.why, "requests are still counted, so HPA has a metric"
    monkeypatch.setattr(serving, "pulse", whole)
    turner.run(HOUR_S, step_s=60.0)
    assert steered_of(turner.store)["chat"].verdict.by is Scaling.SERVING
    told = [event.message for event in turner.store.list_events(limit=1000) if event.kind == "ScalingSignals"]
    assert len(told) == 2
    assert told[0].startswith("chat is scaled by HPA's rules: serving metrics are ")
    assert told[1] == "chat is scaled by its serving metrics again"


def test_a_surge_that_comes_every_day_finds_its_replicas_ready(small_fleet: Fleet, known: Catalogue) -> None:
    """Pre-warming: on the third day replicas are asked for before the surge, because of the forecast alone."""
    turner = Turner(small_fleet, known)
    turner.world.submit([chat()])
    ready = []
    for number in range(3):
        begin_s = START_S + number * DAY_S + 12 * HOUR_S
        turner.run(begin_s - turner.clock.now() - 60.0, step_s=60.0)
        for cluster in turner.world.clusters.values():
            cluster.surge("chat", 3.4, begin_s, begin_s + 2 * HOUR_S)
        turner.run(begin_s - turner.clock.now(), step_s=60.0)
        ready.append(turner.store.fetch_workload("chat").status.ready)
        turner.run(begin_s + 3 * HOUR_S - turner.clock.now(), step_s=60.0)
    assert ready[2] > ready[0], f"replicas ready when the surge begins, day by day: {ready}"
