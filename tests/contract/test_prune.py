"""The past can be cut off: what is left is what was there, the log still seals it, and a forged cut is found."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from dure.adapters.acting import acting
from dure.adapters.store import SqlStore, open_store
from dure.adapters.store import prune as pruning
from dure.adapters.store.backup import backup, restore
from dure.model.audit import CUT, PRUNE, START, Mark, sealed
from dure.model.decision import Hold, JournalEntry, Place
from dure.model.errors import Conflict
from dure.model.posting import Account, Posting
from dure.model.pruned import PRUNED_SETTING, Pruned
from dure.model.tenant import Role, Tenant
from dure.model.units import DAY_S, HOUR_S
from dure.model.who import EVERY, Who
from dure.model.workload import Phase
from dure.ports import Change, Charge
from dure.watch.books import imbalances
from dure.watch.past import Journey
from tests.contract.test_audit import record
from tests.unit.watch.test_past import home

ALICE = Who("alice", {EVERY: Role.ADMIN}, "token:1f")
NOW_S = datetime(2026, 11, 16, tzinfo=UTC).timestamp()
CUT_S = NOW_S - 90 * DAY_S
OLD_S, NEW_S = NOW_S - 150 * DAY_S, NOW_S - 10 * DAY_S


@pytest.fixture
def store(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    at(monkeypatch, OLD_S)
    opened = open_store(store_url)
    lived_in(opened, monkeypatch)
    yield opened
    opened.close()


def lived_in(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that ended long ago, one from before the cut to after it, one of lately; lines of the log as old."""
    with acting(ALICE, "POST /v1/apply"):
        store.write_tenant(Tenant("vision"))
    job(store, monkeypatch, "old", OLD_S, OLD_S + DAY_S)
    job(store, monkeypatch, "across", CUT_S - DAY_S, CUT_S + DAY_S)
    job(store, monkeypatch, "new", NEW_S, NEW_S + DAY_S)
    at(monkeypatch, NOW_S)


def at(monkeypatch: pytest.MonkeyPatch, at_s: float) -> None:
    monkeypatch.setattr(time, "time", lambda: at_s)


