"""A request that is repeated with its key makes one Job: whatever it is called by now, and whoever was restarted."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

from dure.gateway.desk import Caller, Desk
from dure.gateway.journal import Journal
from dure.gateway.keys import Keys, key_digest
from dure.gateway.ledger import Ledger
from dure.gateway.memory import Memory
from dure.gateway.mover import GATE, Mover
from dure.gateway.recovery import Recovery
from dure.gateway.settings import Settings
from dure.model.errors import Conflict, NotFound, Temporary
from dure.route.accepts import LIGHT, LIGHT_LABEL, LightRule
from dure.route.reroute import Move
from tests.unit.gateway.boards import FixedBoard, cluster_queue
from tests.unit.gateway.test_desk import board, job


class Shelf:
    """Jobs of one namespace at an API server; of the calls named in `deaf` the answer is lost once."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.deaf: set[str] = set()
        self._count = 0

    def get(self, path: str, kind: type, **params: str) -> dict[str, Any]:
        if path.endswith("/jobs"):
            return {"metadata": {}, "items": list(copy.deepcopy(self.jobs).values())}
        return copy.deepcopy(self._named(path))

    def post(self, path: str, body: dict[str, Any], kind: type, acting: Any = ()) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if name in self.jobs:
            raise Conflict(f"{name} already exists")
        self._count += 1
        made = copy.deepcopy(body)
        made["metadata"] |= {"uid": f"u{self._count}", "resourceVersion": "1"}
        self.jobs[name] = made
        return self._answer("post", copy.deepcopy(made))

    def patch(self, path: str, body: dict[str, Any], kind: type, *_: str) -> dict[str, Any]:
        notes = self._named(path)["metadata"]["annotations"]
        for name, text in body["metadata"]["annotations"].items():
            notes.pop(name, None)
            if text is not None:
                notes[name] = text
        return self._answer("patch", {})

    def delete(self, path: str, *, uid: str = "", version: str = "") -> None:
        found = self._named(path)
        assert found["metadata"]["uid"] == uid
        del self.jobs[found["metadata"]["name"]]
        self._answer("delete", {})

    def _named(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.jobs:
            raise NotFound(f"no job {name}")
        return self.jobs[name]

    def _answer(self, call: str, answer: dict[str, Any]) -> dict[str, Any]:
        if call in self.deaf:
            self.deaf.remove(call)
            raise Temporary("the answer was lost")
        return answer


class Scene:
    def __init__(self, seen: FixedBoard | None = None, shelf: Shelf | None = None) -> None:
        self.board, self.shelf = seen or board(), shelf or Shelf()
        api: Any = self.shelf
        given: Any = self.board
        settings = Settings(light=LightRule(queue="user-cpu"))
        self.desk = Desk(api, given, Ledger(), settings, Journal(), Memory(), lambda: 1000.0)
        self.recovery = Recovery(self.desk)
        self.mover = Mover(self.desk, recover=self.recovery.run)

    def restarted(self) -> Scene:
        again = Scene(self.board, self.shelf)
        again.recovery.run()
        return again

    def submit(self, asked: dict[str, Any], key: str = "k", policy: str = "static") -> tuple[str, bool]:
        answer = self.desk.submit(asked, Caller(), where="job", key=key, name=policy)
        return answer.name, answer.repeated

    def move_to_cpu(self, name: str) -> bool:
        to = self.desk.routes[f"default/{name}"].candidate.alternatives[1]
        return self.mover._carry_out(Move(f"default/{name}", "user-gpu", "user-cpu", "cpu", to, 9.0, 1.0, "a test"))


def test_a_job_that_was_made_anew_is_found_by_its_key() -> None:
    scene = Scene()
    assert scene.submit(job()) == ("a", False)
    assert scene.move_to_cpu("a")
    assert scene.submit(job()) == ("a-m1", True)
    assert [*scene.shelf.jobs] == ["a-m1"]


@pytest.mark.parametrize("moved", [False, True])
def test_a_restarted_gateway_finds_the_job_by_its_key(moved: bool) -> None:
    scene = Scene()
    scene.submit(job())
    if moved:
        scene.move_to_cpu("a")
    (name,) = scene.shelf.jobs
    assert scene.restarted().submit(job()) == (name, True)
    assert [*scene.shelf.jobs] == [name]


def test_a_job_whose_class_renames_it_is_not_made_again_for_another_class() -> None:
    scene, asked = Scene(), job("train-gpu")
    del asked["metadata"]["annotations"]
    asked["metadata"]["labels"][LIGHT_LABEL] = LIGHT
    assert scene.submit(asked) == ("train-gpu", False)
    scene.board.queues.put(cluster_queue("gpu", {"nvidia.com/gpu": 4}, reserved=1, stopped="Hold"))
    assert scene.desk.submit(asked, Caller(), where="job", dry_run=True).name == "train-cpu"
    assert scene.submit(asked, policy="") == ("train-gpu", True)


def test_another_key_or_none_is_a_conflict_and_a_job_that_is_gone_is_made_again() -> None:
    scene = Scene()
    scene.submit(job())
    for key in ("other", ""):
        with pytest.raises(Conflict, match="already"):
            scene.submit(job(), key=key)
    scene.shelf.jobs.clear()
    assert scene.submit(job()) == ("a", False)


@pytest.mark.parametrize("call", ["post", "delete", "patch"])
def test_a_move_of_which_an_answer_was_lost_is_set_right_in_the_next_turn(call: str) -> None:
    scene = Scene()
    scene.submit(job())
    scene.shelf.deaf = {call}
    assert not scene.move_to_cpu("a")
    scene.mover.turn()
    (left,) = scene.shelf.jobs.values()
    assert GATE not in left["metadata"]["annotations"]
    assert scene.submit(job()) == (left["metadata"]["name"], True)


def test_what_is_done_about_one_key_is_done_one_after_the_other() -> None:
    keys, inside, order = Keys(), threading.Event(), list[str]()

    def second() -> None:
        inside.wait()
        with keys.held("default", "digest"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with keys.held("default", "digest"):
        inside.set()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_only_so_many_keys_are_kept_and_none_is_no_key() -> None:
    keys = Keys(kept=2)
    for number in range(3):
        keys.put("default", key_digest(str(number)), f"job-{number}")
    keys.put("default", key_digest(""), "nobody")
    assert [keys.name("default", key_digest(text)) for text in ("0", "1", "2", "")] == ["", "job-1", "job-2", ""]
    assert keys.name("other", key_digest("2")) == ""
