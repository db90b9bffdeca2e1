"""`apply` and `diff`: what documents would change, changing it once, refusing what cannot change."""

from __future__ import annotations

from tests.unit.api.clients import Client
from tests.unit.api.small_world import SmallWorld
from tests.unit.api.test_workloads import AS_YAML
from tests.unit.api.test_workloads import YAML as WORKLOAD

TENANT = """
apiVersion: dure.dev/v1alpha1
kind: Tenant
metadata: {name: search}
spec: {weight: 9}
"""


def test_a_diff_names_the_fields_and_writes_nothing(client: Client, world: SmallWorld) -> None:
    before = world.store.list_tenants()
    step, create = client.post("/v1/diff", content=f"{TENANT}---{WORKLOAD}", headers=AS_YAML).json()["steps"]
    assert (step["kind"], step["name"], step["action"]) == ("Tenant", "search", "change")
    assert {"path": "weight", "before": "3.0", "after": "9.0"} in step["fields"]
    assert (create["kind"], create["action"]) == ("Workload", "create")
    assert world.store.list_tenants() == before


def test_applying_twice_changes_nothing_the_second_time(client: Client, world: SmallWorld) -> None:
    body = f"{TENANT}---{WORKLOAD}"
    assert client.post("/v1/apply", content=body, headers=AS_YAML).json()["changed"] is True
    assert next(tenant for tenant in world.store.list_tenants() if tenant.name == "search").weight == 9
    again = client.post("/v1/apply", content=body, headers=AS_YAML).json()
    assert again["changed"] is False
    assert {step["action"] for step in again["steps"]} == {"keep"}


def test_a_submitted_workload_does_not_change_and_then_nothing_is_applied(client: Client, world: SmallWorld) -> None:
    client.post("/v1/apply", content=WORKLOAD, headers=AS_YAML)
    changed = WORKLOAD.replace("2h", "3h")
    answer = client.post("/v1/apply", content=f"{TENANT}---{changed}", headers=AS_YAML)
    assert answer.status_code == 409
    assert "dure cancel night-run" in answer.json()["remedy"]
    assert next(tenant for tenant in world.store.list_tenants() if tenant.name == "search").weight == 3


def test_several_documents_are_not_one_workload(client: Client) -> None:
    answer = client.post("/v1/plan", content=f"{TENANT}---{WORKLOAD}", headers=AS_YAML)
    assert (answer.status_code, answer.json()["remedy"]) == (400, "Send several documents to /v1/apply.")
