"""A lab that stays up after the command that started it: `python -m lab up`, `status`, `down`.

Used by `lab.__main__`. A holder process owns the lab; `up` waits for it, `down` asks it to end. If the holder is
killed, all its children die with it (see `lab.leash`).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.cache import default_root
from lab.errors import LabError
from lab.lab import Lab
from lab.nodes import node_groups

POLL_S = 0.1
DOWN_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Held:
    """What the holder writes down once everything is ready."""

    pid: int
    folder: str
    kubeconfigs: dict[str, str]
    pids: dict[str, int]


def run_folder() -> Path:
    """`$DURE_LAB_RUN`, or a folder in the cache; one lab can be up per folder."""
    named = os.environ.get("DURE_LAB_RUN")
    return Path(named) if named else default_root() / "run"


def up(clusters: list[str], kueue: Collection[str], nodes: Path | None) -> Held:
    """Start a holder in the background and wait until its lab is ready."""
    if held() is not None:
        raise LabError("a lab is already up; see `python -m lab status`, end it with `python -m lab down`")
    if nodes is not None:
        node_groups(nodes)
    folder = run_folder()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "lab", "hold", "--clusters", *clusters, "--kueue", *kueue]
    command += ["--nodes", str(nodes.resolve())] if nodes is not None else []
    with (folder / "holder.log").open("ab") as log:
        root = Path(__file__).parent.parent
        holder = subprocess.Popen(command, cwd=root, stdout=log, stderr=log, start_new_session=True)
    try:
        while not (folder / "held.json").exists():
            if holder.poll() is not None:
                raise LabError(f"the lab did not start:\n{(folder / 'holder.log').read_text()}")
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        holder.kill()
        raise
    found = held()
    if found is None:
        raise LabError(f"the lab ended at once; see {folder}")
    return found


def hold(clusters: list[str], kueue: Collection[str], nodes: Path | None) -> None:
    """The holder: start the lab, write down where it is, wait for SIGTERM."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    signal.signal(signal.SIGINT, lambda *_: asked.set())
    folder = run_folder()
    with Lab(clusters, kueue=kueue, folder=folder / "lab", keep=True) as lab:
        for name in lab:
            if nodes is not None:
                lab[name].add_nodes(nodes)
        kubeconfigs = {name: str(lab[name].kubeconfig_path) for name in lab}
        state = Held(os.getpid(), str(lab.folder), kubeconfigs, dict(_pids(lab)))
        partial = folder / "held.partial"
        partial.write_text(json.dumps(asdict(state), indent=1))
        partial.rename(folder / "held.json")
        asked.wait()
    (folder / "held.json").unlink()


def held() -> Held | None:
    """The lab that is up, if one is."""
    try:
        found = Held(**json.loads((run_folder() / "held.json").read_text()))
        # Process ids are used again; the command line tells whether this one is still the holder.
        words = Path(f"/proc/{found.pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, TypeError):
        return None
    return found if b"hold" in words and b"lab" in words else None


def down() -> bool:
    """End the lab that is up; False when there is none."""
    found = held()
    if found is None:
        return False
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_TIMEOUT_S
    while held() is not None:
        if time.monotonic() > deadline:
            os.kill(found.pid, signal.SIGKILL)
            break
        time.sleep(POLL_S)
    shutil.rmtree(run_folder(), ignore_errors=True)
    return True


def resident_mib(pid: int) -> int:
    """Memory a process holds now; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    kib = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)
    return kib // 1024


def _pids(lab: Lab) -> Iterator[tuple[str, int]]:
    yield "etcd", lab.etcd.pid
    for name in lab:
        for program in lab[name].programs:
            if program != "etcd":
                yield f"{name}/{program}", lab[name].pid(program)
