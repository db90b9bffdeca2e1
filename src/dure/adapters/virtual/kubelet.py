"""What the API server of a virtual cluster takes for the kubelet of every node: logs, exec and ports of its pods.

Started by `keeper`, one for each virtual cluster; the nodes that `syncer` shows name its address. A request is
translated to the host's API server (another namespace, the pod's name there) and from then on bytes go through as
they are, whatever streams they carry. Only the tenant's API server may ask, by its certificate: it has asked its own
rules who may. Nothing but pods of the tenant's namespace can be named, and one connection is one request: what
follows it goes up only once the host has switched to streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import structlog

from dure.adapters.kube.rest import Api
from dure.adapters.kube.wire import Line
from dure.adapters.virtual.names import host_name
from dure.adapters.virtual.pki import KUBELET_CLIENT, VirtualAuthority
from dure.model.errors import DureError, InvalidInput, Temporary

_HEAD = 64 * 1024
_CHUNK = 64 * 1024
_FIRST_S = 30.0
_START_S = 10.0
_FAREWELL_S = 1.0
# The kubelet's words and the API server's for the same.
_WORDS = {"input": "stdin", "output": "stdout", "error": "stderr"}
_SUBRESOURCES = {"containerLogs": "log", "exec": "exec", "attach": "attach", "portForward": "portforward"}
# What the two ends agree on about their streams; everything else of a request stays here.
_PASSED = ("upgrade", "connection", "x-stream-protocol-version", "accept")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

# A lone line feed would be the end of a line to some.
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

_log = structlog.get_logger("dure.virtual")


class Asked(NamedTuple):
    method: str
    target: str
    headers: Sequence[tuple[str, str]]


class Kubelet:
    """`start`, then `stop`. `endpoint` is where it listens."""

    def __init__(self, authority: VirtualAuthority, host: Api, namespace: str, address: str) -> None:
        self._authority, self._host, self._namespace, self._address = authority, host, namespace, address
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kubelet {namespace}", daemon=True)
        self._open: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def endpoint(self) -> tuple[str, int]:
        return self._address, self._port

    def start(self) -> None:
        self._thread.start()
        if not self._listening.wait(_START_S) or not self._port:
            raise Temporary(f"nobody can listen on {self._address} for logs of {self._namespace}")

    def stop(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(_START_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except OSError as error:
            _log.warning("no logs and exec", namespace=self._namespace, error=str(error))
        finally:
            self._listening.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(
            self._accepted, self._address, 0, ssl=self._tls(), ssl_shutdown_timeout=_FAREWELL_S, limit=_HEAD
        )
        self._port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._ending.wait()
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _tls(self) -> ssl.SSLContext:
        pair = self._authority.kubelet([self._address])
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(pair.certificate, pair.key)
        made.load_verify_locations(self._authority.certificate)
        made.verify_mode = ssl.CERT_REQUIRED
        return made

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, DureError) as error:
            with contextlib.suppress(OSError):
                writer.write(_refusal("502 Bad Gateway" if isinstance(error, OSError) else "400 Bad Request", error))
        finally:
            await _closed(writer)
            self._open.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_FIRST_S):
            head = await reader.readuntil(b"\r\n\r\n")
            if _common_name(writer) != KUBELET_CLIENT:
                raise InvalidInput("only the API server of this virtual cluster may ask here")
            asked = translated(_read(head), self._namespace)
            line = await asyncio.to_thread(self._host.line, asked.target)
            above, below = await asyncio.open_connection(line.host, line.port, limit=_HEAD, **_secured(line))
        headers = [("Host", f"{line.host}:{line.port}"), *line.headers, *asked.headers]
        told = "".join(f"{name}: {value}\r\n" for name, value in headers)
        below.write(f"{asked.method} {line.prefix}{asked.target} HTTP/1.1\r\n{told}\r\n".encode("latin-1"))
        try:
            async with asyncio.timeout(_FIRST_S):
                answer = await above.readuntil(b"\r\n\r\n")
            writer.write(answer)
            # Unless the host has left HTTP for the streams, more bytes would be requests of their own, in our name.
            up = below if _switched(answer) else None
            await _either(_pump(above, writer), _pump(reader, up))
        finally:
            await _closed(below)


def translated(asked: Asked, namespace: str) -> Asked:
    """A request to a kubelet as one to the host's API server. Pure."""
    parts = urlsplit(asked.target)
    words = [unquote(word) for word in parts.path.strip("/").split("/")]
    subresource = _SUBRESOURCES.get(words[0])
    # A uid may stand between pod and container; what a port is forwarded to has no container.
    shortest = 3 if subresource == "portforward" else 4
    if subresource is None or len(words) not in (shortest, shortest + 1) or not all(map(_NAME.fullmatch, words[1:])):
        raise InvalidInput(f"'{parts.path[:200]}' is not served here")
    query = [(_WORDS.get(name, name), _flag(value, name)) for name, value in parse_qsl(parts.query, True)]
    if subresource != "portforward":
        query = [("container", words[-1]), *((name, value) for name, value in query if name != "container")]
    pod = host_name(words[1], words[2])
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/{subresource}"
    passed = [(name, value) for name, value in asked.headers if name.lower() in _PASSED or _of_websocket(name)]
    if not any(name.lower() == "upgrade" for name, _ in passed):
        passed = [(name, value) for name, value in passed if name.lower() != "connection"] + [("Connection", "close")]
    return Asked(asked.method, f"{path}?{urlencode(query)}", passed)


def _flag(value: str, name: str) -> str:
    return ("true" if value in ("1", "true") else "false") if name in (*_WORDS, "tty") else value


def _of_websocket(name: str) -> bool:
    return name.lower().startswith("sec-websocket-")


def _read(head: bytes) -> Asked:
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, _, rest = first.partition(" ")
    target = rest.rpartition(" ")[0]
    pairs = [line.partition(":") for line in lines]
    if method not in ("GET", "POST") or not target.startswith("/") or _CONTROL.search(head.replace(b"\r\n", b"")):
        raise InvalidInput(f"'{first[:80]}' is not served here")
    return Asked(method, target, [(name, value.strip()) for name, _, value in pairs])


def _common_name(writer: asyncio.StreamWriter) -> str:
    subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
    return next((value for part in subject for name, value in part if name == "commonName"), "")


def _secured(line: Line) -> dict[str, Any]:
    if line.tls is None:
        return {}
    return {"ssl": line.tls, "server_hostname": line.host, "ssl_shutdown_timeout": _FAREWELL_S}


async def _closed(writer: asyncio.StreamWriter) -> None:
    """What was written goes out first; who does not say goodbye is not waited for."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(2 * _FAREWELL_S):
            await writer.wait_closed()


def _switched(answer: bytes) -> bool:
    return answer.split(b" ", 2)[1:2] == [b"101"]


async def _either(*pumps: Coroutine[None, None, None]) -> None:
    """Until one of them ends."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> None:
    """Until there is no more; without a writer nothing is passed on."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            if writer is not None:
                writer.write(chunk)
                await writer.drain()


def _refusal(status: str, error: Exception) -> bytes:
    body = f"{str(error) or type(error).__name__}\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
