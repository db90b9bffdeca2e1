"""The whole loop on a small fleet in virtual time: workloads run, wait with reasons, survive crashes anywhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.embedded.world import EmbeddedWorld
from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import Bind, Hold, Place
from dure.model.errors import InvalidInput
from dure.model.fleet import Fleet
from dure.model.reason import Reason
from dure.model.workload import Phase, Workload, WorkloadRecord, WorkloadStatus

START_S = 1_767_571_200.0


def batch(
    name: str,
    *,
    duration: str = "10min",
    demand: str = "{devices: 1}",
    extra: str = "",
    classes: str = "{name: a100-80gb-sxm, speed: 1.0}, {name: t4, speed: 0.3}",
) -> Workload:
    text = f"""
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: vision}}
spec:
  type: batch
  classes: [{classes}]
  demand: {demand}
  duration: {duration}
{extra}"""
    return read_text(text, name).workloads[0]


class Turner:
    """Runs a world until it is quiet, then lets time pass; may be crashed and rebuilt on the same store."""

    def __init__(self, fleet: Fleet, known: Catalogue) -> None:
        self.fleet, self.known = fleet, known
        self.clock = VirtualClock(START_S)
        self.store = MemoryStore()
        self.world = self._build()

    def _build(self) -> EmbeddedWorld:
        return EmbeddedWorld(self.fleet, self.known, self.store, self.clock, seed=3)

    def crash(self) -> None:
        """Plane and agents die; store and clusters are what survives."""
        clusters = {name: cluster.save() for name, cluster in self.world.clusters.items()}
        self.world = self._build()
        for name, data in clusters.items():
            self.world.clusters[name].restore(data)

    def run(self, seconds: float, step_s: float = 30.0) -> None:
        for _ in range(int(seconds / step_s)):
            for _ in range(8):
                if not self.world.step():
                    break
            self.clock.advance(self.clock.now() + step_s)

    def phases(self) -> Counter[Phase]:
        return Counter(record.status.phase for record in self.store.list_workloads())


@pytest.fixture
def turner(small_fleet: Fleet, known: Catalogue) -> Turner:
    return Turner(small_fleet, known)


def test_a_workload_is_placed_bound_run_and_billed(turner: Turner) -> None:
    turner.world.submit([batch("one")])
    turner.run(3 * 3600)
    record = turner.store.fetch_workload("one")
    assert record.status.phase is Phase.DONE
    assert record.status.spent_micros > 0
    assert record.status.carbon_g > 0
    charged = sum(charge.micros for charge in turner.store.list_charges(0, 99_999))
    assert charged == record.status.spent_micros
    kinds = [type(entry.decision) for entry in turner.store.list_journal(workload="one")]
    assert kinds[0] is Place
    assert Bind in kinds


def test_what_does_not_fit_is_held_with_the_two_numbers_that_clash(turner: Turner) -> None:
    turner.world.submit([batch("huge", demand="{devices: 4}", extra="  gang: 3\n")])
    turner.run(120)
    why = turner.world.desk.why("huge")
    assert why.phase is Phase.HELD
    clash = next(line for line in why.lines if line.where == "seoul/a100")
    assert clash.reason is Reason.NO_CAPACITY
    assert "3 x 4 whole devices" in clash.sentence
    assert "8 free" in clash.sentence
    assert any(isinstance(entry.decision, Hold) for entry in why.journal)


def test_every_held_workload_has_a_reason(turner: Turner) -> None:
    turner.world.submit([batch(f"w{index}", duration="5h", demand="{devices: 2}") for index in range(12)])
    turner.run(600)
    held = [one for one in turner.store.list_workloads() if one.status.phase is Phase.HELD]
    assert held
    assert all(one.status.held and all(verdict.reason for verdict in one.status.held) for one in held)


def test_a_cancelled_workload_leaves_its_devices(turner: Turner) -> None:
    turner.world.submit([batch("long", duration="9h")])
    turner.run(600)
    assert turner.store.fetch_workload("long").status.phase is Phase.RUNNING
    turner.world.desk.cancel("long")
    turner.run(120)
    assert all(
        pool.free_milli == pool.devices * 1000 for report in turner.store.list_reports() for pool in report.pools
    )


def test_a_cancelled_workload_is_charged_up_to_the_moment_it_was_cancelled(turner: Turner) -> None:
    turner.world.submit([batch("long", duration="9h")])
    turner.run(600)
    before = turner.store.fetch_workload("long").status
    status = turner.world.desk.cancel("long").status
    assert status.spent_micros > before.spent_micros
    assert status.billed_until_s == status.finished_s
    turner.run(3600)
    assert turner.store.fetch_workload("long").status.spent_micros == status.spent_micros


def test_a_plan_changes_nothing_and_names_the_cheapest(turner: Turner) -> None:
    turner.run(60)
    before = turner.store.list_journal()
    plan = turner.world.desk.plan(batch("asked"))
    assert plan.chosen is not None
    possible = [option.total_micros for option in plan.options if option.verdict.ok]
    assert plan.chosen.total_micros == min(possible)
    assert turner.store.list_journal() == before
    assert turner.store.list_workloads() == ()


def test_a_plane_that_does_not_lead_decides_nothing(turner: Turner) -> None:
    turner.store.acquire_lease("other", turner.clock.now(), 10_000.0)
    turner.world.submit([batch("one")])
    turner.run(300)
    assert turner.store.fetch_workload("one").status.phase is Phase.PENDING


UNREADABLE = """
  template:
    spec:
      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}
