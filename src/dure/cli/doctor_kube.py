"""`dure doctor --fleet FILE`: looks at each member cluster itself, as the fleet file names it.

Does its API server answer, which version is it, how long is its certificate good, and may Dure's accounts there do
what they have to (`doctor_rights`). Asks only; nothing is changed.
"""

from __future__ import annotations

import shlex
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
    name, connect = spec.info.name, spec.connect
    path = Path(connect.kubeconfig).expanduser()
    if not path.is_file():
        yield Finding("kube", "error", f"{name}: no file {path}", "Correct connect.kubeconfig in the fleet file.")
        return
    yield from kubeconfig_findings(name, path, connect.context)


def kubeconfig_findings(name: str, path: Path, context: str) -> Iterator[Finding]:
    """Of the cluster that this kubeconfig reaches."""
    from dure.adapters.kube.rest import Api
    from dure.cli.doctor_rights import Target, right_findings

    words = ["kubectl", "--kubeconfig", str(path), *(["--context", context] if context else [])]
    try:
        with Api.from_kubeconfig(path, context) as api:
            version: dict[str, Any] = api.get("/version", dict[str, Any])
            yield _version(name, version)
            yield from right_findings(Target(name, api, shlex.join(words)))
    except DureError as error:
        yield Finding("kube", "error", f"{name}: {error.message}", error.remedy or "Does kubectl reach it?")


def _version(name: str, found: dict[str, Any]) -> Finding:
    text = str(found.get("gitVersion", "unknown"))
    parts = text.lstrip("v").split(".")
    known = tuple(int(part) for part in parts[:2] if part.isdigit())
    if len(known) == 2 and known < OLDEST:
        return Finding("kube", "warning", f"{name}: Kubernetes {text}", "Dure is tested from 1.29 on.")
    return Finding("kube", "ok", f"{name}: Kubernetes {text} answers")


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
