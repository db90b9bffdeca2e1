"""Labs under attack: kill -9 of components, of the whole Python process, and starts that fail."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.cluster import OPTIONAL
from lab.errors import ComponentFailed, LabError
from lab.fixtures import LabFactory
from lab.lab import Lab
from lab.process import Component, spawn

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0

# A parent that starts children and then waits for the signal that kills it.
PARENT = """
import json, signal, sys, threading
from pathlib import Path
from lab.process import Component

part = Component("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], Path(sys.argv[1]), lambda: True)
starter = threading.Thread(target=part.start)
starter.start()
starter.join()
print(json.dumps({"pids": [part.pid], "alive": part.running}), flush=True)
signal.pause()
"""

LAB_PARENT = """
import json, signal, sys
from pathlib import Path
from lab import Lab

lab = Lab(["solo"], folder=Path(sys.argv[1]))
lab.start()
solo = lab["solo"]
print(json.dumps({"pids": [solo.pid(name) for name in solo.programs], "alive": True}), flush=True)
signal.pause()
"""


def alive(pid: int) -> bool:
    """Whether a process exists and is more than a corpse nobody has buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def wait_gone(pids: list[int]) -> list[int]:
    deadline = time.monotonic() + PATIENCE_S
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        os.sched_yield()
    return left


def killed_parent(script: str, argument: Path) -> list[int]:
    """Run a parent, read its children's ids, kill -9 it; the ids."""
    command = [sys.executable, "-c", script, str(argument)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        told = json.loads(parent.stdout.readline())
        assert told["alive"]
        assert all(alive(pid) for pid in told["pids"])
        parent.send_signal(signal.SIGKILL)
    return list(told["pids"])


def test_children_die_with_a_killed_parent_though_the_thread_that_asked_ended_before(tmp_path: Path) -> None:
    assert wait_gone(killed_parent(PARENT, tmp_path / "log")) == []


def test_a_component_that_ends_early_shows_the_end_of_its_log(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('no such port')"]
    part = Component("broken", argv, tmp_path / "broken.log", lambda: False)
    with pytest.raises(ComponentFailed, match=r"broken ended while starting\n.*broken.log:\nno such port"):
        part.start()


def test_a_component_that_never_answers_is_given_up(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    part = Component("mute", argv, tmp_path / "mute.log", lambda: False, ready_timeout_s=0.2)
    with pytest.raises(ComponentFailed, match="mute was not ready"):
        part.start()
    pid = part.pid
    part.kill()
    assert not alive(pid)


def test_stop_asks_first_and_kills_what_does_not_listen(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    log = tmp_path / "deaf.log"
    part = Component("deaf", [sys.executable, "-c", deaf], log, lambda: "up" in log.read_text())
    part.start()
    part.stop(grace_s=0.2)
    assert not part.running


def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    child = spawn([str(tmp_path / "nothing")], stdout=subprocess.DEVNULL)
    assert child.wait(PATIENCE_S) != 0


def test_wrong_names_are_refused_before_anything_starts() -> None:
    with pytest.raises(LabError, match="no cluster hbu in this lab; it has hub"):
        Lab(["hub"], kueue={"hbu"})
    with pytest.raises(LabError, match="kube-apiserver cannot be left out"):
        Lab(["hub"], off={"hub": {"kube-apiserver"}})


@pytest.mark.lab
def test_no_process_of_a_lab_survives_its_killed_parent(tmp_path: Path) -> None:
    pids = killed_parent(LAB_PARENT, tmp_path / "lab")
    assert len(pids) == 5
    assert wait_gone(pids) == []
    assert (tmp_path / "lab" / "solo" / "kube-apiserver.log").stat().st_size > 0, "logs are there to be read"


@pytest.mark.lab
def test_killed_api_server_and_etcd_come_back_with_their_data(lab_factory: LabFactory) -> None:
    lab = lab_factory(["solo"])
    solo = lab["solo"]
    solo.kubectl("create", "configmap", "kept", "--from-literal=colour=green")
    before = solo.api.get("/api/v1/namespaces/default/configmaps/kept")

    solo.kill("kube-apiserver")
    with pytest.raises(OSError, match="refused"):
        solo.api.get("/version")
    solo.start("kube-apiserver")
    assert solo.api.get("/api/v1/namespaces/default/configmaps/kept") == before

    lab.etcd.kill()
    assert not solo.running("etcd")
    solo.start("etcd")
    path = "/api/v1/namespaces/default/configmaps/kept"
    assert solo.api.until(path, lambda _: True, what="the API server to find its etcd") == before


@pytest.mark.lab
def test_a_cluster_goes_without_what_was_turned_off(lab_factory: LabFactory) -> None:
    bare = lab_factory(["bare"], off={"bare": OPTIONAL})["bare"]
    assert set(bare.programs) == {"etcd", "kube-apiserver"}
    assert bare.api.get("/api/v1/namespaces/default")["status"]["phase"] == "Active"
    with pytest.raises(ComponentFailed, match="cluster bare has no kwok; it has etcd, kube-apiserver"):
        bare.kill("kwok")


@pytest.mark.lab
def test_after_an_error_the_logs_are_kept_and_after_success_they_go(tmp_path: Path) -> None:
    off = {"x": OPTIONAL}
    with pytest.raises(ZeroDivisionError), Lab(["x"], off=off, folder=tmp_path / "bad"):
        _ = 1 / 0
    assert (tmp_path / "bad" / "x" / "kube-apiserver.log").exists()
    with Lab(["x"], off=off, folder=tmp_path / "good"):
        pass
    assert not (tmp_path / "good").exists()


@pytest.mark.lab
def test_folders_of_labs_killed_days_ago_are_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old, new = tmp_path / "dure-lab-run-old", tmp_path / "dure-lab-run-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (0, 0))
    with Lab(["x"], off={"x": OPTIONAL}):
        assert not old.exists()
        assert new.exists()