"""


def test_a_template_that_no_cluster_could_read_is_refused_at_the_door(turner: Turner) -> None:
    with pytest.raises(InvalidInput, match="'topologyKey' is missing") as refused:
        turner.world.desk.submit(batch("odd", extra=UNREADABLE))
    assert refused.value.where == "spec.template"
    with pytest.raises(InvalidInput):
        turner.world.desk.plan(batch("odd", extra=UNREADABLE))
    assert turner.store.list_workloads() == ()


def test_a_template_that_got_in_before_keeps_nobody_else_from_running(turner: Turner) -> None:
    odd = WorkloadRecord("odd", batch("odd", extra=UNREADABLE), WorkloadStatus(submitted_s=START_S))
    turner.store.create_workload(odd)
    turner.world.submit([batch("one")])
    turner.run(3 * 3600)
    assert turner.store.fetch_workload("one").status.phase is Phase.DONE


class Crash(Exception):
    """Stands for kill -9 between two calls."""


def count_calls(target: Any, fail_at: int) -> Any:
    """The target with every public call counted; call number `fail_at` dies before it does anything."""
    state = {"left": fail_at}

    class Dying:
        def __getattr__(self, name: str) -> Any:
            found = getattr(target, name)
            if not callable(found):
                return found

            def call(*args: Any, **kwargs: Any) -> Any:
                state["left"] -= 1
                if state["left"] == 0:
                    raise Crash(name)
                return found(*args, **kwargs)

            return call

    return Dying()


@settings(max_examples=25, deadline=None)
@given(points=st.lists(st.integers(1, 60), min_size=3, max_size=12))
def test_killed_between_any_two_calls_no_job_is_lost_or_run_twice(
    small_fleet: Fleet, known: Catalogue, points: list[int]
) -> None:
    turner = Turner(small_fleet, known)
    turner.world.submit([batch(f"w{index}", demand="{devices: 2}") for index in range(6)])
    for point in points:
        for agent in turner.world.agents:
            agent.cluster = count_calls(agent.cluster, point)
            agent.plane = count_calls(agent.plane, point)
        turner.world.plane.store = count_calls(turner.store, point)
        try:
            turner.run(300)
        except Crash:
            turner.crash()
        else:
            turner.crash()
    turner.run(12 * 3600, step_s=60.0)
    records = turner.store.list_workloads()
    assert len(records) == 6
    assert turner.phases() == {Phase.DONE: 6}
    for record in records:
        placed = [e for e in turner.store.list_journal(workload=record.name) if isinstance(e.decision, Place)]
        assert len(placed) == record.status.restarts + 1, "one home for each life"
        assert record.status.generation == len(placed)
