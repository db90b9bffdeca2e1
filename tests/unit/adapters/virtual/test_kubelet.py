"""What a virtual API server asks of a kubelet, as the host's API server is asked it; and who may ask at all."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from dure.adapters.kube.rest import Api
from dure.adapters.kube.wire import Wire
from dure.adapters.pki import Pair
from dure.adapters.virtual.kubelet import Asked, Kubelet, translated
from dure.adapters.virtual.names import host_name
from dure.adapters.virtual.pki import KUBELET_CLIENT, VirtualAuthority
from dure.model.errors import InvalidInput

SPDY = (("Upgrade", "SPDY/3.1"), ("Connection", "Upgrade"), ("X-Stream-Protocol-Version", "v4.channel.k8s.io"))
TALKS = f"/api/v1/namespaces/dure-robots/pods/{host_name('default', 'talks')}"


def asked(target: str, *headers: tuple[str, str], method: str = "GET") -> tuple[str, dict[str, list[str]], Asked]:
    found = translated(Asked(method, target, headers), "dure-robots")
    parts = urlsplit(found.target)
    return parts.path, parse_qs(parts.query, keep_blank_values=True), found


def test_logs_are_those_of_the_hosts_pod_and_end_with_the_connection() -> None:
    path, query, found = asked(
        "/containerLogs/default/talks/main?follow=true&tailLines=3", ("Connection", "keep-alive")
    )
    assert path == f"{TALKS}/log"
    assert query == {"container": ["main"], "follow": ["true"], "tailLines": ["3"]}
    assert found.headers == [("Connection", "close")]


@pytest.mark.parametrize("target", ["/exec/default/talks/main", "/exec/default/talks/some-uid/main"])
def test_commands_keep_their_words_in_order_and_their_streams(target: str) -> None:
    told = (*SPDY, ("Authorization", "Bearer of-nobody"), ("Cookie", "x"), ("Sec-WebSocket-Protocol", "v5"))
    path, query, found = asked(f"{target}?command=sh&command=-c&command=a%26b&input=1&output=1&tty=0", *told)
    assert path == f"{TALKS}/exec"
    assert query.pop("command") == ["sh", "-c", "a&b"]
    assert query == {"container": ["main"], "stdin": ["true"], "stdout": ["true"], "tty": ["false"]}
    assert found.headers == [*SPDY, ("Sec-WebSocket-Protocol", "v5")], "no secrets of the one for the other"


def test_ports_are_of_a_pod_and_not_of_a_container() -> None:
    path, query, _ = asked("/portForward/default/talks?port=80", *SPDY, method="POST")
    assert (path, query) == (f"{TALKS}/portforward", {"port": ["80"]})


@pytest.mark.parametrize(
    "target",
    [
        "/", "/pods", "/run/default/talks/main", "/containerLogs/default/talks", "/exec/default//main",
        "/containerLogs/a/b/c/d/e", "/portForward/default", "/metrics", "/logs/",
    ],
)  # fmt: skip
def test_nothing_else_of_a_kubelet_is_served(target: str) -> None:
    with pytest.raises(InvalidInput, match="not served here"):
        asked(target)


@pytest.mark.parametrize("pod", ["..%2f..%2fother", "%2e%2e", "a%2Flog%3Fx=", "a%0d%0aHost:%20b"])
def test_no_name_leads_out_of_the_tenants_pods(pod: str) -> None:
    with pytest.raises(InvalidInput, match="not served here"):
        asked(f"/containerLogs/default/{pod}/main")


class Host:
    """An API server that answers one request after the other, and remembers what it was asked."""

    def __init__(self) -> None:
        self.refuses = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.heads: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # Who waits in accept is woken by this alone.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                head = client.recv(65536).decode()
                self.heads.append(head)
                if self.refuses:
                    client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
                    client.settimeout(0.5)
                    with contextlib.suppress(TimeoutError):
                        self.heads.append(client.recv(65536).decode())
                elif "Upgrade:" in head:
                    client.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
                    client.sendall(client.recv(100).upper())
                else:
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\na line")


class Bench:
    def __init__(self, folder: Path) -> None:
        self.authority, self.host = VirtualAuthority(folder, "robots"), Host()
        self.api = Api(httpx2.Client(base_url=self.host.url), Wire(self.host.url, None, 5.0))
        self.kubelet = Kubelet(self.authority, self.api, "dure-robots", "127.0.0.1")
        self.kubelet.start()

    def close(self) -> None:
        self.kubelet.stop()
        self.api.close()
        self.host.close()

    def ask(self, client: Pair | None, head: str, *more: bytes) -> bytes:
        """All that comes back; more is sent once something has."""
        tls = ssl.create_default_context(cafile=str(self.authority.certificate))
        if client is not None:
            tls.load_cert_chain(client.certificate, client.key)
        plain = socket.create_connection(self.kubelet.endpoint, 30.0)
        got = b""
        with tls.wrap_socket(plain, server_hostname="127.0.0.1") as there, contextlib.suppress(OSError):
            there.sendall(f"{head}\r\nHost: node\r\n\r\n".encode())
            got = there.recv(65536)
            for part in more:
                there.sendall(part)
            while chunk := there.recv(65536):
                got += chunk
        return got


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_the_tenants_api_server_gets_what_the_host_answers(bench: Bench) -> None:
    client = bench.authority.client(KUBELET_CLIENT, "dure")
    assert bench.ask(client, "GET /containerLogs/default/talks/main HTTP/1.1").endswith(b"\r\n\r\na line")
    assert bench.host.heads[0].startswith(f"GET {TALKS}/log?container=main HTTP/1.1\r\nHost: 127.0.0.1:")


def test_streams_go_both_ways_as_they_are(bench: Bench) -> None:
    client = bench.authority.client(KUBELET_CLIENT, "dure")
    head = "POST /exec/default/talks/main?command=sh HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade"
    assert bench.ask(client, head, b"sent in").endswith(b"\r\n\r\nSENT IN")


def test_a_second_request_never_follows_one_whose_streams_were_refused(bench: Bench) -> None:
    bench.host.refuses = True
    client = bench.authority.client(KUBELET_CLIENT, "dure")
    head = "POST /exec/default/talks/main?command=sh HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade"
    answer = bench.ask(client, head, b"GET /api/v1/secrets HTTP/1.1\r\nHost: host\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert [head for head in bench.host.heads if "secrets" in head] == []


@pytest.mark.parametrize("control", ["\n", "\r", "\x00"])
def test_a_lone_end_of_line_in_a_header_is_refused(bench: Bench, control: str) -> None:
    client = bench.authority.client(KUBELET_CLIENT, "dure")
    head = f"GET /containerLogs/default/talks/main HTTP/1.1\r\nAccept: a{control}Impersonate-User: root"
    assert bench.ask(client, head).startswith(b"HTTP/1.1 400 ")
    assert bench.host.heads == []


def test_another_user_of_the_same_authority_is_refused_and_the_host_hears_nothing(bench: Bench) -> None:
    client = bench.authority.client("admin", "system:masters")
    assert bench.ask(client, "GET /containerLogs/default/talks/main HTTP/1.1").startswith(b"HTTP/1.1 400 ")
    assert bench.host.heads == []


def test_who_has_no_certificate_does_not_get_in(bench: Bench) -> None:
    assert bench.ask(None, "GET /containerLogs/default/talks/main HTTP/1.1") == b""
    assert bench.host.heads == []


def test_a_host_that_is_away_is_told_as_such(bench: Bench) -> None:
    bench.host.close()
    client = bench.authority.client(KUBELET_CLIENT, "dure")
    assert bench.ask(client, "GET /containerLogs/default/talks/main HTTP/1.1").startswith(b"HTTP/1.1 502 ")
