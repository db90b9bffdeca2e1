"""Leader election with a server in memory and clocks of its own for each agent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dure.adapters.kube.lease import DURATION_S, Election, KubeLease
from dure.adapters.kube.rest import Api
from dure.model.errors import Conflict, NotFound, Temporary


class Server(Api):
    """Leases of one server; `away` plays one that does not answer."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] | None = None
        self.version = 0
        self.away = False
        self.namespaced = False

    def get(self, path: str, kind: Any, **params: str) -> Any:
        self._check()
        if self.spec is None:
            raise NotFound("no lease")
        return self._lease()

    def post(self, path: str, body: Any, kind: Any, acting: Any = ()) -> Any:
        self._check()
        if not self.namespaced:
            raise NotFound("no namespace")
        if self.spec is not None:
            raise Conflict("there already")
        return self._write(body["spec"])

    def apply(self, path: str, body: Any, kind: Any, *, dry_run: bool = False, manager: str = "") -> Any:
        self.namespaced = True

    def patch(self, path: str, body: Any, kind: Any, how: str = "", manager: str = "") -> Any:
        self._check()
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict("somebody wrote since")
        return self._write({**(self.spec or {}), **body["spec"]})

    def _write(self, spec: dict[str, Any]) -> KubeLease:
        self.spec, self.version = spec, self.version + 1
        return self._lease()

    def _lease(self) -> KubeLease:
        return msgspec.convert({"metadata": {"resourceVersion": str(self.version)}, "spec": self.spec}, KubeLease)

    def _check(self) -> None:
        if self.away:
            raise Temporary("away")


class World:
    """`now_s` is the time of everybody; `behind` lets one agent's own clock start elsewhere."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.server = Server()
        self.gained: list[str] = []

    def agent(self, identity: str, behind_s: float = 0.0) -> Election:
        return Election(
            self.server, identity, lambda: self.gained.append(identity), now=lambda: self.now_s - behind_s
        )


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_leads_and_the_second_does_not(world: World) -> None:
    a, b = world.agent("a"), world.agent("b", behind_s=500.0)
    for one in (a, b, a, b):
        one.turn()
    assert (a.leads(), b.leads(), world.gained) == (True, False, ["a"])
    with pytest.raises(Temporary, match="does not lead"):
        b.check()


def test_a_leader_that_renews_stays_however_long(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    for _ in range(100):
        a.turn()
        b.turn()
        world.now_s += 2.0
    assert (a.leads(), b.leads(), a.token) == (True, False, "a/1")


def test_there_are_never_two_leaders_while_one_is_paused(world: World) -> None:
    a, b = world.agent("a"), world.agent("b", behind_s=-77.0)
    a.turn()
    for _ in range(200):
        b.turn()
        assert not (a.leads() and b.leads())
        world.now_s += 0.25
    assert b.leads()
    with pytest.raises(Temporary):
        a.check()
    a.turn()
    assert (a.leads(), a.token != b.token) == (False, True)


def test_nobody_takes_over_before_the_whole_duration_was_seen_to_pass(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    a.turn()
    world.now_s += 100.0
    b.turn()
    assert not b.leads(), "it has only just begun to look"
    world.now_s += DURATION_S - 0.1
    b.turn()
    assert not b.leads()
    world.now_s += 0.2
    b.turn()
    assert (b.leads(), b.token) == (True, "b/2")


def test_a_restarted_agent_of_the_same_name_need_not_wait_and_gets_a_new_term(world: World) -> None:
    world.agent("a").turn()
    heir = world.agent("a")
    heir.turn()
    assert (heir.leads(), heir.token) == (True, "a/2")


def test_a_leader_that_cannot_renew_stops_before_another_may_start(world: World) -> None:
    a = world.agent("a")
    a.turn()
    world.server.away = True
    world.now_s += DURATION_S - 1.0
    with pytest.raises(Temporary):
        a.turn()
    assert not a.leads()
    world.server.away = False
    a.turn()
    assert (a.leads(), a.token) == (True, "a/1"), "nobody took it meanwhile, so the term goes on"


def test_who_stops_gives_the_office_back(world: World) -> None:
    a, b = world.agent("a"), world.agent("b")
    a.turn()
    b.turn()
    a.stop()
    b.turn()
    assert (a.leads(), b.leads()) == (False, True)
