"""A real node: containers that compute, logs and exec, and nothing that is left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cgroups, images
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.rest import Json
from tests.lab.objects import phase_is
from tests.lab.test_faults import ROOT, wait_gone

pytestmark = [pytest.mark.lab, pytest.mark.real_node]

PODS = "/api/v1/namespaces/default/pods"

PARENT = """
import json, signal, sys
from pathlib import Path
from lab import Lab

lab = Lab(["solo"], folder=Path(sys.argv[1]), real_nodes={"solo": 1})
lab.start()
solo = lab["solo"]
solo.apply(json.loads(sys.argv[2]))
pods = "/api/v1/namespaces/default/pods/left"
solo.api.until(pods, lambda pod: pod["status"].get("phase") == "Running", what="a running pod")
node = solo.real[0]
print(json.dumps({"keeper": int((node.folder / "keeper.pid").read_text()), "cgroup": node.cgroup}), flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Lab(["real"], real_nodes={"real": 1}) as lab:
        yield lab["real"]


def shell(name: str, script: str, **more: object) -> Json:
    container = {
        "name": "main",
        "image": images.SANDBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", script],
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_a_container_runs_to_its_end_and_its_logs_can_be_read(cluster: Cluster) -> None:
    cluster.apply(shell("sum", "echo $((6 * 7))"))
    cluster.api.until(f"{PODS}/sum", phase_is("Succeeded"), what="the end of the pod")
    assert cluster.kubectl("logs", "sum") == "42\n"


def test_one_can_look_into_a_running_container_which_has_an_address_of_its_own(cluster: Cluster) -> None:
    cluster.apply(shell("open", "echo $HOSTNAME > /tmp/name; exec sleep 1000"))
    found = cluster.api.until(f"{PODS}/open", phase_is("Running"), what="a running pod")
    assert cluster.kubectl("exec", "open", "--", "cat", "/tmp/name") == "open\n"
    assert found["status"]["podIP"].startswith("10.")
    cluster.kubectl("delete", "pod", "open", "--wait=true")


def test_a_container_that_fails_tells_its_code(cluster: Cluster) -> None:
    cluster.apply(shell("bad", "exit 3"))
    found = cluster.api.until(f"{PODS}/bad", phase_is("Failed"), what="the end of the pod")
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_containers_outlive_a_kill_of_kubelet_and_runtime(cluster: Cluster) -> None:
    cluster.apply(shell("steady", "exec sleep 1000"))
    before = cluster.api.until(f"{PODS}/steady", phase_is("Running"), what="a running pod")
    for program in ("kubelet-0", "containerd-0"):
        cluster.kill(program)
    for program in ("containerd-0", "kubelet-0"):
        cluster.start(program)
    cluster.apply(shell("later", "echo later"))
    cluster.api.until(f"{PODS}/later", phase_is("Succeeded"), what="a pod made after the restart")
    after = cluster.api.get(f"{PODS}/steady")
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert cluster.kubectl("exec", "steady", "--", "cat", "/proc/1/comm") == "sleep\n"


def test_fake_nodes_stand_beside_the_real_one(cluster: Cluster) -> None:
    cluster.add_nodes("nodes: [{group: fake, count: 1}]")
    cluster.apply(shell("imitated", "exit 3", nodeName="fake-0"))
    cluster.api.until(f"{PODS}/imitated", phase_is("Running"), what="a pod that is imitated")


def test_settings_of_the_machine_are_left_alone(cluster: Cluster) -> None:
    inside = cluster.real[0].run("cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/panic").split()
    assert inside == ["1", "10"]
    assert Path("/var/lib/kubelet/device-plugins").exists() is False


def test_nothing_is_left_after_a_kill_of_everything(short_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pod = json.dumps(shell("left", "exec sleep 1000"))
    command = [sys.executable, "-c", PARENT, str(short_path / "lab"), pod]
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        told = json.loads(parent.stdout.readline())
        members = [
            int(name) for name in Path(f"/proc/{told['keeper']}/task/{told['keeper']}/children").read_text().split()
        ]
        os.kill(parent.pid, signal.SIGKILL)
    assert members, "the shim of the pod is a child of the keeper"
    assert wait_gone([told["keeper"], *members]) == []
    cgroups.sweep()
    assert not [*cgroups.ROOT.glob(told["cgroup"]), *cgroups.ROOT.glob(f"*/{told['cgroup']}")]
    assert str(short_path) not in Path("/proc/mounts").read_text()


def test_a_lab_names_clusters_it_does_not_have() -> None:
    with pytest.raises(LabError, match="no cluster b in this lab"):
        Lab(["a"], real_nodes={"b": 1})
