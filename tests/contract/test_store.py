"""What every store must do: run on dictionaries, on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from dure.adapters.memory.store import MemoryStore
from dure.adapters.store import open_store
from dure.model.decision import Hold, JournalEntry
from dure.model.demand import Demand
from dure.model.errors import Conflict, NotFound
from dure.model.event import Event
from dure.model.policy import Policy, Verb
from dure.model.posting import Account, Posting
from dure.model.reason import Reason, Verdict
from dure.model.report import Report
from dure.model.tenant import Tenant
from dure.model.workload import (
    AcceptedClass,
    Phase,
    Workload,
    WorkloadRecord,
    WorkloadStatus,
    WorkloadType,
)
from dure.ports import Change, Charge, New, StorePort

Opener = Callable[[], StorePort]


SERVERS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=["memory", *SERVERS])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the same store again and again, as a second process would."""
    if request.param == "memory":
        memory = MemoryStore()
        return lambda: memory
    if request.param == "sqlite":
        return lambda: open_store(f"sqlite:///{tmp_path}/state/dure.db")
    url = request.getfixturevalue("postgres_url")
    return lambda: open_store(url)


@pytest.fixture
def store(opener: Opener) -> Iterator[StorePort]:
    opened = opener()
    yield opened
    opened.close()


def record(name: str, *, uid: str = "", tenant: str = "vision", submitted_s: float = 0.0) -> WorkloadRecord:
    spec = Workload(name, tenant, WorkloadType.BATCH, (AcceptedClass("t4"),), Demand(devices=1))
    return WorkloadRecord(uid or f"uid-{name}", spec, WorkloadStatus(submitted_s=submitted_s))


def moved(before: WorkloadRecord, phase: Phase, version: int | None = None, **extra: object) -> Change:
    status = msgspec.structs.replace(before.status, phase=phase)
    return Change(before.uid, before.version if version is None else version, status, **extra)  # type: ignore[arg-type]


def entry(workload: str) -> JournalEntry:
    clash = Verdict("a/b", Reason.NO_CAPACITY, "8 devices", "a/b has 6 free")
    return JournalEntry(0, 1.5, "digest", Hold(workload, (clash,)), tenant="vision")


def test_a_workload_survives_reopening(opener: Opener) -> None:
    first = opener()
    first.create_workload(record("train-1"))
    first.close()
    again = opener()
    assert again.fetch_workload("train-1") == record("train-1")
    again.close()


def test_a_second_workload_of_a_name_waits_until_the_first_has_ended(store: StorePort) -> None:
    kept = store.create_workload(record("train-1"))
    with pytest.raises(Conflict, match="has not ended"):
        store.create_workload(record("train-1", uid="other"))
    assert store.commit([moved(kept, Phase.DONE)]) == ()
    store.create_workload(record("train-1", uid="other", submitted_s=9.0))
    assert store.fetch_workload("train-1").uid == "other"


def test_the_same_idempotency_key_answers_the_first_result(store: StorePort) -> None:
    first = store.create_workload(record("train-1"), idempotency_key="k")
    again = store.create_workload(record("train-1", uid="second"), idempotency_key="k")
    assert again == first
    assert len(store.list_workloads()) == 1


def test_of_many_at_once_each_has_its_own_answer(store: StorePort) -> None:
    there = store.create_workload(record("there"), idempotency_key="k0")
    wanted = [
        New(record("a"), "k1"),
        New(record("there", uid="other")),
        New(record("a", uid="again"), "k1"),
        New(record("b")),
        New(record("b", uid="twin")),
        New(record("late", uid="late"), "k0"),
    ]
    made = store.create_workloads(wanted)
    refused = [place for place, one in enumerate(made) if isinstance(one, Conflict)]
    assert refused == [1, 4]
    assert [made[place] for place in (0, 2, 3, 5)] == [record("a"), record("a"), record("b"), there]
    assert [one.name for one in store.list_workloads()] == ["a", "b", "there"]


def test_what_cannot_be_kept_of_one_is_not_refused_to_the_others(store: StorePort) -> None:
    over = record("over", uid="same")
    store.create_workload(over)
    store.commit([moved(over, Phase.DONE)])
    made = store.create_workloads([New(record("a")), New(record("again", uid="same")), New(record("b"))])
    assert [isinstance(one, Conflict) for one in made] == [False, True, False]
    assert [one.name for one in store.list_workloads(ended=False)] == ["a", "b"]


def test_of_many_that_ended_the_last_ones_can_be_asked_for(store: StorePort) -> None:
    for number in range(5):
        one = store.create_workload(record(f"n-{number}", submitted_s=float(number)))
        status = msgspec.structs.replace(one.status, phase=Phase.DONE, finished_s=10.0 - number)
        store.commit([Change(one.uid, one.version, status)])
    assert [one.name for one in store.list_workloads(ended=True, most=2)] == ["n-0", "n-1"]
    assert [one.name for one in store.list_workloads(ended=True, since_s=6.5, most=9)] == ["n-0", "n-1", "n-2", "n-3"]


