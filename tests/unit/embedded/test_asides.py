"""Those who run stand aside in the live loop: for a burst that would be late, at a checkpoint; all are in time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.embedded.week import Run, simulate
from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import Hold, Place
from dure.model.fleet import Connect
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.units import HOUR_S, MICROS
from dure.model.workload import Phase, Workload, WorkloadStatus
from dure.plane import moving
from tests.unit.embedded.test_world import START_S, Crash, Turner, count_calls

HALL = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: hall}
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
        - {name: a100, class: a100-80gb-sxm, nodes: 1, devices: 4, share: [exclusive], price: {owned: 1000/h}}
  tenants: [{name: vision, weight: 1}, {name: search, weight: 1}]
"""

# Twice as many devices more for rent, at three times the price.
RENTED = HALL.replace(
    "  tenants:",
    """\
        - name: rented
          class: a100-80gb-sxm
          nodes: 0
          nodesMax: 2
          devices: 4
          boot: 120s
          share: [exclusive]
          price: {onDemand: 3000/h}
  tenants:""",
)
MODES = pytest.mark.parametrize(
    ("hall", "mode"),
    [
        pytest.param(HALL, "hurried", id="hurried"),
        pytest.param(HALL, "always", id="always"),
        pytest.param(RENTED, "always", id="always, with devices for rent"),
    ],
)


def job(name: str, hours: float, due_h: float, **spec: Any) -> Workload:
    text = f"""
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: vision}}
spec:
  type: training
  classes: [a100-80gb-sxm]
  demand: {{devices: 4}}
  duration: {hours}h
  deadline: {due_h}h
  checkpoint: 20min
  interruptible: true
"""
    return replace(read_text(text, name).workloads[0], **spec)


def long(**spec: Any) -> Workload:
    return job("long", 12.0, 60.0, **spec)


def burst(**spec: Any) -> list[Workload]:
    return [job(f"short-{number}", 1.0, 4.0, **spec) for number in range(2)]


@pytest.fixture
def turner(known: Catalogue) -> Turner:
    return Turner(read_text(HALL, "hall").fleets[0], known)


def standing(hall: str, known: Catalogue, mode: str) -> Turner:
    turner = Turner(read_text(hall, "hall").fleets[0], known)
    turner.store.write_policy(Policy("ours", Verb.PLACE, settings={"standAside": mode}))
    return turner


def status(turner: Turner, name: str) -> WorkloadStatus:
    return turner.store.fetch_workload(name).status


def asides(turner: Turner, name: str = "long") -> list[Hold]:
    entries = turner.store.list_journal(workload=name, limit=1000)
    holds = [entry.decision for entry in entries if isinstance(entry.decision, Hold)]
    return [one for one in holds if one.verdicts[0].reason is Reason.STANDS_ASIDE]


def in_time(turner: Turner, name: str) -> bool:
    record = turner.store.fetch_workload(name)
    done, due_s = record.status.finished_s, record.spec.deadline_s
    assert due_s is not None
    return record.status.phase is Phase.DONE and done is not None and done <= record.status.submitted_s + due_s


def played(turner: Turner, first: Workload, then: list[Workload], hours: float = 40.0) -> Turner:
    """The burst comes ten minutes before an hour in which `first` has run for nearly two."""
    turner.world.submit([first])
    turner.run(1.8 * HOUR_S, step_s=60.0)
    assert status(turner, first.name).phase is Phase.RUNNING
    turner.world.submit(then)
    turner.run((hours - 1.8) * HOUR_S, step_s=60.0)
    return turner


def test_a_long_run_with_slack_stands_aside_for_a_burst_and_all_are_in_time(turner: Turner) -> None:
    played(turner, long(), burst())
    assert [in_time(turner, name) for name in ("short-0", "short-1", "long")] == [True, True, True]
    [aside] = asides(turner)
    assert "short-0" in aside.verdicts[0].detail
    assert "if it went on here" in aside.verdicts[0].found


def test_without_it_the_burst_is_late(turner: Turner) -> None:
    turner.store.write_policy(Policy("ours", Verb.PLACE, settings={"standAside": False}))
    played(turner, long(), burst())
    assert asides(turner) == []
    assert not in_time(turner, "short-0")


def test_it_stops_at_a_checkpoint_keeps_its_work_and_is_charged_for_what_it_used(turner: Turner) -> None:
    played(turner, long(), burst(), hours=2.9)
    left = status(turner, "long")
    assert left.phase is Phase.HELD
    assert left.placement is None
    assert left.done_s % 1200.0 == 0.0
    assert left.done_s >= 1.9 * HOUR_S
    assert left.moved_s is not None
    assert left.spent_micros == pytest.approx(4 * 1000 * MICROS * (left.moved_s - START_S) / HOUR_S, rel=0.02)
    turner.run(37 * HOUR_S, step_s=60.0)
    done = status(turner, "long")
    assert done.phase is Phase.DONE
    assert done.done_s > left.done_s
    # Twelve hours of work in two runs, and no hour of it twice but what was loaded again.
    assert done.spent_micros < 4 * 1000 * MICROS * 12.5
    spent = sum(one.status.spent_micros for one in turner.store.list_workloads())
    assert spent == sum(charge.micros for charge in turner.store.list_charges(0, 99_999))


