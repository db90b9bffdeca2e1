"""The command lines of etcd and of the Kubernetes components, as the lab runs them.

Called by `lab.cluster` and `lab.lab`; pure functions from paths and ports to arguments, so that the flags of one
program stand in one place. Everything listens on loopback only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.pki import KeyPair

LOOPBACK = "127.0.0.1"

# Off: controllers for clouds, volumes and certificate requests, which fake nodes never need.
CONTROLLERS_OFF = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "ephemeral-volume-controller",
    "node-ipam-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "volumeattributesclass-protection-controller",
)


@dataclass(frozen=True)
class ClusterFiles:
    """What the components of one cluster share on disk."""

    folder: Path
    ca: Path
    serving: KeyPair
    service_account_key: Path
    front_proxy_ca: Path
    front_proxy: KeyPair


def etcd(binary: Path, data: Path, client_port: int, peer_port: int) -> list[str]:
    client = f"http://{LOOPBACK}:{client_port}"
    peer = f"http://{LOOPBACK}:{peer_port}"
    return [
        str(binary),
        "--name=lab",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=lab={peer}",
        # A killed process keeps what it wrote (the page cache has it); only a power cut would not.
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--auto-compaction-retention=1",
        "--log-level=warn",
    ]


def with_flags(argv: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The arguments with `--name=value` flags added, each in place of the one of its name that was there."""
    named = {flag.partition("=")[0] for flag in flags}
    return [argument for argument in argv if argument.partition("=")[0] not in named] + list(flags)


def audit_policy(user: str) -> dict[str, object]:
    """Who, what and the answer's code of every request of one user, and of nobody else."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [user]}],
    }


def audited(policy: Path, log: Path) -> list[str]:
    """A server that records, and that also asks for the rights which only some distributions ask for."""
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    ]


def apiserver(binary: Path, files: ClusterFiles, port: int, etcd_port: int, prefix: str) -> list[str]:
    return [
        str(binary),
        f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
        f"--etcd-prefix=/{prefix}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--advertise-address={LOOPBACK}",
        # A loopback address is not a legal endpoint, and nothing in the lab routes to the Service anyway.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={files.serving.cert}",
        f"--tls-private-key-file={files.serving.key}",
        f"--client-ca-file={files.ca}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={files.service_account_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--requestheader-client-ca-file={files.front_proxy_ca}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={files.front_proxy.cert}",
        f"--proxy-client-key-file={files.front_proxy.key}",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def reaches_kubelets(files: ClusterFiles, client: KeyPair) -> list[str]:
    """What an API server needs to fetch logs and to attach to containers."""
    return [
        f"--kubelet-certificate-authority={files.ca}",
        f"--kubelet-client-certificate={client.cert}",
        f"--kubelet-client-key={client.key}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def controller_manager(binary: Path, files: ClusterFiles, kubeconfig: Path, port: int) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={files.serving.cert}",
        f"--tls-private-key-file={files.serving.key}",
        f"--root-ca-file={files.ca}",
        f"--service-account-private-key-file={files.service_account_key}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--concurrent-job-syncs=10",
        # On a machine with more to do than cores, KWOK's heartbeats come late; that is not what the tests are about.
        "--node-monitor-grace-period=300s",
        "--controllers=*," + ",".join(f"-{name}" for name in CONTROLLERS_OFF),
    ]


def scheduler_config(kubeconfig: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        # Its default of 50 requests per second would be what a comparison measures.
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000},
    }


def scheduler(binary: Path, files: ClusterFiles, config: Path, port: int) -> list[str]:
    return [
        str(binary),
        f"--config={config}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={files.serving.cert}",
        f"--tls-private-key-file={files.serving.key}",
    ]


def kwok(binary: Path, config: Path, kubeconfig: Path, port: int, *, only: str = "") -> list[str]:
    """`only` is a label of the nodes it may act for; without it, it acts for all."""
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--config={config}",
        *(["--manage-all-nodes=false", f"--manage-nodes-with-label-selector={only}"] if only else []),
        *([] if only else ["--manage-all-nodes=true"]),
        f"--node-ip={LOOPBACK}",
        # Addresses that exist in objects only; distinct ones, for endpoints are counted by address.
        "--cidr=10.64.0.0/16",
        f"--server-address={LOOPBACK}:{port}",
        # With leases the node lifecycle controller sees a dead kwok as dead nodes, as it would a kubelet.
        "--node-lease-duration-seconds=40",
    ]
