"""Kubeconfig files of lab clusters, with the certificates inside, so that a copy of the text is enough.

Used by `lab.cluster`.
"""

import base64
from pathlib import Path

import yaml

from lab.pki import KeyPair


def write(path: Path, cluster: str, server: str, ca: Path, identity: KeyPair | str) -> Path:
    """One cluster, one user (a certificate or a token), one context, all named after the cluster."""
    user = (
        {"token": identity}
        if isinstance(identity, str)
        else {"client-certificate-data": _inline(identity.cert), "client-key-data": _inline(identity.key)}
    )
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": _inline(ca)}}],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