def test_who_stood_aside_lets_its_guests_in_first_though_it_was_there_before_them(turner: Turner) -> None:
    played(turner, long(), burst())
    guests = [status(turner, f"short-{number}").started_s or 0.0 for number in range(2)]
    places = [
        entry.at_s
        for entry in turner.store.list_journal(workload="long", limit=1000)
        if isinstance(entry.decision, Place)
    ]
    assert len(places) == 2
    assert places[0] < min(guests) < places[1]


def test_it_is_told_why_it_waits_and_for_whom(turner: Turner) -> None:
    played(turner, long(), burst(), hours=2.9)
    why = turner.world.desk.why("long")
    [line] = [line for line in why.lines if line.reason is Reason.STANDS_ASIDE]
    assert "makes room for short-0" in line.sentence
    assert "if it went on here" in line.sentence
    events = [event.message for event in turner.store.list_events() if event.workload == "long"]
    assert any("stands aside" in message for message in events)


@pytest.mark.parametrize(
    "policy",
    [
        Policy("ours", Verb.PLACE, settings={"movesAtOnce": 0}),
        Policy("ours", Verb.PLACE, settings={"standAside": False}),
        Policy("ours", Verb.PLACE, settings={}, paused=True),
    ],
)
def test_a_policy_switches_it_off(turner: Turner, policy: Policy) -> None:
    turner.world.submit([long()])
    turner.run(600.0, step_s=60.0)
    turner.store.write_policy(policy)
    turner.world.submit(burst())
    turner.run(5 * HOUR_S, step_s=60.0)
    assert asides(turner) == []
    assert status(turner, "long").phase is Phase.RUNNING


