"""No document makes Dure ask what only this machine can reach."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dure.adapters import outside
from dure.adapters.clock import VirtualClock
from dure.adapters.series import Source
from dure.model.errors import InvalidInput, NotAllowed, Temporary


@pytest.fixture
def served() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/away":
                self.send_response(302)
                self.send_header("location", "http://169.254.169.254/latest/meta-data")
                self.end_headers()
                return
            self.send_response(200)
            packed = self.path == "/bomb"
            if packed:
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            self.wfile.write(gzip.compress(bytes(40 * 2**20)) if packed else f"host {self.headers['host']}".encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:7420/v1/status",
        "http://127.1/",
        "http://2130706433/",
        "http://0.0.0.0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
    ],
)
def test_addresses_of_this_machine_and_its_link_are_refused(url: str) -> None:
    with pytest.raises((NotAllowed, Temporary)):
        outside.check_address(url)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a/b", "http://", "http://user:pw@10.0.0.1/", "http://[::1", "gopher://x"]
)
def test_what_is_no_plain_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        outside.check_address(url)


def test_a_name_that_stands_for_this_machine_among_others_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(2, 1, 6, "", ("93.184.216.34", 80)), (2, 1, 6, "", ("127.0.0.1", 80))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: both)
    with pytest.raises(NotAllowed, match=r"127\.0\.0\.1"):
        outside.check_address("http://rebound.example/")


def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked(
    served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second answer of a rebinding name would lead elsewhere; nobody asks for it."""
    asked = []

    def resolve(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    port = served.rpartition(":")[2]
    assert outside.fetch(f"http://prices.example:{port}/x", local=True) == f"host prices.example:{port}".encode()
    assert asked.count("prices.example") == 1


def test_private_addresses_are_the_owners_business(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outside.check_address("http://10.1.2.3/carbon") == ("10.1.2.3", "10.1.2.3")


def test_redirects_are_not_followed(served: str) -> None:
    with pytest.raises(Temporary, match="302"):
        outside.fetch(f"{served}/away", local=True)


def test_an_answer_that_unpacks_to_too_much_is_cut_off(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "MAX_BYTES", 2**20)
    with pytest.raises(InvalidInput, match="larger"):
        outside.fetch(f"{served}/bomb", local=True)


def test_a_source_on_this_machine_needs_a_word(served: str) -> None:
    with pytest.raises((NotAllowed, InvalidInput)):
        Source(f"{served}/x.csv", VirtualClock(0.0)).table()


def test_a_packed_file_that_grows_beyond_measure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dure.adapters import series

    monkeypatch.setattr(series, "MAX_BYTES", 1000)
    file = tmp_path / "bomb.csv.gz"
    file.write_bytes(gzip.compress(b"time,a\n" + b"0,1\n" * 1000))
    with pytest.raises(InvalidInput, match="unpacked"):
        Source(str(file), VirtualClock(0.0)).table()
