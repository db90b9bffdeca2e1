"""Where a running Dure keeps its state, and how the other commands find it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from dure.adapters.whole import write_whole
from dure.model.errors import Temporary


def default_state() -> Path:
    named = os.environ.get("DURE_STATE")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(named) if named else Path(base) / "dure"


state_option = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_state,
    show_default="$DURE_STATE or ~/.local/state/dure",
    help="Folder that holds the state.",
)


def write_address(state: Path, url: str, ca: Path | None = None) -> None:
    found = {"url": url, "pid": os.getpid(), **({"ca": str(ca)} if ca else {})}
    write_whole(state / "address.json", json.dumps(found).encode())


def remove_address(state: Path) -> None:
    (state / "address.json").unlink(missing_ok=True)


def find_authority(state: Path) -> str:
    """The file that says which certificates to trust: `DURE_CA`, else that of the Dure that runs here; or none."""
    named = os.environ.get("DURE_CA")
    if named or os.environ.get("DURE_URL"):
        return named or ""
    try:
        return str(json.loads((state / "address.json").read_text(encoding="utf-8")).get("ca", ""))
    except (OSError, ValueError):
        return ""


def find(state: Path) -> tuple[str, str]:
    """Address and token: from `DURE_URL` and `DURE_TOKEN`, else from the state folder of the one that runs here."""
    url, token = os.environ.get("DURE_URL"), os.environ.get("DURE_TOKEN")
    try:
        if not url:
            url = str(json.loads((state / "address.json").read_text(encoding="utf-8"))["url"])
        if not token:
            token = (state / "token").read_text(encoding="utf-8").strip()
    except (OSError, ValueError, KeyError) as error:
        raise Temporary(
            f"no Dure is running with its state in {state}",
            remedy="Start one with 'dure up', or name it: --state DIR, or DURE_URL and DURE_TOKEN.",
        ) from error
    return url, token
