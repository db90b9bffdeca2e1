"""What `render` makes has none of the traps that `lint` knows, and is the same every time."""

from __future__ import annotations

import json

import msgspec
import pytest
import yaml

from dure.files.builtin import catalogue, demo_fleet, instances
from dure.files.dump import dump_yaml
from dure.files.manifests import read_source
from dure.manifest.document import Json
from dure.manifest.lint import lint
from dure.manifest.render import Setting, render
from dure.model.accelerator import ShareMode
from dure.model.demand import Demand
from dure.model.fleet import ClusterSpec
from dure.model.tariff import Capacity
from dure.model.tenant import Isolation, Role, Tenant
from dure.model.workload import AcceptedClass, Replicas, Workload, WorkloadType

FLEET = demo_fleet()
TEMPLATE = {
    "spec": {
        "containers": [
            {
                "name": "server",
                "image": "vllm/vllm-openai:v0.18.0",
                "ports": [{"name": "http", "containerPort": 8000}],
            }
        ]
    }
}
CHAT = Workload(
    name="chat",
    tenant="search",
    type=WorkloadType.SERVING,
    classes=(AcceptedClass("a10g"),),
    demand=Demand(devices=1, cpu_milli=4000, host_memory_mib=32768),
    replicas=Replicas(2, 10),
    interruptible=True,
    template=json.dumps(TEMPLATE),
)
PEOPLE = Tenant("team", quota={"a10g": 4}, borrow=False, roles={"ann": Role.ADMIN, "bob": Role.SUBMITTER})


def setting(cluster: ClusterSpec, scaler: str = "keda", hour: int = 0) -> Setting:
    return Setting(
        cluster,
        catalogue().classes,
        instances(),
        (*FLEET.tenants, PEOPLE),
        (CHAT,),
        office_start_utc_h=hour,
        scaler=scaler,
    )


def objects(made: Setting) -> list[Json]:
    return [each for part in render(made).values() for each in part]


def of(kind: str, made: list[Json]) -> list[Json]:
    return [each for each in made if each["kind"] == kind]