def test_switched_off_nobody_is_even_asked(turner: Turner, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def ask(seen: object, *_: object, **__: object) -> tuple[Hold, ...]:
        asked.append(seen)
        return ()

    monkeypatch.setattr(moving, "rearrangement", ask)
    turner.store.write_policy(Policy("ours", Verb.PLACE, settings={"standAside": False}))
    played(turner, long(), burst(), hours=5.0)
    assert asked == []
    turner.store.write_policy(Policy("ours", Verb.PLACE, settings={"standAside": True}))
    turner.run(2 * HOUR_S, step_s=60.0)
    assert len(asked) == 2, "once in each hour"


def test_in_a_fleet_with_a_real_cluster_nobody_is_asked_unless_the_policy_asks_for_moves(turner: Turner) -> None:
    observer = turner.world.plane.observer
    here = observer.fleet.clusters[0]
    real = replace(here, info=replace(here.info, name="real"), connect=Connect(kubeconfig="nowhere"), pools=())
    observer.fleet = replace(observer.fleet, clusters=(*observer.fleet.clusters, real))
    played(turner, long(), burst(), hours=3.5)
    assert asides(turner) == []
    turner.store.write_policy(Policy("ours", Verb.PLACE, settings={"movesAtOnce": 2}))
    turner.run(2 * HOUR_S, step_s=60.0)
    assert len(asides(turner)) == 1


def test_nobody_stands_aside_for_another_tenants_workloads(turner: Turner) -> None:
    assert asides(played(turner, long(), burst(tenant="search"), hours=5.0)) == []


def test_nobody_is_asked_again_before_it_has_cooled_down(turner: Turner) -> None:
    played(turner, long(), burst(), hours=6.0)
    assert status(turner, "long").phase is Phase.RUNNING
    turner.world.submit([job("next", 1.0, 3.0)])
    turner.run(2 * HOUR_S, step_s=60.0)
    assert len(asides(turner)) == 1, "four hours after it stood aside"
    turner.world.submit([job("other", 1.0, 3.0)])
    turner.run(3 * HOUR_S, step_s=60.0)
    assert len(asides(turner)) == 2, "and more than six"


def spent(turner: Turner) -> float:
    return sum(one.status.spent_micros for one in turner.store.list_workloads()) / MICROS


def test_always_a_burst_waits_for_the_long_run_to_leave_instead_of_paying_for_rented_devices(
    known: Catalogue,
) -> None:
    """Nobody is in a hurry: the burst has rented devices at once, or seven hours. The same days in both modes."""
    jobs = [job(f"short-{number}", 3.0, 8.0) for number in range(2)]
    hurried = played(standing(RENTED, known, "hurried"), long(), jobs)
    always = played(standing(RENTED, known, "always"), long(), jobs)
    assert (len(asides(hurried)), len(asides(always))) == (0, 1)
    for turner in (hurried, always):
        assert all(in_time(turner, name) for name in ("short-0", "short-1", "long"))
    assert spent(always) < 0.8 * spent(hurried)
    [told] = [
        one.decision
        for one in always.store.list_journal(workload="short-0", limit=1000)
        if isinstance(one.decision, Hold) and one.decision.verdicts[0].reason is Reason.WAITING_FOR_CHEAPER_HOUR
    ]
    assert told.verdicts[0].detail == "long makes room"
    assert (status(always, "short-0").started_s or 0.0) - status(always, "short-0").submitted_s < HOUR_S / 2


def test_a_simulation_pays_less_where_long_work_always_stands_aside_and_nobody_is_late(known: Catalogue) -> None:
    """Each day two bursts of three hours on whole nodes meet a long run on the only one that is owned."""
    coming = [(START_S, job("long", 30.0, 90.0))]
    for number, at_h in enumerate((2.6, 14.3, 26.6, 38.3)):
        coming.append((START_S + at_h * HOUR_S, job(f"short-{number}", 3.0, 9.0)))
    paid = {}
    for mode in ("hurried", "always"):
        fleet = read_text(RENTED, "hall").fleets[0]
        fleet = replace(fleet, policies=(Policy("ours", Verb.PLACE, settings={"standAside": mode}),))
        found = simulate(Run(fleet, known, coming, days=4.0))
        assert (found.done, found.deadlines_met) == (5, 1.0)
        paid[mode] = found.cost_micros
    assert paid["always"] < 0.85 * paid["hurried"]


@pytest.mark.parametrize("mode", ["hurried", "always"])
def test_who_has_just_come_and_is_another_tenants_pays_for_rented_devices_at_once(
    known: Catalogue, mode: str
) -> None:
    turner = played(standing(RENTED, known, mode), long(), [job("short", 3.0, 8.0, tenant="search")], hours=4.0)
    assert asides(turner) == []
    home = status(turner, "short").placement
    assert home is not None
    assert home.pool == "rented"


def test_who_waits_for_a_host_that_stays_after_all_starts_where_it_could_have(
    known: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    turner = standing(RENTED, known, "always")
    monkeypatch.setattr(moving, "rearrangement", lambda *_, **__: ())
    played(turner, long(), [job("short", 3.0, 8.0)], hours=8.0)
    assert asides(turner) == []
    assert in_time(turner, "short")
    waited_s = (status(turner, "short").started_s or 0.0) - status(turner, "short").submitted_s
    assert 1200.0 < waited_s < 1200.0 + 900.0
    homes = [
        entry.decision.placement.pool
        for entry in turner.store.list_journal(workload="short", limit=1000)
        if isinstance(entry.decision, Place)
    ]
    assert homes == ["rented"], "the home that it was given first was never written"


@MODES
@settings(max_examples=8, deadline=None)
@given(
    bursts=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([0.5, 1.0, 2.0]), st.integers(3, 8), st.integers(1, 4)),
        min_size=1,
        max_size=3,
    )
)
def test_whatever_comes_who_stands_aside_starts_again_and_is_in_time(
    known: Catalogue, hall: str, mode: str, bursts: list[tuple[int, float, int, int]]
) -> None:
    """Bursts of so many jobs of so many hours, due so soon, on so many devices, four hours apart."""
    turner = standing(hall, known, mode)
    turner.world.submit([long()])
    turner.run(1.8 * HOUR_S, step_s=60.0)
    for wave, (count, hours, due_h, devices) in enumerate(bursts):
        demand = replace(long().demand, devices=devices)
        turner.world.submit([job(f"w{wave}-{at}", hours, due_h, demand=demand) for at in range(count)])
        turner.run(4 * HOUR_S, step_s=120.0)
    turner.run(40 * HOUR_S, step_s=300.0)
    stood = [one.name for one in turner.store.list_workloads() if asides(turner, one.name)]
    assert all(in_time(turner, name) for name in stood)
    assert set(turner.phases()) <= {Phase.DONE, Phase.FAILED}


@MODES
@settings(max_examples=12, deadline=None)
@given(points=st.lists(st.integers(1, 60), min_size=4, max_size=12))
def test_killed_between_any_two_calls_nobody_is_lost_and_nobody_has_two_homes(
    known: Catalogue, hall: str, mode: str, points: list[int]
) -> None:
    """Plane and agents die again and again in the hour in which it stands aside."""
    turner = standing(hall, known, mode)
    turner.world.submit([long()])
    turner.run(1.8 * HOUR_S, step_s=60.0)
    turner.world.submit(burst())
    for point in points:
        for agent in turner.world.agents:
            agent.cluster = count_calls(agent.cluster, point)
            agent.plane = count_calls(agent.plane, point)
        turner.world.plane.store = count_calls(turner.store, point)
        with suppress(Crash):
            turner.run(600.0, step_s=60.0)
        turner.crash()
    turner.run(34 * HOUR_S, step_s=60.0)
    assert turner.phases() == {Phase.DONE: 3}
    for record in turner.store.list_workloads():
        placed = [
            entry
            for entry in turner.store.list_journal(workload=record.name, limit=1000)
            if isinstance(entry.decision, Place)
        ]
        lives = 1 + record.status.restarts + len(asides(turner, record.name))
        assert record.status.generation == len(placed) == lives, "one home for each life"
    spent = sum(one.status.spent_micros for one in turner.store.list_workloads())
    assert spent == sum(charge.micros for charge in turner.store.list_charges(0, 99_999))