def test_two_changes_of_one_record_follow_each_other(store: StorePort) -> None:
    kept = store.create_workload(record("train-1"))
    first, second = moved(kept, Phase.RUNNING), moved(kept, Phase.DONE, version=kept.version + 1)
    late = moved(kept, Phase.FAILED)
    assert store.commit([first, second, late]) == (kept.uid,)
    assert store.fetch_workload("train-1").status.phase is Phase.DONE


def test_an_unknown_name_is_not_found_and_names_the_nearest(store: StorePort) -> None:
    store.create_workload(record("train-42"))
    with pytest.raises(NotFound) as caught:
        store.fetch_workload("train-43")
    assert "train-42" in caught.value.remedy


def test_lists_are_sorted_by_submission_and_filtered(store: StorePort) -> None:
    late = store.create_workload(record("a-late", submitted_s=5.0))
    store.create_workload(record("b-early", submitted_s=1.0, tenant="search"))
    assert [one.name for one in store.list_workloads()] == ["b-early", "a-late"]
    assert [one.name for one in store.list_workloads(tenant="search")] == ["b-early"]
    store.commit([moved(late, Phase.CANCELLED)])
    assert [one.name for one in store.list_workloads(ended=False)] == ["b-early"]
    assert [one.name for one in store.list_workloads(ended=True)] == ["a-late"]


def test_those_that_have_a_home_are_listed_without_the_queue(store: StorePort) -> None:
    kept = {
        phase: store.create_workload(record(f"w-{phase}", submitted_s=-float(at))) for at, phase in enumerate(Phase)
    }
    assert store.list_homed() == ()
    store.commit([moved(one, phase) for phase, one in kept.items() if phase is not Phase.PENDING])
    assert [one.name for one in store.list_homed()] == ["w-running", "w-starting", "w-placed"]
    running = store.fetch_workload("w-running")
    assert running in store.list_homed()
    store.commit([moved(running, Phase.DONE)])
    assert [one.status.phase for one in store.list_homed()] == [Phase.STARTING, Phase.PLACED]


def test_the_queue_of_a_tenant_is_counted_without_what_has_a_home_or_has_ended(store: StorePort) -> None:
    kept = {phase: store.create_workload(record(f"w-{phase}")) for phase in Phase}
    store.create_workload(record("other", tenant="search"))
    store.commit([moved(one, phase) for phase, one in kept.items() if phase is not Phase.PENDING])
    assert store.count_waiting(kept[Phase.PENDING].spec.tenant) == 2
    assert store.count_waiting("search") == 1
    assert store.count_waiting("nobody") == 0


def test_what_was_created_under_a_key_is_found_as_it_is_now(store: StorePort) -> None:
    made = store.create_workload(record("keyed"), idempotency_key="k")
    store.create_workload(record("without"))
    store.commit([moved(made, Phase.DONE)])
    found = store.list_created(["", "k", "unknown"])
    assert {key: (one.uid, one.status.phase) for key, one in found.items()} == {"k": (made.uid, Phase.DONE)}


def test_phases_are_counted_and_the_lately_ended_can_be_asked_for(store: StorePort) -> None:
    early, late = store.create_workload(record("early")), store.create_workload(record("late"))
    store.create_workload(record("open"))
    for one, finished_s in ((early, 10.0), (late, 20.0)):
        status = msgspec.structs.replace(one.status, phase=Phase.DONE, finished_s=finished_s)
        store.commit([Change(one.uid, one.version, status)])
    assert store.count_workloads() == {Phase.DONE: 2, Phase.PENDING: 1}
    assert [one.name for one in store.list_workloads(ended=True, since_s=15.0)] == ["late"]
    assert [one.name for one in store.list_workloads(since_s=15.0)] == ["late", "open"]


def test_a_change_of_an_old_version_is_left_out_whole(store: StorePort) -> None:
    kept = store.create_workload(record("train-1"))
    other = store.create_workload(record("train-2"))
    stale = moved(kept, Phase.RUNNING, version=7, entries=(entry("train-1"),), charges=(Charge(1, "v", "c", 5, 5),))
    assert store.commit([stale, moved(other, Phase.RUNNING)]) == (kept.uid,)
    assert store.fetch_workload("train-1").status.phase is Phase.PENDING
    assert store.fetch_workload("train-2").status.phase is Phase.RUNNING
    assert store.fetch_workload("train-2").version == other.version + 1
    assert store.list_journal() == ()
    assert store.list_charges(0, 9) == ()


