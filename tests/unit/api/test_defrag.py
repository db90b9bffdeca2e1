"""The contract of defragmentation on a wish: asked of agents, answered by their reports."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.defrag import DefragAnswer, DefragPlan, DefragState, How, PodMove
from dure.plane.members import LocalPlane
from tests.unit.api.clients import Client
from tests.unit.api.small_world import SmallWorld

MOVE = PodMove("p-0", "p", "p", "vision", "a", "b", (), How.RESTART, 60.0)


def answered(world: SmallWorld, state: DefragState) -> None:
    """As the agent of cloud-kr would: it takes its wish and tells in a report how far it is."""
    plane = LocalPlane(world.store)
    wish = plane.fetch_wish("cloud-kr")
    assert wish is not None
    plan = DefragPlan("cloud-kr", "an empty node", "a", (MOVE,), 60.0, "7")
    before = next(one for one in world.store.list_reports() if one.cluster == "cloud-kr")
    at_s = before.at_s + 1.0
    told = DefragAnswer("cloud-kr", wish.id, at_s, state, wish.apply, plan)
    plane.write_report(replace(before, at_s=at_s, defrag=told))


def test_every_cluster_is_asked_and_its_answer_can_be_read(client: Client, world: SmallWorld) -> None:
    assert client.get("/v1/defrag").json()["items"] == []
    sent = client.post("/v1/defrag")
    assert sent.status_code == 202
    assert [one["cluster"] for one in sent.json()["items"]] == [c.info.name for c in world.fleet().clusters]
    assert {one["state"] for one in sent.json()["items"]} == {"asked"}
    answered(world, DefragState.PLANNED)
    (found,) = client.get("/v1/defrag", params={"cluster": "cloud-kr"}).json()["items"]
    assert found["state"] == "planned"
    assert found["plan"]["moves"][0]["to_node"] == "b"
    assert found["plan"]["cost_s"] == 60.0


def test_a_plan_that_is_carried_out_is_followed_to_its_end(client: Client, world: SmallWorld) -> None:
    (asked,) = client.post("/v1/defrag", params={"cluster": "cloud-kr", "apply": True}).json()["items"]
    answered(world, DefragState.WAITING)
    (again,) = client.post("/v1/defrag", params={"cluster": "cloud-kr"}).json()["items"]
    assert (again["wish"], again["state"]) == (asked["wish"], "waiting-for-checkpoint")
    answered(world, DefragState.MOVED)
    (found,) = client.get("/v1/defrag", params={"cluster": "cloud-kr"}).json()["items"]
    assert (found["wish"], found["state"], found["apply"]) == (asked["wish"], "moved", True)
    assert LocalPlane(world.store).fetch_wish("cloud-kr") is None


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_cluster_is_not_found_and_the_nearest_is_named(client: Client, method: str) -> None:
    answer = client.request(method, "/v1/defrag", params={"cluster": "cloud-kz"})
    assert answer.status_code == 404
    assert "cloud-k" in answer.json()["remedy"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_stranger_may_neither_ask_nor_read(stranger: Client, method: str) -> None:
    assert stranger.request(method, "/v1/defrag").status_code == 401
    assert stranger.get("/v1/agents/cloud-kr/wish").status_code in (401, 403)
