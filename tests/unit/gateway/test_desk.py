"""The desk on figures that are too old, on large Jobs, and on the published rule."""

from __future__ import annotations

from typing import Any

import pytest

from dure.gateway.desk import Caller, Desk
from dure.gateway.journal import Journal
from dure.gateway.ledger import Ledger
from dure.gateway.memory import Memory
from dure.gateway.settings import Settings
from dure.model.errors import NotFound, Temporary
from tests.unit.gateway.boards import FixedBoard, cluster_queue

ACCEPTS = (
    "[{class: t4, queue: user-gpu, estimate: 50}, "
    "{class: cpu, queue: user-cpu, estimate: 5, resources: {nvidia.com/gpu: null}, env: {A: b}}]"
)


class EchoApi:
    """Creates whatever it is given."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []

    def post(self, path: str, body: dict[str, Any], kind: type, acting: Any = ()) -> dict[str, Any]:
        self.made.append(body)
        return {"metadata": {**body["metadata"], "uid": f"u{len(self.made)}"}}


def desk(board: FixedBoard, settings: Settings | None = None) -> tuple[Desk, EchoApi]:
    api: Any = EchoApi()
    given: Any = board
    return Desk(api, given, Ledger(), settings or Settings(), Journal(), Memory(), lambda: 1000.0), api


def board() -> FixedBoard:
    queues = {"gpu": cluster_queue("gpu", {"nvidia.com/gpu": 4}), "cpu": cluster_queue("cpu", {"cpu": 24})}
    return FixedBoard(queues, {"default/user-gpu": "gpu", "default/user-cpu": "cpu"})


def job(name: str = "a", padding: int = 0) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "i",
        "args": ["x" * padding],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": "user-gpu"},
            "annotations": {"dure.dev/accepts": ACCEPTS},
        },
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def test_with_old_figures_a_job_goes_unchanged_and_is_told_so() -> None:
    seen = board()
    assert desk(seen)[0].submit(job(), Caller(), where="job").queue == "user-cpu"
    seen.stale_s = 99.0
    made, api = desk(seen)
    answer = made.submit(job(), Caller(), where="job")
    assert (answer.queue, answer.rule, answer.stale_s) == ("user-gpu", "fail-open", 99.0)
    assert "env" not in api.made[0]["spec"]["template"]["spec"]["containers"][0]


def test_a_gateway_that_fails_closed_refuses_on_old_figures() -> None:
    seen = board()
    seen.stale_s = 99.0
    made, api = desk(seen, Settings(fail_open=False))
    with pytest.raises(Temporary, match="99 s old"):
        made.submit(job(), Caller(), where="job")
    assert api.made == []


def test_what_a_job_was_handed_in_as_stays_in_it_unless_it_is_too_large() -> None:
    made, api = desk(board())
    made.submit(job("small"), Caller(), where="job")
    made.submit(job("large", padding=300_000), Caller(), where="job")
    small, large = (one["metadata"]["annotations"] for one in api.made)
    assert "dure.dev/origin" in small
    assert "dure.dev/origin" not in large
    assert {one["metadata"]["labels"]["dure.dev/gateway"] for one in api.made} == {"dure"}


def test_an_unknown_queue_is_answered_with_the_known_ones() -> None:
    lost = job()
    lost["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nowhere"
    del lost["metadata"]["annotations"]
    with pytest.raises(NotFound, match="nowhere") as refused:
        desk(board())[0].submit(lost, Caller(), where="job")
    assert refused.value.remedy == "There are: user-cpu, user-gpu."