def test_an_old_leader_writes_nothing(store: StorePort) -> None:
    kept = store.create_workload(record("train-1"))
    old = store.acquire_lease("a", now_s=0.0, ttl_s=10.0)
    new = store.acquire_lease("b", now_s=11.0, ttl_s=10.0)
    assert old is not None
    assert new is not None
    assert new > old
    with pytest.raises(Conflict, match="another leader"):
        store.commit([moved(kept, Phase.RUNNING)], entries=[entry("x")], token=old)
    assert store.fetch_workload("train-1").status.phase is Phase.PENDING
    assert store.list_journal() == ()
    assert store.commit([moved(kept, Phase.RUNNING)], token=new) == ()


def test_a_lease_is_kept_by_renewing_and_refused_to_others(store: StorePort) -> None:
    token = store.acquire_lease("a", now_s=0.0, ttl_s=10.0)
    assert store.acquire_lease("b", now_s=5.0, ttl_s=10.0) is None
    assert store.acquire_lease("a", now_s=9.0, ttl_s=10.0) == token
    assert store.acquire_lease("b", now_s=15.0, ttl_s=10.0) is None


def test_journal_and_events_rise_and_can_be_resumed(store: StorePort) -> None:
    store.commit([], entries=[entry("w1"), entry("w2"), entry("w1")], events=[Event(1.0, "Placed", "p", tenant="t")])
    lines = store.list_journal()
    assert [line.workload for line in lines] == ["w1", "w2", "w1"]
    assert [line.workload for line in store.list_journal(after=lines[0].seq)] == ["w2", "w1"]
    assert len(store.list_journal(workload="w1")) == 2
    assert store.list_journal(newest=True, limit=1) == lines[-1:]
    store.commit([], events=[Event(2.0, "Held", "q")])
    first, second = store.list_events()
    assert (first.message, second.message) == ("p", "q")
    assert first.seq < second.seq
    assert store.list_events(after=first.seq) == (second,)
    assert store.list_events(newest=True, limit=1) == (second,)


def test_charges_add_up_by_day_tenant_and_cluster(store: StorePort) -> None:
    kept = store.create_workload(record("train-1"))
    twice = (
        Charge(3, "vision", "seoul", 10, 1),
        Charge(3, "vision", "seoul", 5, 2),
        Charge(4, "vision", "seoul", 1, 1),
    )
    store.commit([moved(kept, Phase.RUNNING, charges=twice)])
    after = store.fetch_workload("train-1")
    store.commit([moved(after, Phase.RUNNING, charges=(Charge(3, "vision", "seoul", 100, 0),))])
    assert store.list_charges(3, 4) == (Charge(3, "vision", "seoul", 115, 3),)
    assert len(store.list_charges(0, 9)) == 2


def test_only_a_newer_report_replaces_the_one_there_and_journals_its_decisions(store: StorePort) -> None:
    hold = Hold("train-1", (), pod="train-1-0")
    store.write_report(Report("seoul", 2.0, "v2", (), (), decisions=(hold,)))
    store.write_report(Report("seoul", 1.0, "v1", (), (), decisions=(hold,)))
    store.write_report(Report("busan", 1.0, "v1", (), ()))
    assert [(one.cluster, one.version) for one in store.list_reports()] == [("busan", "v1"), ("seoul", "v2")]
    assert [line.cluster for line in store.list_journal()] == ["seoul"]


def test_decisions_that_are_told_again_are_journaled_once(store: StorePort) -> None:
    """An agent that did not hear the answer tells them again, later or in the very same words."""
    hold, other = Hold("train-1", (), pod="train-1-0"), Hold("train-2", (), pod="train-2-0")
    told = Report("seoul", 1.0, "v1", (), (), decisions=(hold,), told_s=1.0)
    store.write_report(told)
    store.write_report(told)
    store.write_report(Report("seoul", 2.0, "v2", (), (), decisions=(hold,), told_s=1.0))
    store.write_report(Report("seoul", 3.0, "v3", (), (), decisions=(other,), told_s=3.0))
    store.write_report(told)
    assert [line.workload for line in store.list_journal()] == ["train-1", "train-2"]
    assert store.list_reports()[0].version == "v3"


def test_settings_tenants_and_policies_are_kept(store: StorePort) -> None:
    assert store.fetch_setting("seed") is None
    store.write_setting("seed", "1")
    store.write_setting("seed", "42 두레")
    assert store.fetch_setting("seed") == "42 두레"
    store.write_tenant(Tenant("b"))
    store.write_tenant(Tenant("a", weight=2.0))
    store.write_tenant(Tenant("b", weight=3.0))
    assert store.list_tenants() == (Tenant("a", weight=2.0), Tenant("b", weight=3.0))
    first = store.write_policy(Policy("cheap", Verb.PLACE))
    second = store.write_policy(Policy("cheap", Verb.PLACE, paused=True))
    assert (first.version, second.version) == (1, 2)
    assert store.list_policies() == (second,)
    assert store.list_policies(name="cheap") == (first, second)


