"""The first page's data: only what changed of the map, a bounded number of workloads, the past and its devices."""

from __future__ import annotations

import msgspec
import pytest

from dure.api.board import Maps
from dure.model.pruned import PRUNED_SETTING
from tests.unit.api.clients import Client
from tests.unit.api.small_world import NOW_S, SmallWorld


def test_a_reader_gets_only_the_pools_that_changed(world: SmallWorld) -> None:
    maps = Maps(world.store)
    first = maps.since(0)
    assert {f"{pool.cluster}/{pool.pool}" for pool in first.pools} == set(first.known)
    assert maps.since(first.number).pools == ()
    report = next(one for one in world.store.list_reports() if one.devices)
    broken = msgspec.structs.replace(report.devices[0], healthy=False)
    world.store.write_report(
        msgspec.structs.replace(report, at_s=report.at_s + 1, devices=(broken, *report.devices[1:]))
    )
    (changed,) = maps.since(first.number).pools
    assert (changed.cluster, changed.pool) == (report.cluster, broken.pool)
    assert [row.healthy for row in changed.devices].count(False) >= 1


def test_a_number_of_another_server_begins_anew(world: SmallWorld) -> None:
    maps = Maps(world.store)
    assert len(maps.since(10**9).pools) == len(maps.since(0).known)


def test_the_board_is_bounded_and_searched_on_the_server(client: Client) -> None:
    whole = client.get("/v1/board", params={"limit": 5}).json()
    assert (len(whole["running"]), len(whole["waiting"])) == (5, 5)
    assert whole["running_count"] == whole["found_count"] > 5
    assert whole["waiting_count"] == 6
    found = client.get("/v1/board", params={"find": "SEOUL-onprem vision"}).json()
    assert 0 < found["found_count"] < whole["running_count"]
    for one in found["running"]:
        assert (one["status"]["placement"]["cluster"], one["spec"]["tenant"]) == ("seoul-onprem", "vision")


def test_the_past_and_a_device_answer_over_the_api(client: Client, world: SmallWorld) -> None:
    was = client.get("/v1/past", params={"at_s": NOW_S}).json()
    assert was["running"]
    assert {one["workload"] for one in was["waiting"]} >= {f"train-{number}" for number in range(40, 46)}
    assert client.get("/v1/past.csv", params={"at_s": NOW_S}).text.startswith("workload,tenant")
    report = next(one for one in world.store.list_reports() if one.devices)
    device, cluster = report.devices[0], report.cluster
    assert client.get(f"/v1/clusters/{cluster}/devices/{device.id}/timeline").json()["items"] == []
    missing = client.get(f"/v1/clusters/{cluster}/devices/no-such/timeline")
    assert missing.status_code == 404
    assert "dure get devices" in missing.json()["remedy"]


def test_the_queues_answer_over_the_api_by_tenant_and_step(client: Client) -> None:
    items = client.get("/v1/queues", params={"since_s": NOW_S - 7200, "step_s": 600}).json()["items"]
    last = {one["tenant"]: one for one in items}
    assert sum(one["waiting"] for one in last.values()) == client.get("/v1/board").json()["waiting_count"]
    own = client.get("/v1/queues", params={"tenant": "vision"}).json()["items"]
    assert {one["tenant"] for one in own} == {"vision"}
    head = client.get("/v1/queues.csv").text.splitlines()[0]
    assert head == "tenant,at_s,waiting,oldest_s,admitted,admitted_per_hour,waited_s"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"step_s": "59"}, 400),
        ({"since_s": "1", "step_s": "60"}, 400),
        ({"since_s": "nan"}, 400),
        ({"since_s": str(NOW_S), "until_s": str(NOW_S - 1)}, 400),
        ({"until_s": "1e12"}, 200),
    ],
)
def test_queues_of_no_sensible_time_are_refused(client: Client, asked: dict[str, str], status: int) -> None:
    assert client.get("/v1/queues", params=asked).status_code == status


def test_the_past_goes_back_to_where_it_was_cut_off_and_says_so(client: Client, world: SmallWorld) -> None:
    cut_s = NOW_S - 300
    world.store.write_setting(PRUNED_SETTING, repr(cut_s))
    refused = client.get("/v1/past", params={"at_s": cut_s - 1})
    assert refused.status_code == 400
    assert f"{cut_s:.0f}" in refused.json()["detail"]
    assert client.get("/v1/past", params={"at_s": NOW_S}).json()["first_s"] == cut_s
    queues = client.get("/v1/queues", params={"since_s": NOW_S - 3600, "step_s": 60}).json()["items"]
    assert min(one["at_s"] for one in queues) >= cut_s
