"""`dure share` and `dure feedback` against a real daemon, over its socket and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import onnx
import pytest

from dure.adapters.onnx.models import sample_input, write_model
from dure.cli.root import run
from dure.device.config import DeviceConfig, TenantConfig
from dure.device.executor import Executor
from dure.device.server import Door
from dure.share.promise import Promise


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("device")
    model = write_model("recommender", folder / "m.onnx")
    executor = Executor(
        DeviceConfig(
            (TenantConfig("ranker", str(model), promise=Promise(latency_ms=80.0)),), cores=1, admission=False
        )
    )
    door = Door(executor, folder / "d.sock")
    executor.submit("ranker", sample_input(onnx.load(str(model)))).result(120.0)
    yield str(folder / "d.sock"), door.address
    door.close()
    executor.close()


def test_status_over_socket_and_http(daemon: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for where in daemon:
        assert run(["share", "status", "--device", where, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["tenants"][0]["name"] == "ranker"
    assert run(["share", "status", "--device", daemon[0]]) == 0
    assert "ranker" in capsys.readouterr().out


def test_a_policy_is_set_and_an_unknown_one_refused(
    daemon: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["share", "policy", "set", "slo", "--device", daemon[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "slo"
    assert run(["share", "policy", "set", "best", "--device", daemon[0]]) == 2
    assert "no sharing policy 'best'" in capsys.readouterr().err


def test_pairs_are_listed(daemon: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["share", "pairs", "--device", daemon[0], "--json"]) == 0
    # One tenant has nobody beside it.
    assert json.loads(capsys.readouterr().out) == {"pairs": []}
    assert run(["share", "pairs", "--device", daemon[0]]) == 0
    assert "BESIDE" in capsys.readouterr().out


def test_squads_weights_and_timeline_are_listed(
    daemon: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["share", "squads", "--device", daemon[0]]) == 0
    assert "ranker x" in capsys.readouterr().out
    assert run(["share", "weights", "--device", daemon[0], "--json"]) == 0
    assert "weights" in json.loads(capsys.readouterr().out)
    page = tmp_path / "t.html"
    assert run(["share", "timeline", "--window", "600", "--device", daemon[0], "--report", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spans"]
    assert "Device timeline" in page.read_text()


def test_feedback_moves_the_target(daemon: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["feedback", "ranker", "--too-slow", "--device", daemon[0]]) == 0
    assert "80 ms -> 68 ms" in capsys.readouterr().out
    assert run(["feedback", "nobody", "--fine", "--device", daemon[0]]) == 4
    assert run(["feedback", "ranker", "--device", daemon[0]]) == 2


def test_no_daemon_is_a_temporary_failure_that_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["share", "status", "--device", str(tmp_path / "none.sock")]) == 6
    assert "dure device run" in capsys.readouterr().err


def test_malformed_requests_are_answered_with_problems(daemon: tuple[str, str]) -> None:
    with httpx.Client(base_url=daemon[1]) as client:
        assert client.post("/v1/tenants/ranker/infer", content=b"{").status_code == 400
        assert client.post("/v1/tenants/ranker/infer", json={"inputs": 3}).status_code == 400
        assert client.post("/v1/tenants/ranker/infer", json={}).status_code == 400
        assert client.get("/v1/nothing").status_code == 404
        assert client.get("/v1/share/squads?after=x").status_code == 400


def test_the_device_command_wants_a_file_or_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["device", "run"]) == 2
    assert "--demo" in capsys.readouterr().err
