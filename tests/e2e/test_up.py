"""Dure as its user meets it: started as a process, asked through the command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import Callable

import pytest

from tests.e2e.conftest import Up

pytestmark = pytest.mark.xdist_group("up")

WORKLOAD = """
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: vision}}
spec:
  type: batch
  classes: [{{name: t4, speed: 1.0}}, {{name: a10g, speed: 2.0}}]
  demand: {{memory: {memory}, compute: 50%}}
  duration: 20min
"""


def test_one_line_with_the_address_is_printed(up: Up) -> None:
    assert up.line.startswith("Dure is running: http://127.0.0.1:")
    assert "/login?code=" in up.line


def test_the_token_is_for_its_owner_only(up: Up) -> None:
    assert stat.S_IMODE(os.stat(up.state / "token").st_mode) == 0o600


def test_status_counts_every_device_of_the_demo_fleet(up: Up) -> None:
    found = json.loads(up.dure("status", "--json").stdout)
    assert len(found["clusters"]) == 4
    assert found["totals"]["devices"] == sum(cluster.get("devices", 0) for cluster in found["clusters"]) > 100
    assert up.dure("status").stdout.splitlines()[0].startswith("demo: ")


@pytest.mark.parametrize(
    "kind", ["workloads", "clusters", "pools", "devices", "classes", "tenants", "decisions", "events"]
)
def test_every_list_is_a_table_and_json_and_yaml(up: Up, kind: str) -> None:
    items = json.loads(up.dure("get", kind, "-o", "json").stdout)
    assert items
    table = up.dure("get", kind)
    assert table.returncode == 0
    assert len(table.stdout.splitlines()) > 1
    assert up.dure("get", kind, "-o", "wide").returncode == 0
    assert up.dure("get", kind, "-o", "yaml").stdout.startswith("- ")


def test_a_workload_is_submitted_explained_and_cancelled(up: Up) -> None:
    sent = up.dure("submit", "-f", "-", stdin=WORKLOAD.format(name="mine", memory="4GiB"))
    assert sent.returncode == 0, sent.stderr
    assert "dure why mine" in sent.stdout
    again = up.dure("submit", "-f", "-", stdin=WORKLOAD.format(name="mine", memory="4GiB"))
    assert again.returncode == 5, "a second one of that name is a conflict"
    why = up.dure("why", "mine")
    assert why.stdout.startswith("mine  batch, tenant vision: ")
    assert up.dure("cancel", "mine").stdout == "mine cancelled.\n"
    assert json.loads(up.dure("get", "workloads", "mine", "--json").stdout)["status"]["phase"] == "cancelled"
    log = up.dure("logs", "mine").stdout
    assert "Submitted" in log
    assert "Cancelled" in log


def test_advice_is_computed_from_what_this_fleet_did(up: Up) -> None:
    found = json.loads(up.dure("advise", "--json").stdout)
    while all(one["micros_per_month"] is None for one in found["savings"]):
        assert all("an hour is needed" in one["finding"] for one in found["savings"])
        found = json.loads(up.dure("advise", "--json").stdout)
    assert found["record_s"] >= 3600
    by_name = {one["name"]: one for one in found["savings"]}
    assert list(by_name) == ["spot", "consolidation", "right-sizing", "off-hours"]
    pools = {
        f"{pool['cluster']}/{pool['name']}": pool for pool in json.loads(up.dure("get", "pools", "--json").stdout)
    }
    for step in by_name["consolidation"]["plan"]:
        pool = pools[step.partition(":")[0]]
        assert f"{pool['nodes']} nodes" in step
    assert all(one["micros_per_month"] is None or one["micros_per_month"] >= 0 for one in found["savings"])
    assert any(one["micros_per_month"] for one in found["savings"]), "an hour of the demo fleet leaves something"
    told = up.dure("advise")
    assert [line.split()[0] for line in told.stdout.splitlines() if line[:1].isalpha()] == list(by_name)
    assert "own record" in told.stderr


def test_a_plan_lists_options_with_cost_and_carbon_and_does_nothing(up: Up) -> None:
    planned = up.dure("plan", "-f", "-", "--json", stdin=WORKLOAD.format(name="asked", memory="4GiB"))
    (plan,) = json.loads(planned.stdout)
    chosen = [option for option in plan["options"] if option.get("chosen")]
    assert len(chosen) == 1
    assert chosen[0]["bill"]["direct"] > 0
    assert up.dure("get", "workloads", "asked").returncode == 4
    text = up.dure("plan", "-f", "-", stdin=WORKLOAD.format(name="asked", memory="4GiB")).stdout
    assert "Nothing was changed." in text


def test_the_doctor_finds_all_well_and_the_top_shows_every_cluster(up: Up) -> None:
    looked = up.dure("doctor", "--json")
    assert looked.returncode == 0, looked.stdout
    checks = {one["check"]: one["level"] for one in json.loads(looked.stdout)}
    assert {"disk": "ok", "token": "ok", "server": "ok", "version": "ok", "ready": "ok"}.items() <= checks.items()
    shown = up.dure("top", "--once").stdout
    assert all(cluster["name"] in shown for cluster in json.loads(up.dure("status", "--json").stdout)["clusters"])


def test_a_bill_adds_up_to_what_was_spent(up: Up) -> None:
    # Soon after the start nothing is charged yet, and what the status shows may be a moment older than the bill.
    billed = spent = 0
    for _ in range(40):
        billed = billed or sum(row["micros"] for row in json.loads(up.dure("bill", "--json").stdout))
        spent = json.loads(up.dure("status", "--json").stdout)["totals"].get("spent_micros", 0)
        if 0 < billed <= spent:
            break
    assert 0 < billed <= spent
    assert up.dure("bill", "--csv").stdout.startswith("day,tenant,cluster,micros,carbon_g")
    assert up.dure("bill", "--month", "never").returncode == 2


def test_an_impossible_demand_is_refused_before_it_is_sent(up: Up) -> None:
    refused = up.dure("submit", "-f", "-", stdin=WORKLOAD.format(name="big", memory="400GiB"))
    assert refused.returncode == 2
    assert "GiB" in refused.stderr
    assert refused.stdout == ""


def test_apply_shows_and_makes_changes_and_diff_only_shows_them(up: Up) -> None:
    tenant = "apiVersion: dure.dev/v1alpha1\nkind: Tenant\nmetadata: {name: robotics}\nspec: {weight: 2}\n"
    shown = up.dure("diff", "-f", "-", stdin=tenant)
    assert shown.stdout.startswith("+ Tenant robotics"), shown.stderr
    assert up.dure("get", "tenants", "robotics").returncode == 4
    assert up.dure("apply", "-f", "-", stdin=tenant).returncode == 0
    assert json.loads(up.dure("get", "tenants", "robotics", "--json").stdout)["weight"] == 2
    assert up.dure("diff", "-f", "-", stdin=tenant).stdout.startswith("= Tenant robotics")


def test_unknown_names_are_not_found_and_name_the_nearest(up: Up) -> None:
    asked = up.dure("why", "search-chatt")
    assert asked.returncode == 4
    assert "search-chat" in asked.stderr


def test_without_a_server_the_answer_says_how_to_start_one(up: Up) -> None:
    asked = up.dure("status", "--state", str(up.state / "nowhere"))
    assert asked.returncode == 6
    assert "dure up" in asked.stderr


def test_a_taken_port_is_said_and_the_next_one_used(start_up: Callable[..., Up]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = start_up("--port", str(port))
        assert server.url != f"http://127.0.0.1:{port}"
        code, said = server.stop()
    assert code == 0
    assert f"Port {port} is taken" in said


def test_a_second_one_on_the_same_state_is_told_who_has_it(start_up: Callable[..., Up]) -> None:
    first = start_up("--port", "0")
    second = start_up("--port", "0")
    code, said = second.stop()
    assert code == 5
    assert str(first.process.pid) in said


def test_it_goes_on_from_its_state_after_a_clean_stop_and_after_a_kill(start_up: Callable[..., Up]) -> None:
    server = start_up("--port", "0")
    server.dure("submit", "-f", "-", stdin=WORKLOAD.format(name="kept", memory="4GiB"))
    before = json.loads(server.dure("status", "--json").stdout)["now_s"]
    code, said = server.stop(signal.SIGINT)
    assert code == 0
    assert "Stopped" in said
    again = start_up("--port", "0")
    assert again.dure("get", "workloads", "kept").returncode == 0
    again.stop(signal.SIGKILL)
    third = start_up("--port", "0")
    assert third.dure("get", "workloads", "kept").returncode == 0
    now = json.loads(third.dure("status", "--json").stdout)["now_s"]
    assert now >= before, "the fleet's clock never goes back"


def test_defrag_shows_a_plan_or_a_reason_for_every_cluster_and_carries_it_out_on_demand(up: Up) -> None:
    shown = up.dure("defrag", "--wait", "120", "--json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)["clusters"]
    assert len(found) == 4
    assert all(one["plan"]["moves"] if one["state"] == "planned" else one["note"] for one in found)
    assert {one["state"] for one in found} <= {"planned", "nothing-to-do"}
    table = up.dure("defrag", "--wait", "120").stdout
    assert [line.partition(":")[0] for line in table.splitlines() if not line.startswith((" ", "Nothing"))] == [
        one["cluster"] for one in found
    ]
    done = json.loads(up.dure("defrag", "--apply", "--wait", "240", "--json").stdout)["clusters"]
    assert {one["state"] for one in done} <= {"moved", "dropped", "nothing-to-do"}
    assert {one["wish"] for one in done}.isdisjoint(one["wish"] for one in found)
    unknown = up.dure("defrag", "--cluster", "seoul-onpremm")
    assert unknown.returncode == 4
    assert "Did you mean 'seoul-onprem'?" in unknown.stderr
