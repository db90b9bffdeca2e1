"""A bug report leaves no secret behind, and what is in it can be played again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.cli.redact import REMOVED, redacted
from dure.cli.root import run
from dure.embedded.live import LiveFleet
from dure.files.builtin import catalogue, demo_fleet

TOKEN = "a-token-that-nobody-may-see-0123456789"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A demo fleet that has turned a few times, behind a real socket."""
    fleet = LiveFleet(demo_fleet(), catalogue(), tmp_path / "state", speed=600)
    for _ in range(4):
        fleet.turn()
    running = Server(create_app(fleet.desk, Keys(TOKEN), samples=fleet.samples), *open_socket(port=0))
    running.start()
    monkeypatch.setenv("DURE_URL", running.address.url)
    monkeypatch.setenv("DURE_TOKEN", TOKEN)
    yield running
    running.stop()
    fleet.samples.close()
    fleet.store.close()


def test_a_report_holds_the_fleet_without_its_token_and_is_played_again(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bug.json.gz"
    assert run(["bugreport", "--out", str(file)]) == 0
    text = gzip.decompress(file.read_bytes()).decode()
    body = json.loads(text)
    assert TOKEN not in text
    assert body["workloads"]
    assert any(one["check"] == "server" for one in body["doctor"])
    capsys.readouterr()
    assert run(["sim", "--from", str(file), "--json"]) == 0
    played = json.loads(capsys.readouterr().out)
    assert played["fleet"] == "demo"
    assert played["submitted"] == len({one["spec"]["name"] for one in body["workloads"]})


def test_the_doctor_looks_at_everything_and_finds_no_error(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--json", "--state", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"server", "version", "ready", "cluster", "metrics", "figures", "ledger", "promise"} <= {
        one["check"] for one in found
    }
    assert all(one["remedy"] for one in found if one["level"] != "ok")


def test_the_doctor_tells_what_is_wrong_with_a_cluster_of_the_fleet_file(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = tmp_path / "fleet.yaml"
    builtin = (resources.files("dure.files.builtin") / "demo.yaml").read_text()
    fleet.write_text(builtin.replace("connect: {embedded: {}}", "connect: {kubeconfig: /nowhere/config}", 1))
    run(["doctor", "--json", "--state", str(tmp_path), "--fleet", str(fleet)])
    found = json.loads(capsys.readouterr().out)
    wrong = [one for one in found if one["check"] in ("kube", "fleet") and one["level"] == "error"]
    assert wrong
    assert wrong[0]["remedy"]


def test_a_bill_can_look_ahead_for_one_tenant_or_the_fleet(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bill", "vision", "--forecast", "--json"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert own["tenant"] == "vision"
    assert run(["bill", "--forecast"]) == 0
    assert "the fleet" in capsys.readouterr().out
    assert run(["bill", "vision", "--forecast", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("at_s,value")
    assert run(["bill", "nobody", "--forecast"]) == 4
    assert run(["bill", "--forecast", "--month", "2026-11"]) == 2


def test_a_file_that_is_no_report_is_refused_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "no.gz"
    file.write_bytes(b"no gzip")
    assert run(["sim", "--from", str(file)]) == 2
    assert "dure bugreport" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefgh12345678",
        "postgresql://dure:hunter2@db/dure",
        "password=hunter2",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
        "VctZ6XeUjGksztBqQ6XuqkcMfwFXOjRI",
    ],
)
def test_what_looks_like_a_secret_is_removed_from_any_text(text: str) -> None:
    made = redacted({"message": f"it said {text} then"})["message"]
    assert REMOVED in made
    for part in ("hunter2", "MIIEvQ", "abcdefgh12345678", "eyJ", "VctZ6"):
        assert part not in made


def test_fields_are_judged_by_their_names_and_the_rest_stays() -> None:
    seen = {
        "apiKey": "k",
        "template": "{}",
        "nested": [{"name": "chat", "token": "t", "ready": 3}],
        "uid": "ab12" * 8,
    }
    assert redacted(seen) == {
        "apiKey": REMOVED,
        "template": REMOVED,
        "nested": [{"name": "chat", "token": REMOVED, "ready": 3}],
        "uid": "ab12" * 8,
    }
