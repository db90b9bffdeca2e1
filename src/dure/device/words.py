"""What people said about a device's tenants, in a file beside the daemon's socket, so that it outlives the daemon."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dure.device.tuning import Spoken
from dure.share.feedback import Said


def spoken_in(path: Path) -> Spoken:
    """What the file holds; every further word is written to it at once. An unreadable file counts as empty."""
    try:
        said = msgspec.json.decode(path.read_bytes(), type=tuple[Said, ...])
    except (OSError, msgspec.MsgspecError):
        said = ()
    return Spoken(said=said, keep=lambda now: _write(path, now))


def _write(path: Path, said: tuple[Said, ...]) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(said))
    beside.replace(path)
