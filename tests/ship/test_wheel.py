"""What is published: the wheel holds everything, is the same every time, and works where only it is installed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATE = "1789948800"
# All tests of a built wheel share one build and one environment, hence one worker.
pytestmark = pytest.mark.xdist_group("wheel")


def build(folder: Path, *targets: str) -> list[Path]:
    """With the backend that is installed here, so without any network."""
    chosen = [word for target in targets for word in ("-t", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *chosen],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": DATE},
        check=True,
        capture_output=True,
    )
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [found] = build(tmp_path_factory.mktemp("dist"), "wheel")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has this wheel, and the dependencies but not the Dure of this checkout."""
    home = tmp_path_factory.mktemp("env")
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(home)], check=True)
    python = str(home / "bin/python")
    options = ["--no-deps", "--no-index", "--offline"]
    subprocess.run([*uv, "pip", "install", "-q", "--python", python, *options, str(wheel)], check=True)
    [site] = home.glob("lib/python*/site-packages")
    # A plain line adds a folder; links of editable installs inside of it are not followed.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return home / "bin"


def call(program: Path, *args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As from a shell, with nothing of this checkout on the path."""
    return subprocess.run([str(program), *args], cwd=folder, env=bare(folder), capture_output=True, text=True)


def locked_up(program: Path, *args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As in the container: a root that cannot be written, one folder that can, and no privilege. Where it can be had:
    a file system of one's own takes root."""
    tools = all(map(shutil.which, ("unshare", "setpriv", "mount")))
    if os.geteuid() != 0 or not tools or subprocess.run(["unshare", "--mount", "true"]).returncode != 0:
        return call(program, *args, folder=folder)
    lock = "mount --bind / / && mount --bind {0} {0} && mount -o remount,bind,ro / && ! touch {1} 2>/dev/null"
    drop = "exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all"
    where = shlex.quote(str(folder)), shlex.quote(str(program.parent / "written"))
    script = f"{lock.format(*where)} && {drop} {shlex.join([str(program), *args])}"
    environment = {**bare(folder), "NUMBA_CACHE_DIR": str(folder / "kernels"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True
    )


def bare(folder: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(folder), "DURE_STATE": str(folder / "state")}


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if tracked.returncode != 0:
        pytest.skip("this is no git checkout: the list of files is not known")
    wanted = {line.removeprefix("src/") for line in tracked.stdout.splitlines() if (ROOT / line).exists()}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith("dure-")}
    assert held == wanted
    assert {name.rsplit(".")[-1] for name in held} >= {"py", "html", "js", "css", "svg", "yaml", "typed"}


def test_two_builds_are_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    again, source = build(tmp_path / "one", "wheel", "sdist")
    if again.suffix != ".whl":
        again, source = source, again
    assert again.read_bytes() == wheel.read_bytes()
    [twice] = build(tmp_path / "two", "sdist")
    assert twice.read_bytes() == source.read_bytes()
    with tarfile.open(source) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"src", "tests", "deploy", "docs", "requirements", "Makefile", "LICENSE"} <= top


def test_an_installed_wheel_has_the_command_and_the_plugin_of_kubectl(installed: Path, tmp_path: Path) -> None:
    helped = call(installed / "dure", "--help", folder=tmp_path)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith("Usage: dure ")
    assert call(installed / "kubectl-dure", "--help", folder=tmp_path).stdout.startswith("Usage: kubectl dure ")
    found = call(installed / "python", "-c", "import dure; print(dure.__file__)", folder=tmp_path).stdout
    assert found.startswith(str(installed.parent)), "the wheel is what runs, not this checkout"


def test_an_installed_wheel_simulates_and_runs_and_answers(installed: Path, tmp_path: Path) -> None:
    simulated = locked_up(installed / "dure", "sim", "--days", "0.05", folder=tmp_path)
    assert simulated.returncode == 0, simulated.stderr
    assert "seoul-onprem" in simulated.stdout
    server = subprocess.Popen(
        [str(installed / "dure"), "up", "--port", "0"],
        cwd=tmp_path,
        env=bare(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(120, server.kill)
    watchdog.start()
    try:
        assert server.stdout is not None
        assert re.match(r"Dure is running: http://127\.0\.0\.1:\d+/login", server.stdout.readline())
        status = call(installed / "dure", "status", folder=tmp_path)
        assert (status.returncode, status.stderr) == (0, "")
        assert status.stdout.startswith("demo: ")
    finally:
        watchdog.cancel()
        server.send_signal(signal.SIGINT)
        _, told = server.communicate(timeout=60)
    assert (server.returncode, told) == (0, "Stopped; everything is kept.\n")
