"""Names of a tenant's services for its pods, as lines of their /etc/hosts. Pure; `syncer` asks when it makes a pod.

A resolver of the host knows services by their host names only. So a pod is given the names of the services that exist
when it starts, as Kubernetes does with the environment variables of services: one that is made later is not known to
it, nor are headless ones, whose addresses change.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from dure.adapters.virtual.translate import origin

Json = dict[str, Any]
DOMAIN = "svc.cluster.local"
# A pod's description may not grow without bound; those of its own namespace come first.
MOST = 500


def aliases(namespace: str, services: Iterable[Json]) -> list[Json]:
    """`services` are those of the host, which gave the addresses; `namespace` is the pod's in the virtual cluster."""
    known = sorted(
        (where != namespace, where, name, service["spec"]["clusterIP"])
        for service in services
        if _is_address(service["spec"].get("clusterIP", ""))
        for where, name, _ in [origin(service)]
    )
    return [
        {"ip": address, "hostnames": _names(where, name, short=not far)} for far, where, name, address in known[:MOST]
    ]


def _names(namespace: str, name: str, *, short: bool) -> list[str]:
    made = [f"{name}.{namespace}.{DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*made, name] if short else made


def _is_address(text: str) -> bool:
    """A headless service has `None` instead, one that only stands for another name has nothing."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
