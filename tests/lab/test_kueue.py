"""Real Kueue beside a lab cluster: webhooks called, Jobs admitted within the quota."""

import pytest

from lab.cluster import Cluster
from lab.errors import LabError
from lab.fixtures import LabFactory
from lab.kueue import local_webhooks
from lab.rest import Json
from tests.lab.objects import GPU_NODES, has_condition, job

KUEUE = "kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def queues(gpus: int) -> list[Json]:
    resource = {"name": "nvidia.com/gpu", "nominalQuota": gpus}
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "any", "resources": [resource]}]}
    return [
        {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "any"}},
        {
            "apiVersion": KUEUE,
            "kind": "ClusterQueue",
            "metadata": {"name": "gpu"},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": KUEUE,
            "kind": "LocalQueue",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"clusterQueue": "gpu"},
        },
    ]


def test_only_webhooks_of_installed_kinds_stay_and_they_call_loopback() -> None:
    def hook(name: str, group: str) -> Json:
        return {
            "name": name,
            "clientConfig": {"service": {"name": "svc", "path": f"/{name}"}},
            "rules": [{"apiGroups": [group]}],
        }

    found = {"metadata": {"name": "mutating"}, "webhooks": [hook("job", "batch"), hook("ray", "ray.io")]}
    local = local_webhooks(found, "https://127.0.0.1:9", "Q0E=")
    assert local["metadata"]["name"] == "kueue-mutating"
    [kept] = local["webhooks"]
    assert kept["clientConfig"] == {"url": "https://127.0.0.1:9/job", "caBundle": "Q0E="}


@pytest.mark.lab
def test_kueue_admits_jobs_within_the_quota_one_after_the_other(lab_factory: LabFactory) -> None:
    hub: Cluster = lab_factory(["hub"], kueue={"hub"})["hub"]
    hub.add_nodes(GPU_NODES)
    hub.apply(*queues(gpus=4))
    for name in ("one", "two"):
        made = hub.api.post(JOBS, job(name, run_seconds="2", queue="team", gpus=4))
        assert made["spec"]["suspend"], "the webhook suspends a Job that has a queue"
    done = [hub.api.until(f"{JOBS}/{name}", has_condition("Complete"), what=name) for name in ("one", "two")]
    starts = sorted(found["status"]["startTime"] for found in done)
    ends = sorted(found["status"]["completionTime"] for found in done)
    assert starts[1] >= ends[0], "the quota has room for one at a time"
    with pytest.raises(LabError, match=r"unknown field|[Ii]nvalid"):
        hub.apply({**queues(1)[1], "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]}})
