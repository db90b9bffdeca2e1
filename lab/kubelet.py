"""Configuration of a real node's programs: kubelet, containerd and the pods' network. Pure; called by `lab.node`."""

import json
from pathlib import Path

from lab import images
from lab.components import LOOPBACK
from lab.pki import KeyPair


def config(port: int, health_port: int, runtime: Path, ca: Path, serving: KeyPair) -> dict[str, object]:
    """A kubelet that runs in any Linux with root, whichever version of control groups it has."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": LOOPBACK,
        "port": port,
        "healthzBindAddress": LOOPBACK,
        "healthzPort": health_port,
        "readOnlyPort": 0,
        "tlsCertFile": str(serving.cert),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(ca)}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{runtime}",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "podLogsDir": "/var/log/pods",
        # A machine with a full disk still runs tests; evicting their pods helps nobody.
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "24h",
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "shutdownGracePeriod": "0s",
        "registerWithTaints": [],
        "serializeImagePulls": False,
    }


def containerd_config(runc: Path, plugins: Path, conf_dir: Path) -> str:
    """CRI only. Negative scores for the out-of-memory killer are refused in many sandboxes, so none are asked for."""
    cri = "plugins.'io.containerd.cri.v1"
    return f"""version = 3
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.tracing.processor.v1.otlp']
[{cri}.images'.pinned_images]
sandbox = '{images.SANDBOX}'
[{cri}.runtime']
restrict_oom_score_adj = true
disable_apparmor = true
netns_mounts_under_state_dir = true
cdi_spec_dirs = ['{conf_dir.parent / "cdi"}']
enable_unprivileged_ports = false
enable_unprivileged_icmp = false
[{cri}.runtime'.cni]
bin_dirs = ['{plugins}']
conf_dir = '{conf_dir}'
[{cri}.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[{cri}.runtime'.containerd.runtimes.runc.options]
BinaryName = '{runc}'
"""


def network(number: int) -> str:
    """A pair of interfaces for each pod; `number` is the lab's own on this machine and picks the range."""
    subnet = f"10.{128 + number // 256}.{number % 256}.0/24"
    ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return json.dumps({"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "ptp", "ipam": ipam}]})
