"""What the objects of a virtual cluster are called in the host cluster. Pure.

A host name is readable and never shared: it ends in a hash of namespace and name, because any readable join of the
two alone (`a-x-b` of `c`, `a` of `b-x-c`) can be had twice.
"""

from __future__ import annotations

import hashlib

from dure.adapters.kube.names import GROUP
from dure.manifest.render.setting import ISOLATION
from dure.manifest.render.vcluster import SECRET

__all__ = ["ISOLATION", "KUBECONFIG", "NAME", "NAMESPACE", "SECRET", "UID", "host_name"]

# On every synced object: where it comes from. The label is for selectors, the rest for whoever syncs back.
NAMESPACE = f"{GROUP}/virtual-namespace"
NAME = f"{GROUP}/virtual-name"
UID = f"{GROUP}/virtual-uid"

# As vcluster calls it.
KUBECONFIG = "config"
_LONGEST = 63


def host_name(namespace: str, name: str) -> str:
    digest = hashlib.blake2b(f"{namespace}/{name}".encode(), digest_size=5).hexdigest()
    plain = f"{name}-x-{namespace}".replace(".", "-")[: _LONGEST - len(digest) - 1].strip("-")
    return f"{plain}-{digest}"
