"""Control groups of real nodes: found and removed, on version 1 and on version 2 alike. Used by `lab.node`."""

import contextlib
import time
from pathlib import Path

from lab.ports import in_use

ROOT = Path("/sys/fs/cgroup")
PREFIX = "dure-lab-"
# Processes of an ended node leave their groups a moment after they were killed.
PATIENCE_S = 10.0
POLL_S = 0.05


def remove(name: str, root: Path = ROOT, patience_s: float = PATIENCE_S) -> None:
    """Remove the group of that name and those below it, in every hierarchy."""
    deadline = time.monotonic() + patience_s
    while True:
        for top in _tops(name, root):
            _remove_tree(top)
        if not _tops(name, root) or time.monotonic() > deadline:
            return
        time.sleep(POLL_S)


def sweep(root: Path = ROOT) -> None:
    """Remove what labs that were killed left behind; a group is named after a port that its lab held."""
    names = {top.name for top in _tops(f"{PREFIX}*", root)}
    for name in sorted(names):
        number = name.removeprefix(PREFIX)
        if number.isdigit() and not in_use(int(number)):
            remove(name, root, patience_s=0.0)


def _tops(pattern: str, root: Path) -> list[Path]:
    return [*root.glob(pattern), *root.glob(f"*/{pattern}")]


def _remove_tree(top: Path) -> None:
    for folder in sorted((f for f in top.rglob("*") if f.is_dir()), key=lambda f: -len(f.parts)):
        with contextlib.suppress(OSError):
            folder.rmdir()
    with contextlib.suppress(OSError):
        top.rmdir()
