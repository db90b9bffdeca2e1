"""The credential in a Secret: several agents come at once, answers are lost, and they all end with one credential."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from dure.adapters.kube.rest import Api
from dure.adapters.kube.secret import CREDENTIAL, PROPOSED, TOKEN, fetch_credential
from dure.model.errors import Conflict, InvalidInput, NotAllowed, NotFound, Temporary


class Server(Api):
    """One Secret; `between` is done once, after the next read."""

    def __init__(self, data: dict[str, str] | None) -> None:
        self.data, self.version = data, 1
        self.between: Any = None

    def get(self, path: str, kind: Any, **params: str) -> Any:
        if self.data is None:
            raise NotFound("no such Secret")
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in self.data.items()}
        found = msgspec.convert({"metadata": {"resourceVersion": str(self.version)}, "data": encoded}, kind)
        between, self.between = self.between, None
        if between is not None:
            between()
        return found

    def patch(self, path: str, body: Any, kind: Any, how: str = "", manager: str = "") -> Any:
        assert self.data is not None
        if body.get("metadata", {}).get("resourceVersion", str(self.version)) != str(self.version):
            raise Conflict("somebody wrote since")
        self.version += 1
        for key, value in body["data"].items():
            self.data.pop(key, None)
            if value is not None:
                self.data[key] = base64.b64decode(value).decode()


class Plane:
    """Redeems one token for one secret; `deaf` of its first answers are lost on the way."""

    def __init__(self, deaf: int = 0, older: bool = False) -> None:
        self.deaf, self.older, self.held = deaf, older, ""

    def redeem(self, token: str, secret: str) -> str:
        made = "made-by-the-plane" if self.older else secret
        if token != "once" or (self.held and (self.older or self.held != made)):
            raise NotAllowed("the join token is wrong, used or too old")
        self.held = made
        if self.deaf:
            self.deaf -= 1
            raise Temporary("the answer was lost")
        return self.held


def fetch(server: Server, plane: Plane, waits: Any = lambda _: None) -> str:
    return fetch_credential(server, "dure-system", "dure-agent", plane.redeem, wait=waits)


def test_the_token_buys_a_credential_that_the_secret_keeps() -> None:
    server, plane = Server({TOKEN: "once\n"}), Plane()
    bought = fetch(server, plane)
    assert server.data == {TOKEN: "once\n", CREDENTIAL: bought}
    assert plane.held == bought
    assert fetch(server, Plane()) == bought, "whoever comes later finds it"


def test_an_agent_whose_answer_was_lost_joins_when_it_is_started_again() -> None:
    server, plane = Server({TOKEN: "once"}), Plane(deaf=1)
    with pytest.raises(Temporary):
        fetch(server, plane)
    assert server.data is not None
    assert server.data[PROPOSED] == plane.held
    assert fetch(server, plane) == plane.held


@pytest.mark.parametrize("answers_lost", [0, 1])
def test_two_agents_that_propose_at_once_join_with_the_same_credential(answers_lost: int) -> None:
    server, plane = Server({TOKEN: "once"}), Plane()
    other: list[str] = []

    def meanwhile() -> None:
        plane.deaf = answers_lost
        try:
            other.append(fetch(server, plane))
        except Temporary:
            return

    server.between = meanwhile
    bought = fetch(server, plane)
    assert len(other) == 1 - answers_lost
    assert {bought, *other, fetch(server, plane)} == {plane.held}


def test_with_an_older_plane_one_redeems_and_the_other_waits_for_what_it_wrote() -> None:
    server, plane = Server({TOKEN: "once", PROPOSED: "proposed-before"}), Plane(older=True)
    plane.redeem("once", "")

    def wait(_: float) -> None:
        assert server.data is not None
        server.data[CREDENTIAL] = plane.held

    assert fetch(server, plane, wait) == "made-by-the-plane"


def test_a_token_that_is_no_good_is_said_to_be_so() -> None:
    with pytest.raises(NotAllowed, match="used"):
        fetch(Server({TOKEN: "another"}), Plane())
    with pytest.raises(InvalidInput, match="join-token"):
        fetch(Server({}), Plane())
    with pytest.raises(InvalidInput, match="no such Secret"):
        fetch(Server(None), Plane())
