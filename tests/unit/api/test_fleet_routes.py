"""The contract of what describes the fleet, and of what Dure did."""

from __future__ import annotations

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dure.model.answer import FleetStatus
from dure.model.errors import Temporary
from tests.unit.api.clients import Client
from tests.unit.api.small_world import HELD, SmallWorld


def test_the_status_is_answered_whole(client: Client, world: SmallWorld) -> None:
    status = msgspec.json.decode(client.get("/v1/status").content, type=FleetStatus)
    assert [cluster.name for cluster in status.clusters] == [c.info.name for c in world.fleet().clusters]
    assert status.totals.devices == sum(cluster.devices for cluster in status.clusters)


@pytest.mark.parametrize(
    "noun", ["clusters", "pools", "devices", "classes", "tenants", "policies", "decisions", "events"]
)
def test_every_list_has_the_same_shape_and_a_cursor(client: Client, noun: str) -> None:
    first = client.get(f"/v1/{noun}", params={"limit": 1}).json()
    assert len(first["items"]) == 1
    if first["next"] is not None:
        second = client.get(f"/v1/{noun}", params={"limit": 1, "after": first["next"]}).json()
        assert second["items"] != first["items"]


@pytest.mark.parametrize(
    "path",
    ["clusters/seoul-onprem", "classes/h100-80gb-sxm", "tenants/search", "policies/steady", "schemas/workload"],
)
def test_single_records_have_an_etag_that_holds(client: Client, path: str) -> None:
    answer = client.get(f"/v1/{path}")
    assert answer.status_code == 200
    assert client.get(f"/v1/{path}", headers={"if-none-match": answer.headers["etag"]}).status_code == 304


@pytest.mark.parametrize("path", ["clusters/seoul", "classes/h1000", "tenants/serch", "policies/x", "schemas/Pod"])
def test_unknown_names_are_not_found(client: Client, path: str) -> None:
    assert client.get(f"/v1/{path}").status_code == 404


def test_devices_name_their_cluster_and_who_holds_their_slices(client: Client) -> None:
    devices = client.get("/v1/devices", params={"cluster": "gwangju-npu"}).json()["items"]
    assert {device["cluster"] for device in devices} == {"gwangju-npu"}
    assert any(held["tenant"] for device in devices for held in device.get("held", []))


def test_decisions_can_be_asked_for_one_workload(client: Client) -> None:
    entries = client.get("/v1/decisions", params={"workload": HELD}).json()["items"]
    assert [entry["decision"]["kind"] for entry in entries] == ["hold"]


def test_the_newest_events_come_in_order(client: Client, world: SmallWorld) -> None:
    world.tell("one")
    world.tell("two")
    events = client.get("/v1/events", params={"newest": True, "limit": 2}).json()["items"]
    assert [event["message"] for event in events] == ["one", "two"]


def test_the_history_grows_with_the_clock(client: Client, world: SmallWorld) -> None:
    client.get("/v1/status")
    points = client.get("/v1/history").json()["items"]
    assert points[-1]["at_s"] == world.now_s
    assert 0 < points[-1]["used"] <= 1


def test_a_series_is_asked_for_by_name_and_an_unknown_one_names_the_nearest(
    client: Client, world: SmallWorld
) -> None:
    client.get("/v1/status")
    used = client.get("/v1/series/dure_pool_used_ratio").json()["items"]
    assert {"cluster", "pool"} == set(used[0]["labels"])
    assert all(0 <= one["value"] <= 1 and one["at_s"] == world.now_s for one in used)
    assert client.get("/v1/series/dure_pool_used_ratio", params={"until_s": 1}).json()["items"] == []
    asked = client.get("/v1/series/dure_pool_used")
    assert (asked.status_code, "dure_pool_used_ratio" in asked.text) == (404, True)


def test_metrics_are_prometheus_text_with_dure_names(client: Client) -> None:
    client.get("/v1/workloads/nothing-here")
    families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    assert all(name.startswith("dure_") for name in families)
    assert {"dure_watch_carbon_grams_per_hour", "dure_watch_cost_krw_per_hour", "dure_place_workloads_count"} <= {
        *families
    }
    requests = [s for s in families["dure_serve_requests"].samples if s.name == "dure_serve_requests_total"]
    # The route is counted, not the path, so that names of workloads do not become labels.
    assert any(s.labels["route"] == "/v1/workloads/{name}" and s.labels["status"] == "404" for s in requests)


def test_it_is_ready_only_once_the_fleet_was_seen(stranger: Client, world: SmallWorld) -> None:
    assert stranger.get("/readyz").status_code == 200
    world.is_ready = False
    answer = stranger.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert stranger.get("/healthz").status_code == 200


def test_an_unforeseen_error_says_nothing_of_the_inside(
    client: Client, world: SmallWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("secret path /etc/passwd")

    monkeypatch.setattr(world, "why", broken)
    answer = client.get(f"/v1/workloads/{HELD}/why")
    assert answer.status_code == 500
    assert "secret" not in answer.text


def test_a_temporary_error_tells_when_to_try_again(
    client: Client, world: SmallWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(name: str) -> None:
        raise Temporary("the store is away", reason="StoreAway")

    monkeypatch.setattr(world, "why", away)
    answer = client.get(f"/v1/workloads/{HELD}/why")
    assert (answer.status_code, answer.json()["reason"]) == (503, "StoreAway")
    assert answer.headers["retry-after"]
