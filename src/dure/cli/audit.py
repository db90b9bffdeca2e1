"""`dure audit`: who changed what; whether the log and the database still say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import moment, output_options, print_data, print_table
from dure.cli.state import state_option
from dure.model.audit import AuditLine, Finding, Mark, check, origin_of
from dure.model.errors import Conflict, InvalidInput

_SHOWN = 20


@click.group()
def command() -> None:
    """Who changed what, in a log whose every line is sealed by the one before.

    \b
    Example:
      dure audit list
      dure audit verify
      dure audit export > audit.jsonl && dure audit verify --file audit.jsonl
    """


@command.command("list")
@click.option("--limit", type=click.IntRange(1, 5000), default=50, show_default=True)
@click.option("--who", help="Only what this person or program did.")
@click.option("--all", "everything", is_flag=True, help="Also what the plane decided by itself.")
@output_options
@state_option
def list_(limit: int, who: str | None, everything: bool, output: str, state: Path) -> None:
    """The newest lines: when, who, what they did, what changed by it."""
    lines = [_said(line) for line in Client(state).get("/v1/audit", newest="true", limit=5000)["items"]]
    chosen = [one for one in lines if (everything or one["who"] != "plane") and who in (None, one["who"])][-limit:]
    if output in ("json", "yaml"):
        print_data(chosen, output)
        return
    rows = [
        [str(one["seq"]), moment(one["at_s"]), one["who"], one["action"], _things(one.get("facts", ()))]
        for one in chosen
    ]
    print_table(["LINE", "WHEN", "WHO", "DID", "CHANGED"], rows)


@command.command()
@state_option
def export(state: Path) -> None:
    """Every line on standard output, one JSON object each; `verify --file` reads it."""
    client, after = Client(state), "0"
    while after:
        page = client.get("/v1/audit", after=after, limit=5000)
        for line in page["items"]:
            click.echo(json.dumps(line, ensure_ascii=False))
        after = page.get("next") or ""


@command.command()
@click.option(
    "--store", "store_url", default="", envvar="DURE_STORE", help="Database URL; else that of the state folder."
)
@click.option(
    "--file",
    "exported",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An exported log instead.",
)
@click.option("--mark", "marks", multiple=True, metavar="LINE:HASH", help="A line and its hash, kept elsewhere.")
@output_options
@state_option
def verify(store_url: str, exported: Path | None, marks: tuple[str, ...], output: str, state: Path) -> None:
    """Read every line and everything it speaks of; exit code 5 when something is not as it was written.

    Reads the database itself, needs no running Dure. The state folder keeps a mark of how far the log had come, so
    that a log which was cut off or written anew is found too; `--mark` adds marks of your own. After `dure prune` it
    begins where the cut says, and tells so.
    """
    known = [_mark(text) for text in marks]
    count, findings, gone = _of_file(exported, known) if exported else _of_database(store_url, state, known)
    if output in ("json", "yaml"):
        told = [[one.where, one.sentence] for one in findings]
        print_data({"lines": count, "first_line": gone + 1, "findings": told}, output)
    if findings:
        more = "".join(f"\n  {one.where}: {one.sentence}" for one in findings[:_SHOWN])
        raise Conflict(
            f"{len(findings)} things are not as they were written:{more}",
            remedy="Keep a copy of the database as it is, and compare it with a backup.",
        )
    if output not in ("json", "yaml"):
        since = f" from line {gone + 1} on, where the log was cut off" if gone else ""
        click.echo(f"{count} lines{since}: nothing was altered.")


def _of_file(path: Path, known: list[Mark]) -> tuple[int, list[Finding], int]:
    """How many lines, what is wrong with them, and after which one they begin."""
    import msgspec

    try:
        lines = [msgspec.json.decode(text, type=AuditLine) for text in path.read_bytes().splitlines()]
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"this is not an exported log: {error}", where=str(path)) from error
    if not lines:
        raise InvalidInput("there is no line in it", where=str(path), remedy="Make one: dure audit export > FILE")
    origin = origin_of(lines)
    return len(lines), list(check(lines, known=known, origin=origin)), origin.seq


def _of_database(url: str, state: Path, known: list[Mark]) -> tuple[int, list[Finding], int]:
    import msgspec

    from dure.adapters.store import open_store

    file = state / "dure.db"
    if not url and not file.exists():
        raise InvalidInput("there is no database", where=str(file), remedy="Name one: --store URL or --state DIR.")
    kept = state / "audit.mark"
    if not url and kept.exists():
        known = [*known, msgspec.json.decode(kept.read_bytes(), type=Mark)]
    store = open_store(url or f"sqlite:///{file}")
    try:
        return (*store.verify_audit(known), store.audit_origin().seq)
    finally:
        store.close()


def _mark(text: str) -> Mark:
    seq, _, hash_ = text.partition(":")
    if not seq.isdigit() or len(hash_) != 64:
        raise click.BadParameter(f"'{text}' is not LINE:HASH", param_hint="--mark")
    return Mark(int(seq), hash_)


def _said(line: dict[str, str]) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(line["body"])
    return {**said, "hash": line["hash"]}


def _things(facts: list[list[str]]) -> str:
    shown = [f"{kind} {name}" for kind, name, _ in facts if kind != "spec"]
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
