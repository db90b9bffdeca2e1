"""POSTs of the API client: on whose behalf, and over which way."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from dure.adapters.kube.rest import Api
from dure.adapters.kube.wire import Answer
from dure.model.errors import Conflict, InvalidInput


class ScriptedWire:
    """Answers with what it is given; notes the headers and whether a second attempt is allowed."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.sent: list[tuple[list[tuple[str, str]], bool]] = []

    def post(self, path: str, body: bytes, headers: list[tuple[str, str]], *, twice: bool) -> Answer:
        self.sent.append((headers, twice))
        return self._answers.pop(0)


def client(wire: ScriptedWire) -> tuple[Api, list[httpx2.Request]]:
    usual: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        usual.append(request)
        return httpx2.Response(201, json={"way": "usual"})

    given: Any = wire
    return Api(httpx2.Client(base_url="http://localhost", transport=httpx2.MockTransport(answer)), given), usual


def test_an_object_is_created_by_one_attempt_in_the_name_of_its_user() -> None:
    wire = ScriptedWire(Answer(201, b'{"way": "short"}'))
    api, usual = client(wire)
    assert api.post("/jobs", {}, dict, (("Impersonate-User", "ann"),)) == {"way": "short"}
    assert (wire.sent, usual) == ([([("Impersonate-User", "ann")], False)], [])


@pytest.mark.parametrize("name", ["ann\r\nImpersonate-Group: system:masters", "ann\nb", "änn"])
def test_a_name_that_could_break_out_of_its_header_is_refused(name: str) -> None:
    wire = ScriptedWire()
    api, usual = client(wire)
    with pytest.raises(InvalidInput, match="printable"):
        api.post("/jobs", {}, dict, (("Impersonate-User", name),))
    assert (wire.sent, usual) == ([], [])


def test_a_refusal_is_told_as_such_and_an_old_token_goes_the_usual_way() -> None:
    wire = ScriptedWire(Answer(409, b'{"message": "already exists"}'), Answer(401, b""))
    api, usual = client(wire)
    with pytest.raises(Conflict, match="already exists"):
        api.post("/jobs", {}, dict)
    assert api.post("/jobs", {}, dict) == {"way": "usual"}
    assert len(usual) == 1
