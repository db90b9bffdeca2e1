"""The contract of shared devices over the API, and the command line against it."""

from __future__ import annotations

import json

import pytest

from dure.api.app import App, create_app
from dure.api.auth import Keys
from dure.api.server import Server
from dure.cli.root import run
from dure.embedded.sharing import SharedFleet
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.small_world import SmallWorld
from tests.unit.embedded.test_sharing import NAMES, Scene, device


@pytest.fixture
def shares() -> SharedFleet:
    scene = Scene()
    scene.report(device("b", *NAMES), device("a", "chat"))
    scene.turn()
    return scene.shared


@pytest.fixture
def app(world: SmallWorld, shares: SharedFleet) -> App:
    return create_app(world, Keys(TOKEN), shares=shares)


@pytest.fixture
def at_shell(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("DURE_URL", server.address.url)
    monkeypatch.setenv("DURE_TOKEN", TOKEN)
    monkeypatch.setenv("DURE_STATE", str(tmp_path_factory.mktemp("state")))
    monkeypatch.delenv("DURE_DEVICE", raising=False)


def test_devices_status_squads_timeline_and_view_can_be_read(client: Client) -> None:
    assert [d["device"] for d in client.get("/v1/share/devices").json()["items"]] == ["seoul/a", "seoul/b"]
    assert client.get("/v1/share/status").json()["device"] == "seoul/b"
    assert client.get("/v1/share/status", params={"device": "seoul/a"}).json()["device"] == "seoul/a"
    squads = client.get("/v1/share/squads").json()["squads"]
    assert squads
    last = squads[-1]["number"]
    assert client.get("/v1/share/squads", params={"after": last}).json()["squads"] == []
    found = client.get("/v1/share/timeline", params={"window": 500}).json()
    assert {"spans", "bubbles", "squads", "weights", "now_ms"} <= found.keys()
    assert client.get("/v1/share/view").json()["devices"] == ["seoul/a", "seoul/b"]


def test_a_policy_and_a_word_can_be_given(client: Client) -> None:
    assert client.put("/v1/share/policy", json={"policy": "slo"}).json()["policy"] == "slo"
    assert client.put("/v1/share/policy", json={"policy": "fastest"}).status_code == 400
    assert client.put("/v1/share/policy", json={"policie": "slo"}).status_code == 400
    moved = client.post("/v1/share/feedback", json={"tenant": "embed", "word": "batch"}).json()
    assert moved["target_ms"] > moved["before_ms"]
    assert client.post("/v1/share/feedback", json={"tenant": "embed", "word": "meh"}).status_code == 400
    assert client.post("/v1/share/feedback", json={"tenant": "nobody", "word": "fine"}).status_code == 404


@pytest.mark.parametrize("path", ["status", "squads", "timeline", "devices", "view"])
def test_strangers_read_nothing(stranger: Client, path: str) -> None:
    assert stranger.get(f"/v1/share/{path}").status_code == 401


def test_a_server_without_shared_devices_says_where_to_ask(world: SmallWorld) -> None:
    from litestar.testing import TestClient

    bare = create_app(world, Keys(TOKEN))
    with TestClient(bare.asgi, base_url="http://127.0.0.1") as client:  # type: ignore[type-var]
        client.headers["authorization"] = f"Bearer {TOKEN}"
        answer = client.get("/v1/share/status")
        assert answer.status_code == 404
        assert "--device" in answer.json()["remedy"]
        assert client.get("/v1/share/view").json() == {"devices": [], "status": None, "timeline": None}


def test_the_command_line_asks_the_running_server(at_shell: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["share", "devices"]) == 0
    assert "seoul/b" in capsys.readouterr().out
    assert run(["share", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == "seoul/b"
    assert run(["share", "policy", "set", "hybrid", "--device", "seoul/a"]) == 0
    assert "policy hybrid (fixed), 18 partitions" in capsys.readouterr().out
    assert run(["share", "squads", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["members"]
    assert run(["share", "weights"]) == 0
    assert "embed" in capsys.readouterr().out
    assert run(["feedback", "embed", "--too-slow"]) == 0
    assert "for an hour" in capsys.readouterr().out
    assert run(["share", "status", "--device", "seoul/zz"]) == 4
    assert run(["share", "policy", "set", "fastest"]) == 2
