"""Every write leaves a line of the audit log, and whatever is altered behind Dure's back is found."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from sqlalchemy import text

from dure.adapters.acting import acting
from dure.adapters.store import SqlStore, open_store
from dure.adapters.store.migrations import downgrade
from dure.model.audit import START, Mark, sealed
from dure.model.decision import Hold, JournalEntry
from dure.model.demand import Demand
from dure.model.errors import Conflict
from dure.model.policy import Policy, Verb
from dure.model.posting import Account, Posting
from dure.model.reason import Reason, Verdict
from dure.model.report import Report
from dure.model.tenant import Role, Tenant
from dure.model.token import Token
from dure.model.who import EVERY, Who
from dure.model.workload import AcceptedClass, Phase, Workload, WorkloadRecord, WorkloadStatus, WorkloadType
from dure.ports import Change, Charge, New

ALICE = Who("alice", {EVERY: Role.ADMIN}, "token:1f")


@pytest.fixture
def store(store_url: str) -> Iterator[SqlStore]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def record(name: str) -> WorkloadRecord:
    spec = Workload(name, "vision", WorkloadType.BATCH, (AcceptedClass("t4"),), Demand(devices=1))
    return WorkloadRecord(f"uid-{name}", spec, WorkloadStatus(submitted_s=1.5))


def entry(workload: str) -> JournalEntry:
    clash = Verdict("a/b", Reason.NO_CAPACITY, "8 devices", "a/b has 6 free")
    return JournalEntry(0, 2.25, "seen", Hold(workload, (clash,)), tenant="vision")


def lived_in(store: SqlStore) -> None:
    """A little of everything that is audited."""
    with acting(ALICE, "POST /v1/apply"):
        store.write_tenant(Tenant("vision"))
        store.write_policy(Policy("steady", Verb.PLACE))
        store.write_policy(Policy("steady", Verb.PLACE, paused=True))
        store.write_token(Token("1f", "ci", Role.VIEWER, "vision", "digest", 1.0, "alice"))
        for name in ("train-1", "train-2", "train-3"):
            store.create_workload(record(name))
    for name in ("train-1", "train-2"):
        before = store.fetch_workload(name)
        status = msgspec.structs.replace(before.status, phase=Phase.DONE, finished_s=9.0)
        charge = Charge(20_000, "vision", "seoul", 1_000_001, 17)
        posting = Posting(480_000, "seoul", "h100", Account.PAID, tenant="vision", micros=5, energy_mwh=7)
        store.commit([Change(before.uid, before.version, status, (entry(name),), (), (charge,))], postings=[posting])
    store.write_report(Report("seoul", 3.0, "7", (), (), (), (Hold("train-3", ()),)))


def test_every_write_has_a_line_with_the_name_of_who_wrote(store: SqlStore) -> None:
    lived_in(store)
    said = [line.said() for line in store.list_audit(limit=1000)]
    assert [one.seq for one in said] == list(range(1, len(said) + 1))
    assert [(one.who, one.via, one.action) for one in said[1:5]] == [("alice", "token:1f", "POST /v1/apply")] * 4
    assert {one.who for one in said[8:]} == {"plane"}
    kinds = {fact.kind for one in said for fact in one.facts}
    assert kinds == {"tenant", "policy", "token", "spec", "workload", "journal", "charge", "posting"}
    assert store.verify_audit() == (len(said), [])


def test_of_many_at_once_each_has_a_line_with_the_name_of_who_wanted_it(store: SqlStore) -> None:
    bob = Who("bob", {EVERY: Role.ADMIN}, "token:2e")
    taken = msgspec.structs.replace(record("a"), uid="other")
    store.create_workloads(
        [New(record("a"), "", ALICE, "POST"), New(taken, "", bob, "POST"), New(record("b"), "", bob, "POST")]
    )
    said = [line.said() for line in store.list_audit(limit=1000)]
    assert [(one.who, one.facts[0].name) for one in said[-2:]] == [("alice", "uid-a"), ("bob", "uid-b")]
    assert store.verify_audit() == (len(said), [])


def both(store: SqlStore) -> None:
    with store.together():
        store.write_tenant(Tenant("never"))
        store.create_workload(msgspec.structs.replace(record("train-1"), uid="other"))


def test_a_write_that_is_taken_back_leaves_no_line(store: SqlStore) -> None:
    store.create_workload(record("train-1"))
    count = len(store.list_audit(limit=1000))
    with pytest.raises(Conflict):
        store.create_workload(msgspec.structs.replace(record("train-1"), uid="other"))
    with pytest.raises(Conflict):
        both(store)
    assert store.verify_audit() == (count, [])


def test_what_the_plane_notes_for_itself_is_no_news_but_what_a_person_sets_is(store: SqlStore) -> None:
    store.write_setting("weights", "1")
    count = len(store.list_audit(limit=1000))
    with acting(ALICE, "PUT /v1/shadow/ruin"):
        store.write_setting("shadow", "a secret that must not be in the log")
    lines = store.list_audit(limit=1000)
    assert len(lines) == count + 1
    assert "secret" not in lines[-1].body
    assert lines[-1].said().who == "alice"


TAMPERED = {
    "a workload's status": "UPDATE workloads SET status = spec WHERE name = 'train-1'",
    "a workload's version": "UPDATE workloads SET version = version + 1 WHERE name = 'train-3'",
    "a workload's owner": "UPDATE workloads SET tenant = 'search' WHERE name = 'train-2'",
    "a workload removed": "DELETE FROM workloads WHERE name = 'train-2'",
    "a workload smuggled in": "INSERT INTO workloads SELECT 'uid-x', 'x', tenant, phase, 1, submitted_s, finished_s,"
    " version, spec, status FROM workloads WHERE name = 'train-1'",
    "a decision altered": "UPDATE journal SET tenant = 'search' WHERE workload = 'train-1'",
    "a decision removed": "DELETE FROM journal WHERE workload = 'train-1'",
    "the last decision removed": "DELETE FROM journal WHERE workload = 'train-3'",
    "a charge lowered": "UPDATE charges SET micros = micros - 1",
    "a charge removed": "DELETE FROM charges",
    "a charge made up": "INSERT INTO charges VALUES (20001, 'vision', 'seoul', 5, 5)",
    "a line of the ledger": "UPDATE ledger SET energy_mwh = 1",
    "a line of the ledger removed": "DELETE FROM ledger",
    "a tenant altered": "UPDATE tenants SET body = (SELECT body FROM policies WHERE version = 1)",
    "an old version of a policy": "DELETE FROM policies WHERE version = 1",
    "a token revived": "UPDATE tokens SET body = (SELECT body FROM tenants)",
    "a token made by hand": "INSERT INTO tokens SELECT 'zz', body FROM tokens",
    "a line's words": "UPDATE audit SET body = (SELECT body FROM audit WHERE seq = 2) WHERE seq = 3",
    "a line's hash": "UPDATE audit SET hash = (SELECT hash FROM audit WHERE seq = 2) WHERE seq = 3",
    "a line removed": "DELETE FROM audit WHERE seq = 4",
    "the last line removed": "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
    "the first line removed": "DELETE FROM audit WHERE seq = 1",
    "the whole log removed": "DELETE FROM audit",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED.keys())
def test_what_is_altered_behind_its_back_is_found(store: SqlStore, statement: str) -> None:
    lived_in(store)
    assert store.verify_audit()[1] == []
    with store.engine.begin() as db:
        assert db.execute(text(statement)).rowcount > 0
    assert store.verify_audit()[1]


def test_a_log_written_anew_is_found_by_a_mark_that_was_kept_elsewhere(store: SqlStore) -> None:
    lived_in(store)
    mark = store.audit_mark()
    lines = [line.said() for line in store.list_audit(limit=1000)]
    before = START
    with store.engine.begin() as db:
        for one in lines:
            forged = sealed(msgspec.structs.replace(one, who="mallory"), before)
            before = forged.hash
            values = {"body": forged.body.encode(), "hash": forged.hash, "seq": one.seq}
            db.execute(text("UPDATE audit SET body = :body, hash = :hash WHERE seq = :seq"), values)
        db.execute(text("UPDATE audit_head SET hash = :hash"), {"hash": before})
    assert store.verify_audit()[1] == []
    assert [one.where for one in store.verify_audit([mark])[1]] == [f"line {mark.seq}"]
    assert store.verify_audit([Mark(10_000, START)])[1]


def test_two_writers_at_once_write_one_chain(store_url: str, store: SqlStore) -> None:
    other = open_store(store_url)
    names = [f"job-{number}" for number in range(24)]

    def write(into: SqlStore, part: list[str]) -> None:
        for name in part:
            into.create_workload(record(name))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (store, other), (names[::2], names[1::2])))
    other.close()
    count, findings = store.verify_audit()
    assert (count, findings) == (1 + len(names), [])


def test_a_database_of_before_the_log_begins_it_with_what_is_there(store_url: str, store: SqlStore) -> None:
    lived_in(store)
    downgrade(store.engine, "0001")
    store.close()
    again = open_store(store_url)
    # Tokens came with the log, so a step back forgets them.
    count, findings = again.verify_audit()
    again.close()
    assert (count, findings) == (1, [])
