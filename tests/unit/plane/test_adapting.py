"""The weights in the live loop: counted as it happens, moved once an hour, kept, journalled, shown."""

from __future__ import annotations

import msgspec

from dure.adapters.memory.store import MemoryStore
from dure.model.cluster import VNodePool
from dure.model.decision import JournalEntry, Reweigh
from dure.model.policy import Policy, Verb
from dure.model.report import Report
from dure.model.tariff import Capacity
from dure.model.weights import HISTORY_SETTING, WEIGHTS_SETTING, WeightHistory, Weights
from dure.model.workload import Phase, WorkloadRecord, WorkloadStatus
from dure.plane.adapting import Adapting
from dure.plane.apply import Draft
from tests.fixtures.small_world import training

HOUR = 3600.0
START_S = 1_767_571_200.0


def report(cluster: str, free: int, at_s: float = START_S) -> Report:
    pool = VNodePool(cluster, "big", "big", Capacity.OWNED, devices=4, free_milli=free * 1000)
    return Report(cluster, at_s, "v1", (pool,), ())


def ended(deadline_h: float, took_h: float) -> Draft:
    spec = msgspec.structs.replace(training(), deadline_s=deadline_h * HOUR)
    running = WorkloadStatus(phase=Phase.RUNNING, submitted_s=START_S)
    draft = Draft(WorkloadRecord("uid", spec, running))
    draft.status = msgspec.structs.replace(running, phase=Phase.DONE, finished_s=START_S + took_h * HOUR)
    return draft


def hours_of(store: MemoryStore, reports: list[Report], hours: int, start_s: float = START_S) -> list[JournalEntry]:
    adapting = Adapting(store)
    entries: list[JournalEntry] = []
    for quarter in range(hours * 4 + 1):
        now_s = start_s + quarter * HOUR / 4
        adapting.look([], reports, now_s)
        entries += closed(adapting, store, now_s)
    return entries


def closed(adapting: Adapting, store: MemoryStore, now_s: float) -> tuple[JournalEntry, ...]:
    """What the loop does with what was learned."""
    learned = adapting.close(now_s)
    store.commit((), **learned._asdict())
    return learned.entries


def weights_of(store: MemoryStore) -> Weights:
    kept = store.fetch_setting(WEIGHTS_SETTING)
    assert kept is not None
    return msgspec.json.decode(kept, type=Weights)


def test_a_window_ends_with_the_hour_and_the_full_cluster_becomes_dearer() -> None:
    store = MemoryStore()
    entries = hours_of(store, [report("a", 0), report("b", 4)], 3)
    assert [entry.at_s for entry in entries] == [START_S + HOUR, START_S + 2 * HOUR, START_S + 3 * HOUR]
    weights = weights_of(store)
    assert weights.congestion["a/big"] > 1 > weights.congestion["b/big"]


def test_each_window_is_journalled_with_what_moved_the_weights() -> None:
    entry = hours_of(MemoryStore(), [report("a", 1), report("b", 4)], 1)[0]
    assert isinstance(entry.decision, Reweigh)
    assert entry.decision.seen.use == {"a/big": 0.75, "b/big": 0.0}
    assert entry.decision.method == "rule"


def test_use_is_weighted_by_time() -> None:
    adapting = Adapting(MemoryStore())
    adapting.look([], [report("a", 0)], START_S)
    adapting.look([], [report("a", 4)], START_S + HOUR / 4)
    adapting.look([], [report("a", 4)], START_S + HOUR)
    (entry,) = adapting.close(START_S + HOUR).entries
    assert isinstance(entry.decision, Reweigh)
    assert entry.decision.seen.use == {"a/big": 0.25}


def test_a_missed_deadline_raises_the_slo_weight_and_a_met_one_does_not() -> None:
    for took_h, raised in ((3.0, True), (1.0, False)):
        store = MemoryStore()
        adapting = Adapting(store)
        adapting.look([ended(2.0, took_h)], [], START_S)
        closed(adapting, store, START_S + HOUR)
        assert (weights_of(store).slo > 1) is raised


def test_the_past_is_kept_for_readers_and_a_new_leader_goes_on_from_it() -> None:
    store = MemoryStore()
    hours_of(store, [report("a", 0), report("b", 4)], 2)
    before = weights_of(store)
    hours_of(store, [report("a", 0), report("b", 4)], 2, START_S + 2 * HOUR)
    kept = store.fetch_setting(HISTORY_SETTING)
    assert kept is not None
    history = msgspec.json.decode(kept, type=WeightHistory)
    assert len(history.points) == 4
    assert weights_of(store).congestion["a/big"] > before.congestion["a/big"]


def test_a_policy_switches_learning_off_or_to_the_bandit() -> None:
    for method in ("off", "bandit"):
        store = MemoryStore()
        store.write_policy(Policy("mine", Verb.PLACE, settings={"learning": method}))
        entry = hours_of(store, [report("a", 0), report("b", 4)], 1)[0]
        assert isinstance(entry.decision, Reweigh)
        assert entry.decision.method == method
        assert (weights_of(store) == Weights()) is (method == "off")


def test_use_follows_the_pools_of_the_newest_report() -> None:
    store = MemoryStore()
    adapting = Adapting(store)
    adapting.look([], [report("a", free=4)], START_S)
    adapting.look([], [report("a", free=0)], START_S + HOUR / 2)
    adapting.look([], [report("a", free=0)], START_S + HOUR)
    [entry] = closed(adapting, store, START_S + HOUR)
    assert isinstance(entry.decision, Reweigh)
    assert entry.decision.seen.use == {"a/big": 0.5}
