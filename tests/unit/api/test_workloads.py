"""The contract of `/v1/workloads`, `/v1/plan` and `why`."""

from __future__ import annotations

import msgspec

from dure.model.answer import Plan, Why
from dure.model.reason import Reason
from dure.model.workload import WorkloadRecord
from tests.unit.api.clients import Client
from tests.unit.api.small_world import HELD, SmallWorld

YAML = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: night-run, tenant: vision}
spec:
  type: batch
  classes: [{name: a100-80gb-sxm}]
  demand: {devices: 1}
  duration: 2h
"""
JSON = {
    "apiVersion": "dure.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "night-run", "tenant": "vision"},
    "spec": {"type": "batch", "classes": [{"name": "a100-80gb-sxm"}], "demand": {"devices": 1}, "duration": "2h"},
}
AS_YAML = {"content-type": "application/yaml"}


def test_a_workload_is_answered_as_the_record_of_the_store_with_what_is_expected(
    client: Client, world: SmallWorld
) -> None:
    answer = client.get(f"/v1/workloads/{HELD}")
    record = msgspec.json.decode(answer.content, type=WorkloadRecord)
    assert record.eta is not None
    assert msgspec.structs.replace(record, eta=None) == world.store.fetch_workload(HELD)
    assert answer.headers["etag"] == f'"{record.uid}.{record.version}"'


def test_a_reader_that_has_the_newest_version_gets_no_body(client: Client) -> None:
    etag = client.get(f"/v1/workloads/{HELD}").headers["etag"]
    again = client.get(f"/v1/workloads/{HELD}", headers={"if-none-match": f'"other", W/{etag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)


def test_an_unknown_workload_is_a_problem_that_names_the_nearest(client: Client) -> None:
    answer = client.get("/v1/workloads/train-4")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == 404
    assert problem["title"] == "Not found"
    assert "train-4" in problem["remedy"]


def test_pages_follow_each_other_without_gap_or_repeat(client: Client, world: SmallWorld) -> None:
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = client.get("/v1/workloads", params={"limit": 70, **({"after": after} if after else {})}).json()
        seen += [item["uid"] for item in page["items"]]
        after = page["next"]
    assert seen == [record.uid for record in world.store.list_workloads()]


def test_a_cursor_of_nowhere_is_refused(client: Client) -> None:
    assert client.get("/v1/workloads", params={"after": "nowhere"}).status_code == 400


def test_lists_can_be_narrowed_by_tenant_and_phase(client: Client) -> None:
    items = client.get("/v1/workloads", params={"tenant": "vision", "phase": "held", "limit": 500}).json()["items"]
    assert {item["spec"]["name"] for item in items} == {f"train-{number}" for number in range(40, 46)}


def test_a_workload_can_be_submitted_as_yaml(client: Client, world: SmallWorld) -> None:
    answer = client.post("/v1/workloads", content=YAML, headers=AS_YAML)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/workloads/night-run"
    assert world.store.fetch_workload("night-run").spec.duration_s == 7200


def test_the_same_workload_can_be_submitted_as_json(client: Client, world: SmallWorld) -> None:
    assert client.post("/v1/workloads", json=JSON).status_code == 201
    as_json = world.store.fetch_workload("night-run").spec
    client.delete("/v1/workloads/night-run")
    assert client.post("/v1/workloads", content=YAML, headers=AS_YAML).status_code == 201
    assert world.store.fetch_workload("night-run").spec == as_json


def test_a_repeated_submission_with_the_same_key_answers_the_first_record(client: Client) -> None:
    headers = {**AS_YAML, "idempotency-key": "key-1"}
    first = client.post("/v1/workloads", content=YAML, headers=headers)
    second = client.post("/v1/workloads", content=YAML, headers=headers)
    assert (second.status_code, second.json()["uid"]) == (201, first.json()["uid"])


def test_a_name_in_use_is_a_conflict(client: Client) -> None:
    client.post("/v1/workloads", content=YAML, headers=AS_YAML)
    answer = client.post("/v1/workloads", content=YAML, headers=AS_YAML)
    assert (answer.status_code, answer.json()["title"]) == (409, "Conflict")


def test_a_wrong_document_is_answered_with_line_and_remedy(client: Client) -> None:
    answer = client.post("/v1/workloads", content=YAML.replace("devices: 1", "device: 1"), headers=AS_YAML)
    assert answer.status_code == 400
    problem = answer.json()
    assert "request body:8" in problem["where"]
    assert "devices" in problem["remedy"]
    assert problem["errors"][0]["path"]


def test_hostile_and_foreign_bodies_are_refused_without_a_crash(client: Client) -> None:
    assert client.post("/v1/workloads", content=b"\xff\xfe\x00", headers=AS_YAML).status_code == 400
    assert client.post("/v1/workloads", content=b"", headers=AS_YAML).status_code == 400
    assert client.post("/v1/workloads", content=b"[" * 100_000, headers=AS_YAML).status_code == 400
    assert client.post("/v1/workloads", content=b"x" * 9_000_000, headers=AS_YAML).status_code == 413
    assert client.post("/v1/workloads", content=b"x", headers={"content-type": "image/png"}).status_code == 415


def test_a_plan_changes_nothing(client: Client, world: SmallWorld) -> None:
    before = world.store.list_workloads()
    answer = client.post("/v1/plan", content=YAML, headers=AS_YAML)
    plan = msgspec.json.decode(answer.content, type=Plan)
    assert plan.chosen is not None
    assert plan.chosen.total_micros == plan.chosen.bill.total
    assert world.store.list_workloads() == before


def test_cancelling_needs_the_version_that_the_caller_has_seen(client: Client) -> None:
    stale = client.delete(f"/v1/workloads/{HELD}", headers={"if-match": '"another"'})
    assert stale.status_code == 412
    etag = client.get(f"/v1/workloads/{HELD}").headers["etag"]
    done = client.delete(f"/v1/workloads/{HELD}", headers={"if-match": etag})
    assert (done.status_code, done.json()["status"]["phase"]) == (200, "cancelled")
    assert client.delete(f"/v1/workloads/{HELD}").status_code == 409


def test_why_answers_a_reason_with_numbers_and_remedy_for_every_place(client: Client) -> None:
    why = msgspec.json.decode(client.get(f"/v1/workloads/{HELD}/why").content, type=Why)
    assert why.lines[0].reason is Reason.FRAGMENTED
    assert "largest free group is 6" in why.lines[0].sentence
    assert all(line.remedy for line in why.lines)
