"""The API over a small world: in process for contracts, on a loopback port where a real connection matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from dure.api.app import App, create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.web.pages import pages
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.small_world import SmallWorld


@pytest.fixture
def world() -> SmallWorld:
    return SmallWorld()


@pytest.fixture
def app(world: SmallWorld) -> App:
    return create_app(world, Keys(TOKEN), pages=pages())


@pytest.fixture
def stranger(app: App) -> Iterator[Client]:
    """A client without token or cookie."""
    asgi: Any = app.asgi
    with TestClient(asgi, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def client(stranger: Client) -> Client:
    stranger.headers["authorization"] = f"Bearer {TOKEN}"
    return stranger


@pytest.fixture
def server(app: App) -> Iterator[Server]:
    running = Server(app, *open_socket(port=0))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def app_keys(app: App) -> Keys:
    return app.service.keys
