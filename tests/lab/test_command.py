"""`python -m lab` and the switch that leaves real clusters out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import background
from lab.__main__ import main
from lab.fixtures import why_no_lab

ROOT = Path(__file__).parents[2]


def test_without_go_one_line_says_what_is_left_out_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DURE_LAB", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert why_no_lab() == "tests on real clusters are left out: Go is not installed"
    assert main(["build", "--if-go"]) == 0
    assert capsys.readouterr().err == (
        "lab: not built, tests on real clusters will be skipped: Go is not installed\n"
    )


def test_an_old_go_is_said_to_be_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "go"
    fake.write_text("#!/bin/sh\necho go1.21.3\n")
    fake.chmod(0o755)
    monkeypatch.delenv("DURE_LAB", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert why_no_lab() == "tests on real clusters are left out: Go 1.26 or newer is needed, go1.21.3 is installed"


def test_lab_0_leaves_real_clusters_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURE_LAB", "0")
    assert why_no_lab() == "tests on real clusters are left out: LAB=0"


def test_status_and_down_say_when_nothing_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DURE_LAB_RUN", str(tmp_path))
    assert main(["status"]) == 1
    assert main(["down"]) == 0
    assert "no lab is up; start one" in capsys.readouterr().out


def test_the_record_of_a_holder_that_is_gone_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURE_LAB_RUN", str(tmp_path))
    (tmp_path / "held.json").write_text(f'{{"pid": {os.getpid()}, "folder": "x", "kubeconfigs": {{}}, "pids": {{}}}}')
    assert background.held() is None


def test_a_mistake_in_the_nodes_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DURE_LAB_RUN", str(tmp_path))
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text("nodes: [{grup: x}]")
    assert main(["up", "--nodes", str(nodes)]) == 1
    assert "unknown key 'grup'" in capsys.readouterr().err


@pytest.mark.lab
def test_a_lab_stays_up_between_commands(tmp_path: Path) -> None:
    env = {**os.environ, "DURE_LAB_RUN": str(tmp_path / "run")}

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lab", *words]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)

    try:
        started = lab("up", "--clusters", "solo")
        assert started.returncode == 0, started.stderr
        assert "already up" in lab("up").stderr
        status = lab("status").stdout
        assert "solo\texport KUBECONFIG=" in status
        assert "solo/kube-apiserver\tpid " in status
    finally:
        ended = lab("down")
    assert ended.stdout == "the lab is down\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.lab
def test_logs_of_a_failed_test_are_kept_and_those_of_a_good_one_go(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["lab.fixtures"]\n')
    (tmp_path / "test_one.py").write_text(
        "import pytest\n"
        "from lab.cluster import OPTIONAL\n"
        "@pytest.mark.lab\n"
        "@pytest.mark.parametrize('good', [True, False])\n"
        "def test_it(lab_factory, good):\n"
        "    lab_factory(['x'], off={'x': OPTIONAL})\n"
        "    assert good\n"
    )
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout
    [kept] = (tmp_path / "tmp").glob("dure-lab-run-*")
    assert (kept / "x" / "kube-apiserver.log").exists()
