"""Small files that are there whole or not at all, whenever the process is killed or the power fails.

For tokens, keys, marks and whatever else a state folder holds outside of its database. A file is written beside its
place, brought to disk and then moved there, which is one step for everybody who looks.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, body: bytes, mode: int = 0o644) -> None:
    """Never for a moment readable by more than `mode` says."""
    beside = _written(path, body, mode)
    os.replace(beside, path)


def create_whole(path: Path, body: bytes, mode: int = 0o644) -> bool:
    """As `write_whole`, but leaves what is there already and answers False then."""
    beside = _written(path, body, mode)
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(beside)
    return True


def _written(path: Path, body: bytes, mode: int) -> Path:
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    return beside
