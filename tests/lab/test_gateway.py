"""The gateway in front of a real Kueue: admission, rewriting, moves by label and by twin, every failure answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml
from msgspec.structs import replace

from dure.adapters.kube.rbac import NAMESPACE
from dure.adapters.kube.rest import Api
from dure.adapters.kube.rights import Account, may, rights
from dure.adapters.kueue import rbac
from dure.gateway.mover import GATE
from dure.gateway.process import Gateway
from dure.gateway.recovery import Recovery
from dure.gateway.settings import Settings
from dure.gateway.view import RANK_CLASS
from dure.model.errors import Permanent
from dure.route import chain
from dure.route.accepts import LightRule
from dure.route.reroute import Move
from dure.route.reroute import Settings as MoveSettings
from dure.route.situation import Alternative
from lab import Lab
from lab.cluster import Cluster
from lab.fixtures import LabFactory
from lab.rest import Json
from tests.kube.world import until
from tests.lab.kueue_objects import NODES, job, queues
from tests.lab.objects import has_condition

pytestmark = pytest.mark.lab

JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
CREATES_JOBS: Json = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}
TO_OTHER = "[{class: t4, queue: user-gpu-queue}, {class: t4b, queue: user-other-queue, estimate: 3}]"
TO_CPU = (
    "[{class: t4, queue: user-gpu-queue, estimate: 60}, {class: cpu, queue: user-cpu-queue, estimate: 3, "
    "resources: {nvidia.com/gpu: null}, env: {RUN_ENV: cpu}, annotations: {lab.dure.dev/run-seconds: '1'}}]"
)


TO_LESS = (
    "[{class: t4, queue: user-gpu-queue, estimate: 60}, "
    "{class: cpu, queue: user-cpu-queue, estimate: 3, resources: {nvidia.com/gpu: null}}]"
)


@pytest.fixture(scope="module")
def hub() -> Iterator[Cluster]:
    with Lab(["hub"], kueue={"hub"}) as lab:
        lab["hub"].add_nodes(NODES)
        lab["hub"].apply(*queues())
        lab["hub"].apply(*rbac.manifests())
        wait_allowed(lab["hub"], Account(NAMESPACE, rbac.ACCOUNT), *rbac.rules(), *rbac.order_rules())
        yield lab["hub"]


def wait_allowed(hub: Cluster, account: Account, *rules: Json, namespace: str = "") -> None:
    """A role counts a moment after it was written."""
    with Api.from_kubeconfig(hub.kubeconfig_path) as api:
        for _, given in rights(rules, namespace):
            for right in given:
                until(partial(may, api, right, account), right.words)


@pytest.fixture
def gateway(hub: Cluster) -> Iterator[tuple[Gateway, httpx.Client]]:
    """With the account that `dure render gateway` prints: whatever these tests do, its rights are enough for it."""
    with Api.from_kubeconfig(hub.kubeconfig_of(NAMESPACE, rbac.ACCOUNT)) as api:
        settings = Settings(light=LightRule(queue="user-cpu-queue"), reroute=MoveSettings(gain=0.0))
        made = Gateway(api, settings, everybody=True)
        with httpx.Client(base_url=made.start(), trust_env=False, timeout=30.0) as client:
            yield made, client
        made.stop()
    hub.kubectl("delete", "jobs", "--all", "--wait=true")


def submit(client: httpx.Client, *jobs: object, **params: str) -> httpx.Response:
    return client.post("/v1/jobs", content=yaml.safe_dump_all(jobs), params=params)


def test_a_job_is_admitted_and_its_choice_is_told(hub: Cluster, gateway: tuple[Gateway, httpx.Client]) -> None:
    _, client = gateway
    [answer] = submit(client, job("one", run_s=1)).json()["jobs"]
    assert (answer["queue"], answer["created"]) == ("user-gpu-queue", True)
    assert answer["figures"]["gpu-cluster-queue"]["active"]
    hub.api.until(f"{JOBS}/one", has_condition("Complete"), what="the job")
    assert client.get("/v1/jobs/default/one/why").json()["journal"][0]["what"] == "chosen"
    repeated = submit(client, job("one"))
    assert repeated.status_code == 409
    assert b"dure_gateway_jobs_total" in client.get("/metrics").content


def test_the_quota_is_told_in_the_published_form_and_in_ours(gateway: tuple[Gateway, httpx.Client]) -> None:
    _, client = gateway
    told = client.get("/quota").json()
    assert (told["quota"], told["resource"], told["available"] + told["reserved"]) == (4, "nvidia.com/gpu", 4)
    memory = client.get(
        "/quota", params={"clusterqueue": "cpu-cluster-queue", "flavor": "cpu-flavor", "resource": "memory"}
    )
    assert memory.json()["quota"] == 60 * 2**30
    assert client.get("/quota", params={"clusterqueue": "none"}).status_code == 404
    assert client.get("/workloads").json()["clusterqueue"] == "gpu-cluster-queue"
    ours = client.get("/v1/queues").json()
    assert (ours["stale_s"], ours["api_version"]) == (0.0, "v1beta2")
    assert {one["name"] for one in ours["cluster_queues"]} >= {"gpu-cluster-queue", "cpu-cluster-queue"}
    assert len(ours["local_queues"]) == 3


def test_a_dry_run_creates_nothing_and_an_idempotency_key_creates_once(
    hub: Cluster, gateway: tuple[Gateway, httpx.Client]
) -> None:
    _, client = gateway
    [planned] = submit(client, job("dry"), dryRun="true").json()["jobs"]
    assert not planned["created"]
    assert planned["job"]["spec"]["suspend"]
    assert hub.api.get(JOBS)["items"] == []
    first, second = (
        client.post("/v1/jobs", content=json.dumps(job("once")), headers={"Idempotency-Key": "k"}) for _ in range(2)
    )
    assert (first.json()["jobs"][0]["created"], second.json()["jobs"][0]["repeated"]) == (True, True)
    assert first.json()["jobs"][0]["uid"] == second.json()["jobs"][0]["uid"]


def test_the_published_endpoint_takes_a_form(gateway: tuple[Gateway, httpx.Client]) -> None:
    _, client = gateway
    answer = client.post("/job-submit", files={"job_file": ("job.yaml", yaml.safe_dump(job("form-gpu", light=True)))})
    assert answer.json()["queued"] == "user-gpu-queue"
    static = client.post("/job-submit-no-eval", files={"job_file": ("job.yaml", yaml.safe_dump(job("form-2")))})
    assert static.json()["queued"] == "user-gpu-queue"


def test_a_mistake_in_the_last_document_creates_nothing(hub: Cluster, gateway: tuple[Gateway, httpx.Client]) -> None:
    _, client = gateway
    wrong = job("second")
    wrong["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nowhere"
    answer = submit(client, job("first"), wrong)
    assert answer.status_code == 404
    assert "nowhere" in answer.json()["detail"]
    assert "user-gpu-queue" in answer.json()["remedy"]
    assert hub.api.get(JOBS)["items"] == []


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"kind: Pod\napiVersion: v1\n", 400, "expected a batch/v1 Job"),
        (b"{", 400, "neither YAML nor JSON"),
        (b"", 400, "0 documents"),
        (b"a: " + b"x" * (10 * 1024 * 1024), 413, ""),
    ],
    ids=["a pod", "half a document", "nothing", "ten megabytes"],
)
def test_nonsense_is_refused_clearly(
    gateway: tuple[Gateway, httpx.Client], body: bytes, status: int, word: str
) -> None:
    answer = gateway[1].post("/v1/jobs", content=body)
    assert answer.status_code == status
    assert word in answer.json()["detail"]


def test_waiting_jobs_move_by_label(hub: Cluster, gateway: tuple[Gateway, httpx.Client]) -> None:
    made, client = gateway
    for number in range(4):
        assert submit(client, job(f"fill-{number}", run_s=600, estimate=600)).status_code == 201
    hub.api.until(JOBS, lambda found: all(not one["spec"]["suspend"] for one in found["items"]), what="admission")
    moving = job("moving", run_s=1, accepts=TO_OTHER)
    [answer] = submit(client, moving, policy="static").json()["jobs"]
    assert answer["queue"] == "user-gpu-queue"
    hub.api.until(f"{JOBS}/moving", has_condition("Complete"), what="the moved job")
    assert hub.api.get(f"{JOBS}/moving")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "user-other-queue"
    assert made.journal.of("default", "moving")[-1].rule in ("label", "finished")


def test_a_job_that_needs_another_environment_is_made_anew_exactly_once(
    hub: Cluster, gateway: tuple[Gateway, httpx.Client]
) -> None:
    made, client = gateway
    for number in range(4):
        submit(client, job(f"fill-{number}", run_s=600, estimate=600))
    hub.api.until(JOBS, lambda found: all(not one["spec"]["suspend"] for one in found["items"]), what="admission")
    submit(client, job("anew", run_s=600, accepts=TO_CPU), policy="static")
    hub.api.until(f"{JOBS}/anew-m1", lambda found: GATE not in found["metadata"]["annotations"], what="the open twin")
    names = [one["metadata"]["name"] for one in hub.api.get(JOBS)["items"]]
    assert [name for name in names if name.startswith("anew")] == ["anew-m1"]
    name = "anew-m1"
    found = hub.api.until(f"{JOBS}/{name}", has_condition("Complete"), what="the twin")
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "RUN_ENV", "value": "cpu"}]
    assert "nvidia.com/gpu" not in container["resources"]["requests"]
    assert [entry.what for entry in made.journal.of("default", "anew")] == ["chosen", "moved"]


def test_a_job_that_started_meanwhile_is_not_made_anew(hub: Cluster, gateway: tuple[Gateway, httpx.Client]) -> None:
    made, client = gateway
    made.desk.settings = replace(made.desk.settings, moves=False)
    submit(client, job("started", run_s=600, accepts=TO_CPU), policy="static")
    hub.api.until(f"{JOBS}/started", lambda found: not found["spec"]["suspend"], what="admission")
    route = made.desk.routes["default/started"]
    assert not made.mover._carry_out(_as_move(route.candidate.alternatives[1]))
    assert [one["metadata"]["name"] for one in hub.api.get(JOBS)["items"]] == ["started"]


def test_a_gated_twin_left_by_a_crash_is_settled(hub: Cluster, gateway: tuple[Gateway, httpx.Client]) -> None:
    made, _ = gateway
    gate = {"kueue.x-k8s.io/admission-gated-by": "dure.dev/move", "dure.dev/twin-of": "gone/some-uid"}
    orphan = job("orphan", run_s=1)
    orphan["metadata"]["annotations"].update(gate)
    orphan["metadata"]["labels"]["dure.dev/gateway"] = "dure"
    hub.api.post(JOBS, orphan)
    Recovery(made.desk).run()
    hub.api.until(f"{JOBS}/orphan", has_condition("Complete"), what="the opened twin")


def test_the_callers_own_rights_decide(hub: Cluster) -> None:
    hub.kubectl("create", "serviceaccount", "nobody")
    token = hub.kubectl("create", "token", "nobody").strip()
    with Api.from_kubeconfig(hub.kubeconfig_of(NAMESPACE, rbac.ACCOUNT)) as api:
        made = Gateway(api, Settings(moves=False))
        with httpx.Client(base_url=made.start(), trust_env=False, timeout=30.0) as client:
            assert submit(client, job("x")).status_code == 401
            answer = client.post(
                "/v1/jobs", content=json.dumps(job("x")), headers={"Authorization": f"Bearer {token}"}
            )
            assert answer.status_code == 403
            assert "nobody" in answer.json()["detail"]
            hub.kubectl("create", "role", "jobs", "--verb=create", "--resource=jobs.batch")
            hub.kubectl("create", "rolebinding", "jobs", "--role=jobs", "--serviceaccount=default:nobody")
            wait_allowed(hub, Account("default", "nobody"), CREATES_JOBS, namespace="default")
            allowed = client.post(
                "/v1/jobs", content=json.dumps(job("x", run_s=1)), headers={"Authorization": f"Bearer {token}"}
            )
            assert allowed.status_code == 201
        made.stop()


def fill_the_gpus(hub: Cluster, client: httpx.Client) -> None:
    for number in range(4):
        assert submit(client, job(f"fill-{number}", run_s=600, estimate=600)).status_code == 201
    hub.api.until(JOBS, lambda found: all(not one["spec"]["suspend"] for one in found["items"]), what="admission")


def test_a_move_that_changes_resources_only_is_one_patch(hub: Cluster, gateway: tuple[Gateway, httpx.Client]) -> None:
    made, client = gateway
    fill_the_gpus(hub, client)
    [uid] = [
        one["uid"] for one in submit(client, job("thin", run_s=1, accepts=TO_LESS), policy="static").json()["jobs"]
    ]
    found = hub.api.until(f"{JOBS}/thin", has_condition("Complete"), what="the moved job")
    assert found["metadata"]["uid"] == uid
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert "nvidia.com/gpu" not in container["resources"]["requests"]
    assert "resources" in [entry.rule for entry in made.journal.of("default", "thin")]


def test_a_planned_order_becomes_priorities_that_kueue_takes(
    hub: Cluster, gateway: tuple[Gateway, httpx.Client]
) -> None:
    """Light jobs go to the CPUs, which leaves the GPUs room to serve the others so that they end together."""
    _, client = gateway
    slower = TO_LESS.replace("estimate: 60", "estimate: 26").replace("estimate: 3", "estimate: 60")

    def ranked() -> bool:
        found = hub.api.get(WORKLOADS)["items"]
        return any(
            one["spec"]["priority"] == int(name.removeprefix(RANK_CLASS)) > 0
            for one in found
            if (name := (one["spec"].get("priorityClassRef") or {}).get("name", "")).startswith(RANK_CLASS)
        )

    for number in range(15):
        for kind, run_s, accepts in ((f"heavy-{number % 3}", 30 + 4 * (number % 3), ""), ("light", 26, slower)):
            made = job(f"{kind}-{number}", run_s=run_s, accepts=accepts, estimate=None if accepts else run_s)
            made["metadata"]["annotations"]["dure.dev/kind"] = kind
            assert submit(client, made).status_code == 201
    until(ranked, "a Workload with the priority of its place")


def test_the_chain_moves_by_what_it_weighs(hub: Cluster) -> None:
    weighed = chain.Settings(per_carbon=1e6, watts={"t4": 70.0, "cpu": 1.0})
    with Api.from_kubeconfig(hub.kubeconfig_path) as api:
        made = Gateway(api, Settings(policy="chain", chain=weighed), everybody=True)
        with httpx.Client(base_url=made.start(), trust_env=False, timeout=60.0) as client:
            fill_the_gpus(hub, client)
            submit(client, job("green", run_s=600, accepts=TO_CPU), policy="static")
            hub.api.until(f"{JOBS}/green-m1", has_condition("Complete"), what="the job moved by the chain")
            why = made.journal.of("default", "green")[-1].because
        made.stop()
    assert "carbon" in why
    hub.kubectl("delete", "jobs", "--all", "--wait=true")


def test_jobs_of_before_a_restart_are_still_moved_and_durations_known(hub: Cluster, tmp_path: Path) -> None:
    with Api.from_kubeconfig(hub.kubeconfig_path) as api:
        first = Gateway(api, Settings(moves=False), tmp_path, everybody=True)
        with httpx.Client(base_url=first.start(), trust_env=False, timeout=60.0) as client:
            fill_the_gpus(hub, client)
            submit(client, job("patient", run_s=600, accepts=TO_CPU), policy="static")
        first.memory.learn("test", "t4", 42.0)
        first.stop()
        second = Gateway(api, Settings(), tmp_path, everybody=True)
        second.start()
        assert second.memory.durations.quantile("test", "t4", 0.5) == 42.0
        assert all(second.desk.view.kind(f"default/fill-{number}") for number in range(4))
        hub.api.until(f"{JOBS}/patient-m1", has_condition("Complete"), what="the job of before the restart")
        second.stop()
    hub.kubectl("delete", "jobs", "--all", "--wait=true")


def test_two_gateways_at_once_create_each_job_once(hub: Cluster) -> None:
    with Api.from_kubeconfig(hub.kubeconfig_path) as api:
        both = [Gateway(api, Settings(name=name), everybody=True) for name in ("one", "two")]
        clients = [httpx.Client(base_url=made.start(), trust_env=False, timeout=60.0) for made in both]
        statuses = [submit(client, job("same", run_s=600)).status_code for client in clients]
        assert sorted(statuses) == [201, 409]
        submit(clients[0], job("mine", run_s=600, accepts=TO_CPU), policy="static")
        assert "default/mine" not in both[1].desk.routes
        for client, made in zip(clients, both, strict=True):
            client.close()
            made.stop()
    hub.kubectl("delete", "jobs", "--all", "--wait=true")


def test_without_an_api_server_the_answer_is_to_try_again_and_nothing_is_lost(
    hub: Cluster, gateway: tuple[Gateway, httpx.Client]
) -> None:
    _, client = gateway
    hub.kill("kube-apiserver")
    refused = submit(client, job("later", run_s=1))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    hub.start("kube-apiserver")
    assert submit(client, job("later", run_s=1)).status_code == 201
    hub.api.until(f"{JOBS}/later", has_condition("Complete"), what="the job after the API server came back")


def test_a_namespace_without_a_local_queue_is_named(gateway: tuple[Gateway, httpx.Client]) -> None:
    lost = job("lost")
    lost["metadata"]["namespace"] = "kube-public"
    answer = submit(gateway[1], lost)
    assert (answer.status_code, answer.json()["remedy"]) == (404, "This namespace has no LocalQueue.")


def _as_move(to: Alternative) -> Move:
    return Move("default/started", "user-gpu-queue", "user-cpu-queue", "cpu", to, 9.0, 1.0, "a test")


def test_kueue_that_is_not_there_is_named(lab_factory: LabFactory) -> None:
    bare = lab_factory(["bare"], off={"bare": {"kwok", "kube-scheduler", "kube-controller-manager"}})["bare"]
    with Api.from_kubeconfig(bare.kubeconfig_path) as api, pytest.raises(Permanent, match="Kueue is not installed"):
        Gateway(api, Settings())
