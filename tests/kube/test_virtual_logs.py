"""Logs, exec and ports through a virtual cluster, from containers that a real kubelet runs in the host cluster."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lab import images
from lab.errors import LabError
from lab.lab import Lab
from tests.kube.virtual_world import Tenant, settled, virtual_world

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.real_node]

POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: talks, namespace: default}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  nodeSelector: {{kubernetes.io/os: linux}}
  containers:
  - name: main
    image: {images.SANDBOX}
    imagePullPolicy: Never
    command: [/bin/sh, -c, "echo of WHO; echo more; exec sleep 1000"]
    securityContext: {{allowPrivilegeEscalation: false}}
"""
READER = ("--as=anna", "--as-group=system:authenticated")


def test_a_tenant_reads_logs_and_runs_commands_in_its_own_pods_alone(tmp_path: Path) -> None:
    with Lab(["host"], real_nodes={"host": 1}) as lab, virtual_world(lab, tmp_path, nodes="") as world:
        robots, vision = world.create("robots"), world.create("vision")
        for name, tenant in {"robots": robots, "vision": vision}.items():
            # A new namespace has its service account a moment later.
            settled(partial(_has_account, tenant), "its service account")
            tenant.apply(POD.replace("WHO", name))
            settled(partial(_runs, tenant), f"the pod of {name}")
        settled(lambda: robots.kubectl("logs", "talks") == "of robots\nmore\n", "the log")
        assert vision.kubectl("logs", "talks", "--tail=2") == "of vision\nmore\n"
        assert robots.kubectl("logs", "talks", "--tail=1") == "more\n"
        assert robots.kubectl("exec", "talks", "--", "/bin/sh", "-c", "echo $((6 * 7))") == "42\n"
        assert robots.kubectl("exec", "-i", "talks", "--", "/bin/sh", "-c", "cat", stdin="sent in") == "sent in"
        with pytest.raises(LabError, match="exit code 3"):
            robots.kubectl("exec", "talks", "--", "/bin/sh", "-c", "exit 3")
        with pytest.raises(LabError, match="forbidden"):
            robots.kubectl("logs", "talks", *READER)
        with pytest.raises(LabError, match="not found"):
            robots.kubectl("logs", "nobody")


def _has_account(tenant: Tenant) -> bool:
    return bool(tenant.get("serviceaccount", "default")["metadata"]["name"])


def _runs(tenant: Tenant) -> bool:
    return bool(tenant.get("pod", "talks")["status"]["phase"] == "Running")
