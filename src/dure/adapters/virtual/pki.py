"""The certificates of one virtual cluster: its own authority, its servers, its clients. Used by `control_plane`.

The authority is made once and kept; everything it signs is made anew at every start, so that nothing of it runs out
while somebody uses it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from dure.adapters.pki import Authority, Pair, name_of
from dure.adapters.whole import write_whole

LEAF_DAYS = 365
# As who the API server asks for logs and exec.
KUBELET_CLIENT = "kube-apiserver-kubelet-client"


class VirtualAuthority:
    def __init__(self, folder: Path, name: str) -> None:
        self._authority, self._name = Authority(folder, leaf_days=LEAF_DAYS), name
        self.certificate = self._authority.bundle

    def server(self, hosts: Sequence[str]) -> Pair:
        return self._authority.issue("server", name_of("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, hosts)

    def kubelet(self, hosts: Sequence[str]) -> Pair:
        return self._authority.issue("kubelet", name_of("kubelet"), ExtendedKeyUsageOID.SERVER_AUTH, hosts)

    def client(self, user: str, group: str) -> Pair:
        subject = name_of(user[:64], group)
        return self._authority.issue(user.replace(":", "-"), subject, ExtendedKeyUsageOID.CLIENT_AUTH)

    def signing_key(self) -> Path:
        """Of service account tokens; one that changed would end every token.

        The API server verifies with the key it signs with, and reads that in the traditional form only.
        """
        path = self._authority.folder / "tokens.key"
        if not path.exists():
            form = serialization.PrivateFormat.TraditionalOpenSSL
            key = ec.generate_private_key(ec.SECP256R1())
            write_whole(
                path, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()), 0o600
            )
        return path

    def kubeconfig(self, server: str, client: Pair) -> str:
        """With the certificates inside, so that the text is enough."""
        user = {"client-certificate-data": _inline(client.certificate), "client-key-data": _inline(client.key)}
        cluster = {"server": server, "certificate-authority-data": _inline(self.certificate)}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": self._name,
                "clusters": [{"name": self._name, "cluster": cluster}],
                "users": [{"name": self._name, "user": user}],
                "contexts": [{"name": self._name, "context": {"cluster": self._name, "user": self._name}}],
            },
            sort_keys=False,
        )


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
