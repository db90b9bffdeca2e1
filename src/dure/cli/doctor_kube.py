"""`dure doctor --fleet FILE`: looks at each member cluster itself, as the fleet file names it.

Does its API server answer, which version is it, how long is its certificate good, and may the account of the
kubeconfig do everything that an agent does. Asks only; nothing is changed.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dure.cli.finding import Finding
from dure.model.errors import DureError
from dure.model.fleet import ClusterSpec

SOON_DAYS = 21
OLDEST = (1, 29)


def cluster_findings(spec: ClusterSpec) -> Iterator[Finding]:
    from dure.adapters.kube.rest import Api

    name, connect = spec.info.name, spec.connect
    path = Path(connect.kubeconfig).expanduser()
    if not path.is_file():
        yield Finding("kube", "error", f"{name}: no file {path}", "Correct connect.kubeconfig in the fleet file.")
        return
    try:
        api = Api.from_kubeconfig(path, connect.context)
        version: dict[str, Any] = api.get("/version", dict[str, Any])
    except DureError as error:
        yield Finding("kube", "error", f"{name}: {error.message}", error.remedy or "Does kubectl reach it?")
        return
    yield _version(name, version)
    yield from _rights(name, api)


def _version(name: str, found: dict[str, Any]) -> Finding:
    text = str(found.get("gitVersion", "unknown"))
    parts = text.lstrip("v").split(".")
    known = tuple(int(part) for part in parts[:2] if part.isdigit())
    if len(known) == 2 and known < OLDEST:
        return Finding("kube", "warning", f"{name}: Kubernetes {text}", "Dure is tested from 1.29 on.")
    return Finding("kube", "ok", f"{name}: Kubernetes {text} answers")


def _rights(name: str, api: Any) -> Iterator[Finding]:
    """Every right of the agent's role, asked of the API server for this account."""
    from dure.adapters.kube.rbac import rules

    missing = []
    for rule in rules():
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                missing += [f"{verb} {resource}" for verb in rule["verbs"] if not _may(api, group, resource, verb)]
    if missing:
        shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        remedy = "Apply the agent's role: dure render agent | kubectl apply -f -"
        yield Finding("rbac", "warning", f"{name}: this account may not {shown}", remedy)
    else:
        yield Finding("rbac", "ok", f"{name}: this account may do all that an agent does")


def _may(api: Any, group: str, resource: str, verb: str) -> bool:
    main, _, sub = resource.partition("/")
    asked = {"group": group, "resource": main, "subresource": sub, "verb": verb}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, dict[str, Any])
    return bool(answer.get("status", {}).get("allowed"))


def certificate_findings(url: str) -> Iterator[Finding]:
    """How long the certificate of an https address is good; nothing for plain http."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        return
    try:
        context = ssl.create_default_context()
        with (
            socket.create_connection((parts.hostname, parts.port or 443), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secured,
        ):
            ends_s = ssl.cert_time_to_seconds(str((secured.getpeercert() or {}).get("notAfter", "")))
    except (OSError, ValueError) as error:
        yield Finding("cert", "warning", f"{parts.hostname}: {error}", "Give its authority: SSL_CERT_FILE=ca.crt")
        return
    days = (ends_s - time.time()) / 86_400
    if days < SOON_DAYS:
        level = "error" if days < 0 else "warning"
        yield Finding("cert", level, f"{parts.hostname}: its certificate ends in {days:.0f} days", "Renew it.")
    else:
        yield Finding("cert", "ok", f"{parts.hostname}: its certificate is good for {days:.0f} days")
