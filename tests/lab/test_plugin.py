"""`kubectl dure`: the real kubectl finds the plugin on the path and hands everything over to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.build import ensure
from tests.e2e.conftest import Up

pytestmark = pytest.mark.lab


def kubectl(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = ensure(["kubectl"])["kubectl"] / "kubectl"
    return subprocess.run(
        [str(program), *args], env={**os.environ, "PATH": path, **more}, capture_output=True, text=True
    )


def test_kubectl_lists_the_plugin_and_shows_its_help() -> None:
    assert "kubectl-dure" in kubectl("plugin", "list").stdout
    helped = kubectl("dure", "why", "--help")
    assert helped.stdout.startswith("Usage: kubectl dure why ")


def test_kubectl_dure_asks_a_running_plane_and_passes_its_exit_code_on(tmp_path: Path) -> None:
    server = Up(tmp_path / "state", "--port", "0")
    try:
        status = kubectl("dure", "status", "--json", DURE_STATE=str(server.state))
        assert status.returncode == 0, status.stderr
        assert len(json.loads(status.stdout)["clusters"]) == 4
        nobody = kubectl("dure", "why", "nobody", DURE_STATE=str(server.state))
        assert nobody.returncode == 4
        assert "nobody" in nobody.stderr
    finally:
        server.stop()
