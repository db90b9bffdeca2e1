"""One process per state folder: a second one is told who has it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dure.model.errors import Conflict, Permanent


@contextmanager
def hold(state: Path, name: str = "lock") -> Iterator[None]:
    """Locked by the kernel, so a process that was killed holds nothing; one that is paused still does."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        file = os.open(state / name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Permanent(
            f"cannot write to the state folder: {error.strerror}",
            where=str(state),
            remedy="Name another with --state.",
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        yield
    except BlockingIOError as error:
        owner = os.pread(file, 20, 0).decode() or "unknown"
        raise Conflict(
            f"another Dure (process {owner}) uses this state folder",
            where=str(state),
            remedy="Stop it, or name another folder with --state.",
        ) from error
    finally:
        os.close(file)