def job(store: SqlStore, monkeypatch: pytest.MonkeyPatch, name: str, begin_s: float, end_s: float) -> None:
    at(monkeypatch, begin_s)
    made = record(name)
    begun = msgspec.structs.replace(made.status, submitted_s=begin_s)
    store.create_workload(msgspec.structs.replace(made, status=begun))
    placed = JournalEntry(0, begin_s, "seen", Place(name, home(name, "h100")), tenant="vision", cluster="seoul")
    store.commit([], entries=[placed, JournalEntry(0, begin_s, "seen", Hold("", ()), tenant="")])
    at(monkeypatch, end_s)
    now = store.fetch_workload(name)
    status = msgspec.structs.replace(now.status, phase=Phase.DONE, finished_s=end_s)
    charge = Charge(int(end_s // DAY_S), "vision", "seoul", 1_000_001, 17)
    hours = range(int(begin_s // HOUR_S), int(end_s // HOUR_S), max(1, int((end_s - begin_s) // DAY_S)))
    postings = [one for hour in hours for one in posted(hour, name)]
    store.commit([Change(now.uid, now.version, status, (), (), (charge,))], postings=postings)


def posted(hour: int, name: str) -> Iterator[Posting]:
    yield Posting(hour, "seoul", "h100", Account.PAID, micros=1_000_003, carbon_mg=9, device_ms=8, energy_mwh=7)
    yield Posting(hour, "seoul", "h100", Account.USED, "vision", "m", name, 600_001, 5, 4, 7)
    yield Posting(hour, "seoul", "h100", Account.IDLE, micros=400_002, carbon_mg=4, device_ms=4)


def months(store: SqlStore) -> dict[tuple[str, ...], tuple[int, ...]]:
    """What bills are made of: sums by month and everything but hours and workloads."""
    sums: dict[tuple[str, ...], tuple[int, ...]] = {}
    for one in store.list_ledger(0, 10**7):
        month = f"{datetime.fromtimestamp(one.hour * HOUR_S, UTC):%Y-%m}"
        key = (month, one.cluster, one.pool, one.account.value, one.tenant, one.model)
        figures = (one.micros, one.carbon_mg, one.device_ms, one.energy_mwh, one.unknown_mwh)
        sums[key] = tuple(a + b for a, b in zip(sums.get(key, (0,) * 5), figures, strict=True))
    return sums


def everything(store: SqlStore) -> dict[str, object]:
    """All that a cut may not change."""
    return {
        "workloads": store.list_workloads(),
        "tenants": store.list_tenants(),
        "charges": store.list_charges(0, 10**6),
        "months": months(store),
        "journal": [one for one in store.list_journal(limit=1000) if one.at_s >= CUT_S or one.workload == "across"],
        "fleets": [fleet_at(store, CUT_S + hours * HOUR_S) for hours in range(0, 90 * 24, 50)],
    }


def fleet_at(store: SqlStore, at_s: float) -> object:
    known = Journey()
    known.take(store.list_journal(limit=1000))
    was = known.fleet_at(store.list_workloads(since_s=at_s), at_s)
    return was.pools, was.running, was.waiting


def test_what_is_left_is_what_was_there(store: SqlStore) -> None:
    before, lines = everything(store), len(store.list_audit(limit=1000))
    made = store.prune(CUT_S, NOW_S)
    assert everything(store) == before
    assert (made.lines, made.decisions, made.months) == (7, 3, 1)
    assert made.postings == 24 * 3 - 3
    assert not imbalances(store.list_ledger(0, 10**7))
    kept = store.list_audit(limit=1000)
    assert kept[0].said().seq == made.first_line == made.lines + 1
    assert store.verify_audit() == (lines - made.lines + 2, [])
    assert float(store.fetch_setting(PRUNED_SETTING) or 0) == CUT_S


def test_the_cut_says_who_made_it_and_what_is_gone(store: SqlStore) -> None:
    lines = store.list_audit(limit=1000)
    with acting(ALICE, "dure prune"):
        made = store.prune(CUT_S, NOW_S)
    [said] = [one.said() for one in store.list_audit(limit=1000) if one.said().action == PRUNE]
    told = {(one.kind, one.name): one.digest for one in said.facts}
    assert said.who == "alice"
    assert told[CUT, str(made.lines)] == lines[made.lines - 1].hash
    assert (told["removed", "lines"], told["removed", "decisions"]) == (str(made.lines), str(made.decisions))


def test_a_dry_run_tells_the_same_and_changes_nothing(store: SqlStore) -> None:
    before = store.list_audit(limit=1000), store.list_journal(limit=1000), store.list_ledger(0, 10**7)
    told = store.prune(CUT_S, NOW_S, dry_run=True)
    assert before == (store.list_audit(limit=1000), store.list_journal(limit=1000), store.list_ledger(0, 10**7))
    assert store.fetch_setting(PRUNED_SETTING) is None
    assert store.prune(CUT_S, NOW_S) == told


def test_where_nothing_is_old_enough_not_even_a_line_is_written(store: SqlStore) -> None:
    lines = store.list_audit(limit=1000)
    assert not store.prune(OLD_S - DAY_S, NOW_S)
    assert store.list_audit(limit=1000) == lines
    store.prune(CUT_S, NOW_S)
    lines = store.list_audit(limit=1000)
    assert store.prune(CUT_S, NOW_S) == Pruned(CUT_S, months=1, first_line=8)
    assert store.list_audit(limit=1000) == lines


def test_writing_goes_on_after_a_cut_and_further_cuts_follow(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.prune(CUT_S, NOW_S)
    job(store, monkeypatch, "later", NOW_S + DAY_S, NOW_S + 2 * DAY_S)
    assert store.verify_audit()[1] == []
    paid = sum(one.micros for one in store.list_ledger(0, 10**7) if one.account is Account.PAID)
    at(monkeypatch, NOW_S + 200 * DAY_S)
    again = store.prune(NOW_S + 110 * DAY_S, NOW_S + 200 * DAY_S)
    assert again.lines > 0
    assert [one.said().action for one in store.list_audit(limit=1000)] == [PRUNE, "restate"]
    assert store.verify_audit() == (2, [])
    assert sum(one.micros for one in store.list_ledger(0, 10**7) if one.account is Account.PAID) == paid


def test_a_cut_into_the_past_of_an_unfinished_workload_is_refused(store: SqlStore) -> None:
    made = record("endless")
    begun = msgspec.structs.replace(made.status, submitted_s=CUT_S - 5 * DAY_S)
    store.create_workload(msgspec.structs.replace(made, status=begun))
    lines = store.list_audit(limit=1000)
    for dry_run in (True, False):
        with pytest.raises(Conflict, match="endless"):
            store.prune(CUT_S, NOW_S, dry_run=dry_run)
    assert store.list_audit(limit=1000) == lines
    latest_s = store.latest_cut(CUT_S)
    assert latest_s == CUT_S - 5 * DAY_S
    assert store.prune(latest_s, NOW_S).lines > 0
    assert store.verify_audit()[1] == []


def test_a_crash_in_the_middle_leaves_everything_as_it_was(
    store_url: str, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, lines = everything(store), store.list_audit(limit=1000)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("_swap_ledger", "_seal"):
        with monkeypatch.context() as broken:
            broken.setattr(pruning, step, dies)
            with pytest.raises(KeyboardInterrupt):
                store.prune(CUT_S, NOW_S)
    again = open_store(store_url)
    assert (everything(again), again.list_audit(limit=1000)) == (before, lines)
    assert again.verify_audit() == (len(lines), [])
    again.close()


def test_marks_from_before_the_cut_are_let_go_and_later_ones_still_hold(store: SqlStore) -> None:
    lines = store.list_audit(limit=1000)
    marks = [Mark(one.said().seq, one.hash) for one in lines]
    made = store.prune(CUT_S, NOW_S)
    assert store.verify_audit(marks)[1] == []
    assert store.verify_audit([Mark(made.lines, START)])[1]
    assert store.verify_audit([Mark(made.lines + 1, START)])[1]


def test_a_backup_of_what_is_left_comes_back_whole(store: SqlStore, tmp_path: Path) -> None:
    store.prune(CUT_S, NOW_S)
    backup(store, tmp_path / "copy.gz")
    again = open_store(f"sqlite:///{tmp_path}/again.db")
    restore(again, tmp_path / "copy.gz")
    assert (everything(again), again.verify_audit()) == (everything(store), store.verify_audit())
    assert again.audit_origin() == store.audit_origin() != Mark()
    again.close()


FORGED = {
    "the first line that is left": "DELETE FROM audit WHERE seq = (SELECT min(seq) FROM audit)",
    "all lines before the cut": "DELETE FROM audit WHERE seq < (SELECT max(seq) - 1 FROM audit)",
    "the cut itself": "DELETE FROM audit WHERE seq = (SELECT max(seq) - 1 FROM audit)",
    "what was told again": "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
    "the hash of the cut": "UPDATE audit SET hash = (SELECT min(hash) FROM audit)"
    " WHERE seq = (SELECT max(seq) - 1 FROM audit)",
    "a decision that the cut left": "DELETE FROM journal WHERE seq = (SELECT min(seq) FROM journal)",
    "a decision altered": "UPDATE journal SET tenant = 'search' WHERE seq = (SELECT min(seq) FROM journal)",
    "the last decision": "DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)",
    "a closed month": "UPDATE ledger SET micros = micros - 1 WHERE hour = (SELECT min(hour) FROM ledger)",
    "a closed month removed": "DELETE FROM ledger WHERE hour = (SELECT min(hour) FROM ledger)",
    "a charge": "UPDATE charges SET micros = micros - 1 WHERE day = (SELECT min(day) FROM charges)",
    "an old workload": "DELETE FROM workloads WHERE name = 'old'",
    "a tenant": "DELETE FROM tenants",
}


@pytest.mark.parametrize("statement", FORGED.values(), ids=FORGED.keys())
def test_what_is_altered_after_a_cut_is_found(store: SqlStore, statement: str) -> None:
    store.prune(CUT_S, NOW_S)
    assert store.verify_audit()[1] == []
    with store.engine.begin() as db:
        assert db.execute(text(statement)).rowcount > 0
    assert store.verify_audit()[1]


def test_a_cut_that_names_more_than_was_cut_is_found(store: SqlStore) -> None:
    """Who removes one more line has to alter the line of the cut, and the chain after it no longer fits."""
    store.prune(CUT_S, NOW_S)
    lines = store.list_audit(limit=1000)
    first, cut = lines[0], next(one for one in lines if one.said().action == PRUNE)
    said = cut.said()
    more = (msgspec.structs.replace(said.facts[0], name=str(first.said().seq), digest=first.hash), *said.facts[1:])
    before = lines[lines.index(cut) - 1].hash
    forged = sealed(msgspec.structs.replace(said, facts=more), before)
    with store.engine.begin() as db:
        db.execute(text("DELETE FROM audit WHERE seq = :seq"), {"seq": first.said().seq})
        values = {"body": forged.body.encode(), "hash": forged.hash, "seq": said.seq}
        db.execute(text("UPDATE audit SET body = :body, hash = :hash WHERE seq = :seq"), values)
    assert [one.where for one in store.verify_audit()[1]] == [f"line {said.seq + 1}"]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its schema, to be copied: making one takes longer than using it."""
    file = tmp_path_factory.mktemp("empty") / "dure.db"
    open_store(f"sqlite:///{file}").close()
    return file


DAYS = st.integers(0, 150)
JOBS = st.lists(st.tuples(DAYS, st.integers(1, 60)), max_size=6)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS, cuts=st.lists(st.integers(35, 150), min_size=1, max_size=3))
def test_after_any_cuts_the_state_that_is_rebuilt_is_the_state_before(
    empty: Path, tmp_path: Path, jobs: list[tuple[int, int]], cuts: list[int]
) -> None:
    """Whatever was done and however often it is cut: records, charges, bills, the fleet of every later day."""
    file = tmp_path / f"{uuid.uuid4().hex}.db"
    shutil.copy(empty, file)
    with pytest.MonkeyPatch.context() as patch:
        store = open_store(f"sqlite:///{file}")
        for number, (ago, length) in enumerate(sorted(jobs, reverse=True)):
            begin_s = NOW_S - ago * DAY_S
            job(store, patch, f"job-{number}", begin_s, min(begin_s + length * DAY_S, NOW_S))
        at(patch, NOW_S)
        cut_s = NOW_S - min(cuts) * DAY_S
        before = rebuilt(store, cut_s)
        for kept in sorted(cuts, reverse=True):
            store.prune(NOW_S - kept * DAY_S, NOW_S)
        assert rebuilt(store, cut_s) == before
        assert store.verify_audit()[1] == []
        assert not imbalances(store.list_ledger(0, 10**7))
        store.close()


def rebuilt(store: SqlStore, cut_s: float) -> tuple[object, ...]:
    later = [fleet_at(store, cut_s + day * DAY_S) for day in range(0, int((NOW_S - cut_s) // DAY_S), 4)]
    return store.list_workloads(), store.list_charges(0, 10**6), months(store), later
