"""Joining on every store: the same again is answered the same, anything else is refused, the log tells it once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from dure.adapters.acting import acting
from dure.adapters.memory.store import MemoryStore
from dure.adapters.store import SqlStore, open_store
from dure.model.audit import AuditBody
from dure.model.errors import NotAllowed
from dure.model.fleet import Fleet
from dure.model.membership import secret_digest
from dure.model.who import agent
from dure.plane import admission
from dure.ports import StorePort
from tests.fixtures.small_world import cluster, pool

FLEET = Fleet("test", (cluster(pool("big", "big")),))
MINE, OTHER = secret_digest("mine"), secret_digest("other")
SERVERS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
Opener = Callable[[], StorePort]


@pytest.fixture(params=["memory", *SERVERS])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """The same store again and again, as further replicas open it."""
    if request.param == "memory":
        memory = MemoryStore()
        return lambda: memory
    url = f"sqlite:///{tmp_path}/dure.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return lambda: open_store(url)


@pytest.fixture
def store(opener: Opener) -> Iterator[StorePort]:
    opened = opener()
    yield opened
    opened.close()


def redeem(store: StorePort, token: str, proposed: str) -> bool:
    """Whether it was taken."""
    try:
        with acting(agent("test"), "Join"):
            admission.redeem(store, "test", token, proposed)
    except NotAllowed:
        return False
    return True


def joins(store: StorePort) -> list[AuditBody]:
    lines = [msgspec.json.decode(line.body, type=AuditBody) for line in store.list_audit(limit=1000)]
    return [line for line in lines if line.action == "Join"]


def test_the_same_proposal_again_is_answered_the_same(store: StorePort) -> None:
    token = admission.new_join_token(store, FLEET, "test").token
    assert [redeem(store, token, MINE) for _ in range(3)] == [True] * 3
    admission.check(store, "test", "mine")


def test_a_used_token_is_no_good_for_another_credential(store: StorePort) -> None:
    token = admission.new_join_token(store, FLEET, "test").token
    assert redeem(store, token, MINE)
    assert [redeem(store, token, one) for one in (OTHER, "", MINE)] == [False, False, True]
    admission.check(store, "test", "mine")
    with pytest.raises(NotAllowed):
        admission.check(store, "test", "other")


def test_a_credential_that_the_plane_made_is_told_once(store: StorePort) -> None:
    token = admission.new_join_token(store, FLEET, "test").token
    secret = admission.redeem(store, "test", token).credential
    admission.check(store, "test", secret)
    assert [redeem(store, token, one) for one in ("", MINE)] == [False, False]
    with pytest.raises(NotAllowed):
        admission.check(store, "test", "")


def test_who_knows_the_digest_but_not_the_token_is_refused(store: StorePort) -> None:
    token = admission.new_join_token(store, FLEET, "test").token
    assert redeem(store, token, MINE)
    assert [redeem(store, one, MINE) for one in ("", "guessed", token[:-1], MINE)] == [False] * 4


def test_neither_the_first_nor_a_repeated_use_outlives_the_token(
    store: StorePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = admission.new_join_token(store, FLEET, "test")
    monkeypatch.setattr(admission, "TOKEN_S", -60)
    late = admission.new_join_token(store, FLEET, "test")
    assert not redeem(store, late.token, MINE)
    assert not redeem(store, made.token, MINE), "a newer token takes the place of an older one"
    monkeypatch.setattr(admission, "TOKEN_S", 60)
    token = admission.new_join_token(store, FLEET, "test").token
    assert redeem(store, token, MINE)
    monkeypatch.setattr("dure.plane.admission.time.time", lambda: late.expires_s + 1000)
    assert not redeem(store, token, MINE)
    admission.check(store, "test", "mine")


def test_a_new_token_replaces_the_credential_and_ends_what_was_said_before(store: StorePort) -> None:
    first = admission.new_join_token(store, FLEET, "test").token
    assert redeem(store, first, MINE)
    second = admission.new_join_token(store, FLEET, "test").token
    assert redeem(store, first, MINE), "nothing has taken its place yet"
    assert redeem(store, second, OTHER)
    assert not redeem(store, first, MINE)
    admission.check(store, "test", "other")


@pytest.mark.parametrize("opener", SERVERS, indirect=True)
def test_the_log_tells_of_a_join_once_and_never_of_the_secret(store: SqlStore) -> None:
    token = admission.new_join_token(store, FLEET, "test").token
    assert [redeem(store, token, one) for one in (MINE, MINE, OTHER, MINE)] == [True, True, False, True]
    (line,) = joins(store)
    assert [fact.name for fact in line.facts] == ["agent/test"]
    assert line.who == "agent of test"
    told = "".join(one.body for one in store.list_audit(limit=1000))
    assert token not in told
    assert MINE not in told
    assert store.verify_audit()[1] == []


@pytest.mark.parametrize("opener", SERVERS, indirect=True)
def test_of_many_that_redeem_at_once_on_several_replicas_one_credential_wins(opener: Opener) -> None:
    store = opener()
    token = admission.new_join_token(store, FLEET, "test").token
    proposals = [secret_digest(f"agent-{number % 4}") for number in range(8)]
    taken: list[str] = []

    def use(proposed: str) -> None:
        own = opener()
        if redeem(own, token, proposed):
            taken.append(proposed)
        own.close()

    threads = [threading.Thread(target=use, args=(one,)) for one in proposals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 2, "the winner and its twin"
    assert len(set(taken)) == 1
    assert len(joins(store)) == 1
    store.close()
