"""The name under which an agent stands for election: its own, kept beside its other state.

Called by those who hold the lock of that folder, so that never two living processes share it. A process that was
killed comes back under the same name and need not wait until its own lease has run out.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from dure.adapters.whole import write_whole


def fetch_identity(path: Path) -> str:
    if path.exists() and (known := path.read_text(encoding="ascii").strip()):
        return known
    host = "".join(one for one in socket.gethostname().lower() if one.isascii() and (one.isalnum() or one in "-."))
    made = f"{host[:200] or 'agent'}-{secrets.token_hex(4)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{made}\n".encode("ascii"))
    return made
