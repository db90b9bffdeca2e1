"""Fetching what a document names by URL, without letting it name what only this machine can reach.

Used for prices, carbon and notices, and for whatever else a person writes as an address. The name is resolved here,
every address it stands for is checked, and the connection goes to the address that was checked: a name that is
resolved anew between the two cannot lead elsewhere. Redirects are not followed, answers have a largest size, also
unpacked.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dure.model.errors import InvalidInput, NotAllowed, Temporary

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 10.0
MAX_BYTES = 64 * 1024 * 1024


def fetch(url: str, headers: Mapping[str, str] | None = None, *, local: bool = False) -> bytes:
    """The body behind an http(s) URL; `local` allows addresses of this machine and its link."""
    import httpx

    host, address = check_address(url, local=local)
    target = httpx.URL(url).copy_with(host=address)
    asked = {**(headers or {}), "Host": _host_header(url)}
    try:
        with (
            httpx.Client(timeout=TIMEOUT_S, trust_env=False, follow_redirects=False) as client,
            client.stream("GET", target, headers=asked, extensions={"sni_hostname": host}) as answer,
        ):
            return _body(answer, url)
    except httpx.HTTPError as error:
        raise Temporary(f"{type(error).__name__}: {error}", where=url) from error


def check_address(url: str, *, local: bool = False) -> tuple[str, str]:
    """The name in a URL and the address it stands for, if that may be asked; `NotAllowed` else."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise InvalidInput(f"this is no address: {error}", where=url[:200]) from error
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise InvalidInput("this is no address to fetch from", where=url[:200], remedy="Write http(s)://HOST/PATH.")
    return host, check_host(host, port, where=url, local=local)


def check_host(
    host: str,
    port: int,
    *,
    where: str,
    local: bool = False,
    remedy: str = "for one on this machine write local: true.",
) -> str:
    """An address that this name stands for, if all of them may be asked; `NotAllowed` else."""
    try:
        found = sorted({str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
    except (OSError, UnicodeError) as error:
        raise Temporary(f"'{host}' is not found: {error}", where=where) from error
    refused = [address for address in found if not local and not _public(address)]
    if refused or not found:
        raise NotAllowed(
            f"'{host}' stands for {', '.join(refused) or 'nothing'}, which only this machine can reach",
            where=where,
            remedy=f"Name a public or private address; {remedy}",
        )
    return found[0]


def _public(address: str) -> bool:
    """Neither this machine, nor its link (where clouds keep credentials), nor an address of no one machine."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    embedded = ip.ipv4_mapped or ip.sixtofour if isinstance(ip, ipaddress.IPv6Address) else None
    checked = embedded or ip
    return not (
        checked.is_loopback
        or checked.is_link_local
        or checked.is_unspecified
        or checked.is_multicast
        or checked.is_reserved
    )


def _host_header(url: str) -> str:
    return urlsplit(url).netloc


def _body(answer: httpx.Response, url: str) -> bytes:
    if answer.status_code >= 300:
        raise Temporary(f"answered {answer.status_code}", where=url, remedy="Check the address and token.")
    parts, size = [], 0
    for chunk in answer.iter_bytes(64 * 1024):
        size += len(chunk)
        if size > MAX_BYTES:
            raise InvalidInput(f"the answer is larger than {MAX_BYTES // 2**20} MiB", where=url)
        parts.append(chunk)
    return b"".join(parts)
