"""The server on a real port: it finds a free one, serves, and stops cleanly."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

from dure.api.server import Server, open_socket
from dure.model.errors import Permanent
from tests.unit.api.clients import TOKEN
from tests.unit.api.small_world import HELD


def test_a_taken_port_moves_on_to_the_next_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        listener, address = open_socket(port=port)
        listener.close()
    assert address.moved
    assert address.port > port


def test_accepted_connections_send_small_answers_at_once() -> None:
    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            conn = writer.get_extra_info("socket")
            found.set_result(conn.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener, address = open_socket(port=0)
        async with await asyncio.start_server(answer, sock=listener):
            _, writer = await asyncio.open_connection(address.host, address.port)
            no_delay = await found
            writer.close()
        return no_delay

    assert asyncio.run(accepted())


def test_an_address_of_another_machine_is_refused_with_a_remedy() -> None:
    with pytest.raises(Permanent, match="--host"):
        open_socket("192.0.2.1", 7420)


def test_it_serves_on_loopback_and_no_more_after_it_stopped(server: Server) -> None:
    url = server.address.url
    assert url.startswith("http://127.0.0.1:")
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.get(f"{url}/v1/workloads/{HELD}", headers=headers).json()["spec"]["name"] == HELD
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz")


def test_the_printed_address_signs_a_browser_in_once(server: Server) -> None:
    with httpx.Client() as browser:
        link = server.login_url()
        assert browser.get(link).status_code == 200
        assert browser.get(f"{server.address.url}/").status_code == 200
        assert browser.get(link).status_code == 401