def test_listeners_wake_after_events_only(store: StorePort) -> None:
    woken: list[int] = []
    unsubscribe = store.subscribe(lambda: woken.append(1))
    store.commit([], entries=[entry("w")])
    assert woken == []
    store.commit([], events=[Event(1.0, "Placed", "p")])
    assert woken == [1]
    unsubscribe()
    store.commit([], events=[Event(1.0, "Placed", "p")])
    assert woken == [1]


@pytest.mark.parametrize("opener", SERVERS, indirect=True)
def test_of_many_writers_at_once_exactly_one_wins(opener: Opener) -> None:
    writers = 8
    store = opener()
    kept = store.create_workload(record("train-1"))
    lost: list[tuple[str, ...]] = []

    def write() -> None:
        own = opener()
        lost.append(own.commit([moved(kept, Phase.RUNNING)]))
        own.close()

    threads = [threading.Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    assert sorted(lost) == [(), *[(kept.uid,)] * (writers - 1)]


def test_what_is_written_together_is_kept_whole(store: StorePort, opener: Opener) -> None:
    with store.together():
        store.write_tenant(Tenant("vision"))
        assert [tenant.name for tenant in store.list_tenants()] == ["vision"]
        store.write_policy(Policy("greedy", Verb.PLACE))
        store.create_workload(record("a"))
    again = opener()
    assert [tenant.name for tenant in again.list_tenants()] == ["vision"]
    assert [policy.name for policy in again.list_policies()] == ["greedy"]
    assert again.fetch_workload("a").uid == "uid-a"
    again.close()


def test_a_step_that_is_whole_in_itself_joins_the_larger_one(store: StorePort) -> None:
    """A policy and its event are one step, also inside an apply of several files."""

    def half_done() -> None:
        with store.together():
            with store.together():
                store.write_tenant(Tenant("vision"))
            raise Conflict("the last file is refused")

    with pytest.raises(Conflict):
        half_done()
    assert store.list_tenants() == ()


def write_all_but_the_last(store: StorePort) -> None:
    with store.together():
        store.write_tenant(Tenant("vision"))
        store.write_policy(Policy("greedy", Verb.PLACE, paused=True))
        store.create_workload(record("b"), idempotency_key="k")
        store.create_workload(record("a", uid="another"))


def test_what_fails_together_leaves_nothing_behind(store: StorePort) -> None:
    store.write_policy(Policy("greedy", Verb.PLACE))
    store.create_workload(record("a"))
    with pytest.raises(Conflict):
        write_all_but_the_last(store)
    assert store.list_tenants() == ()
    assert [policy.version for policy in store.list_policies(name="greedy")] == [1]
    assert [one.name for one in store.list_workloads()] == ["a"]
    # The key of what was taken back is free again.
    assert store.create_workload(record("b", uid="later"), idempotency_key="k").uid == "later"


def test_settings_of_a_commit_are_kept_with_it_or_not_at_all(store: StorePort) -> None:
    old = store.acquire_lease("first", 0.0, 10.0)
    store.commit((), settings={"weights": "1"}, token=old)
    assert store.fetch_setting("weights") == "1"
    store.acquire_lease("second", 20.0, 10.0)
    with pytest.raises(Conflict):
        store.commit((), settings={"weights": "2"}, token=old)
    assert store.fetch_setting("weights") == "1"


def test_postings_of_one_key_add_up_and_are_listed_by_hour_tenant_and_cluster(store: StorePort) -> None:
    used = Posting(7, "seoul", "h100", Account.USED, "vision", "chat", "w", 5, 6, 7, 8, 9)
    paid = Posting(7, "seoul", "h100", Account.PAID, micros=5, carbon_mg=6)
    other = Posting(8, "busan", "a10g", Account.IDLE, micros=1)
    store.commit([], postings=(used, paid), settings={"ledger-until": "1.0"})
    store.commit([], postings=(used, other))
    twice = msgspec.structs.replace(used, micros=10, carbon_mg=12, device_ms=14, energy_mwh=16, unknown_mwh=18)
    assert store.list_ledger(0, 9) == (paid, twice, other)
    assert store.list_ledger(7, 8, tenant="vision") == (twice,)
    assert store.list_ledger(8, 9, cluster="seoul") == ()


def test_an_old_leader_posts_nothing(store: StorePort) -> None:
    token = store.acquire_lease("one", 0.0, 1.0)
    store.acquire_lease("two", 5.0, 1.0)
    with pytest.raises(Conflict):
        store.commit([], postings=(Posting(7, "seoul", "h100", Account.PAID, micros=5),), token=token)
    assert store.list_ledger(0, 9) == ()
