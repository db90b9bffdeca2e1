"""Logs, exec, attach, ports, volumes and names through a virtual cluster, from containers of a real kubelet."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import httpx
import pytest

from lab import images
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from tests.kube.virtual_world import VOLUMES, Tenant, settled, virtual_world

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
    volumeMounts: [{{name: data, mountPath: /data}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]
"""
# Answers on a port, and on its standard input.
SERVER = """
import os, sys, threading, http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ["WHO"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
served = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Page)
threading.Thread(target=served.serve_forever).start()
for line in sys.stdin:
    print(os.environ["WHO"], "heard", line.strip(), flush=True)
"""
SERVES = """
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: default}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: serves, namespace: default}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: dure.lab/serves:1
    imagePullPolicy: Never
    stdin: true
    env: [{name: WHO, value: WHO}]
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: PATH, type: Directory}
"""
READER = ("--as=anna", "--as-group=system:authenticated")


def test_a_tenant_reaches_its_own_pods_alone_by_every_way_that_kubectl_has(tmp_path: Path) -> None:
    with Lab(["host"], real_nodes={"host": 1}, flags={"host": VOLUMES}) as lab:
        host = lab["host"]
        host.real[0].load(images.python(tmp_path, "serves", [], {}, ["-c", SERVER]))
        disks = [_disk(host, tmp_path, f"disk-{number}") for number in range(2)]
        with virtual_world(lab, tmp_path, nodes="") as world:
            tenants = {name: world.create(name) for name in ("robots", "vision")}
            for name, tenant in tenants.items():
                # A new namespace has its service account a moment later.
                settled(partial(_has_account, tenant), "its service account")
                tenant.apply(SERVES.replace("value: WHO", f"value: {name}"))
                tenant.apply(POD.replace("WHO", name))
                settled(partial(_runs, tenant, "talks"), f"the pod of {name}")
                settled(partial(_runs, tenant, "serves"), f"the server of {name}")
            logs_and_commands(tenants["robots"], tenants["vision"])
            volumes_outlive_pods(tenants, disks)
            services_have_names(tenants["robots"])
            for name, tenant in tenants.items():
                input_goes_to_its_own(name, tenant)
                ports_are_its_own(name, tenant)
            who_may_not_is_refused(tenants["robots"])


def logs_and_commands(robots: Tenant, vision: Tenant) -> None:
    settled(lambda: robots.kubectl("logs", "talks") == "of robots\nmore\n", "the log")
    assert vision.kubectl("logs", "talks", "--tail=2") == "of vision\nmore\n"
    assert robots.kubectl("logs", "talks", "--tail=1") == "more\n"
    assert robots.kubectl("exec", "talks", "--", "/bin/sh", "-c", "echo $((6 * 7))") == "42\n"
    assert robots.kubectl("exec", "-i", "talks", "--", "/bin/sh", "-c", "cat", stdin="sent in") == "sent in"
    with pytest.raises(LabError, match="exit code 3"):
        robots.kubectl("exec", "talks", "--", "/bin/sh", "-c", "exit 3")


def volumes_outlive_pods(tenants: dict[str, Tenant], disks: list[Path]) -> None:
    for name, tenant in tenants.items():
        tenant.kubectl("exec", "talks", "--", "/bin/sh", "-c", f"echo {name} > /data/who")
    assert sorted((disk / "who").read_text() for disk in disks) == ["robots\n", "vision\n"]
    robots = tenants["robots"]
    robots.kubectl("delete", "pod", "talks", "--now")
    robots.apply(POD.replace("WHO", "robots"))
    settled(partial(_runs, robots, "talks"), "its second pod")
    assert robots.kubectl("exec", "talks", "--", "/bin/cat", "/data/who") == "robots\n"


def services_have_names(robots: Tenant) -> None:
    """Of the second pod: the service was there before it."""
    lines = [line.split() for line in robots.kubectl("exec", "talks", "--", "/bin/cat", "/etc/hosts").splitlines()]
    named = {word: words[0] for words in lines if words for word in words[1:]}
    assert re.fullmatch(r"10\.96\.[0-9.]+", named["shop.default.svc.cluster.local"]), "an address of the host"
    assert named["shop"] == named["shop.default"] == named["shop.default.svc.cluster.local"]


def input_goes_to_its_own(name: str, tenant: Tenant) -> None:
    with tenant.holding("attach", "-i", "serves") as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write("good morning\n")
        attached.stdin.flush()
        heard = next(line for line in attached.stdout if "heard" in line)
    assert heard == f"{name} heard good morning\n"


def ports_are_its_own(name: str, tenant: Tenant) -> None:
    with tenant.holding("port-forward", "pod/serves", ":8000", "--address=127.0.0.1") as forwarding:
        assert forwarding.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+) -> 8000", forwarding.stdout.readline())
        assert found is not None
        for _ in range(2):
            assert httpx.get(f"http://127.0.0.1:{found[1]}/", trust_env=False, timeout=60.0).text == name


def who_may_not_is_refused(robots: Tenant) -> None:
    for asked in (["logs", "talks"], ["exec", "talks", "--", "/bin/ls"], ["attach", "serves"]):
        with pytest.raises(LabError, match="forbidden"):
            robots.kubectl(asked[0], *READER, *asked[1:])
    # To find its pod it must be able to read it; that is not enough to reach its ports.
    robots.kubectl("create", "role", "looks", "--verb=get", "--resource=pods")
    robots.kubectl("create", "rolebinding", "anna", "--role=looks", "--user=anna")
    with pytest.raises(LabError, match="forbidden"):
        robots.kubectl("port-forward", *READER, "pod/serves", ":8000")
    with pytest.raises(LabError, match="forbidden"):
        robots.kubectl("attach", *READER, "serves")
    with pytest.raises(LabError, match="not found"):
        robots.kubectl("logs", "nobody")


def _disk(host: Cluster, folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    host.kubectl("apply", "-f", "-", stdin=VOLUME.replace("NAME", name).replace("PATH", str(made)))
    return made


def _has_account(tenant: Tenant) -> bool:
    return bool(tenant.get("serviceaccount", "default")["metadata"]["name"])


def _runs(tenant: Tenant, pod: str) -> bool:
    return bool(tenant.get("pod", pod)["status"]["phase"] == "Running")