def cluster(name: str) -> ClusterSpec:
    found = FLEET.cluster(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", [each.info.name for each in FLEET.clusters])
@pytest.mark.parametrize("scaler", ["keda", "hpa"])
@pytest.mark.parametrize("hour", [0, 9, -10, 21])
def test_no_trap_is_in_what_is_rendered(name: str, scaler: str, hour: int) -> None:
    text = dump_yaml(objects(setting(cluster(name), scaler, hour)))
    found = lint(list(read_source(text, "rendered.yaml").documents), instances())
    assert [(each.code, each.path, each.message) for each in found] == []


def test_the_same_fleet_gives_the_same_bytes() -> None:
    one, other = (dump_yaml(objects(setting(cluster("cloud-kr")))) for _ in range(2))
    assert one == other


def test_only_rented_pools_become_node_pools_each_with_its_own_taints() -> None:
    assert of("NodePool", objects(setting(cluster("seoul-onprem")))) == []
    pools = {each["metadata"]["name"]: each for each in of("NodePool", objects(setting(cluster("cloud-kr"))))}
    assert set(pools) == {"a10g", "a10g-spot", "l4"}
    spot = pools["a10g-spot"]["spec"]
    assert {taint["key"] for taint in spot["template"]["spec"]["taints"]} == {
        "nvidia.com/gpu", "karpenter.sh/capacity-type",
    }  # fmt: skip
    assert spot["limits"] == {"nvidia.com/gpu": 48}


@pytest.mark.parametrize(("hour", "schedule"), [(0, "0 0 * * 1-5"), (17, "0 17 * * 1-5"), (-3, "0 21 * * 0-4")])
def test_office_hours_are_written_in_utc_with_the_day_they_fall_on(hour: int, schedule: str) -> None:
    [pool, *_] = of("NodePool", objects(setting(cluster("cloud-us"), hour=hour)))
    assert pool["spec"]["disruption"]["budgets"][1]["schedule"] == schedule


def test_a_serving_that_may_be_interrupted_is_ready_for_a_spot_notice() -> None:
    made = objects(setting(cluster("cloud-kr")))
    [deployment] = of("Deployment", made)
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] < 120
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    [scaled] = of("ScaledObject", made)
    assert scaled["spec"]["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
    assert of("HorizontalPodAutoscaler", made) == []


@pytest.mark.parametrize("port", [{"name": "http", "containerPort": 8000}, {"containerPort": 8000}])
def test_what_the_autoscaler_asks_for_is_scraped(port: Json) -> None:
    template = {"spec": {"containers": [{**TEMPLATE["spec"]["containers"][0], "ports": [port]}]}}
    chat = msgspec.structs.replace(CHAT, template=json.dumps(template))
    made = objects(msgspec.structs.replace(setting(cluster("cloud-kr")), workloads=(chat,)))
    [deployment], [monitor] = of("Deployment", made), of("PodMonitor", made)
    assert monitor["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    chosen = monitor["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint.get("port") == port.get("name")
    assert endpoint.get("portNumber") == (None if "name" in port else 8000)


def test_a_tenant_that_may_not_borrow_has_walls_of_its_quota() -> None:
    made = [
        each for each in objects(setting(cluster("cloud-kr"))) if each["metadata"].get("namespace") == "dure-team"
    ]
    [quota] = of("ResourceQuota", made)
    assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "4"
    assert [each["roleRef"]["name"] for each in of("RoleBinding", made)] == ["admin", "edit"]
    [queue] = [each for each in objects(setting(cluster("cloud-kr"))) if each["metadata"]["name"] == "dure-team"][-1:]
    flavors = queue["spec"]["resourceGroups"][0]["flavors"]
    assert [(each["name"], each["resources"][0]["nominalQuota"]) for each in flavors] == [("a10g", 4), ("l4", 0)]
    assert all(each["resources"][0]["borrowingLimit"] == 0 for each in flavors)


def test_a_class_that_no_instance_type_has_is_chosen_by_the_pools_own_labels() -> None:
    [pool, *_] = cluster("cloud-kr").pools
    odd = msgspec.structs.replace(
        pool, class_name="rngd", capacity=Capacity.ON_DEMAND, share=(ShareMode.EXCLUSIVE,), selector={"shelf": "7"}
    )
    spec = msgspec.structs.replace(cluster("cloud-kr"), pools=(odd,))
    [made] = of("NodePool", objects(setting(spec)))
    keys = [each["key"] for each in made["spec"]["template"]["spec"]["requirements"]]
    assert "shelf" in keys
    assert "karpenter.k8s.aws/instance-family" not in keys


def test_a_tenant_with_a_virtual_cluster_has_its_mark_and_values_and_no_rights_in_the_host() -> None:
    roles = {"anna": Role.ADMIN}
    own = Tenant("robots", isolation=Isolation.OWN_CLUSTER, roles=roles)
    plain = Tenant("vision", isolation=Isolation.OWN_NODE, roles=roles)
    spec = demo_fleet().clusters[0]
    made = objects(msgspec.structs.replace(setting(spec), tenants=(own, plain)))
    of = {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in made}
    assert of["Namespace", "", "dure-robots"]["metadata"]["labels"]["dure.dev/isolation"] == "own-virtual-cluster"
    assert "dure.dev/isolation" not in of["Namespace", "", "dure-vision"]["metadata"]["labels"]
    assert [key for key in of if key[0] == "RoleBinding"] == [("RoleBinding", "dure-vision", "dure-admin")]
    values = yaml.safe_load(of["ConfigMap", "dure-robots", "dure-vcluster"]["data"]["values.yaml"])
    assert values["exportKubeConfig"]["additionalSecrets"] == [{"name": "dure-virtual-cluster"}]
