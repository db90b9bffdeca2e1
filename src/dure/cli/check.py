"""`dure check`: validate files without a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import msgspec

from dure.files import Documents, InvalidFile, read_files, read_text
from dure.files.yaml import MAX_BYTES
from dure.model.fleet import Fleet

_KINDS = {"fleets": "fleet", "workloads": "workload", "tenants": "tenant", "policies": "policy"}


@click.command()
@click.option("-f", "--file", "paths", multiple=True, required=True, help="File or folder; - is standard input.")
@click.option("--fleet", "fleet_path", type=click.Path(path_type=Path), help="Fleet that the files are meant for.")
@click.option("--strict", is_flag=True, help="Warnings fail, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, paths: tuple[str, ...], fleet_path: Path | None, strict: bool, as_json: bool) -> None:
    """Validate files of the kinds Fleet, Workload, Tenant and Policy.

    Names every problem with file, line and key. Exit code 0 when all is well, 2 when not.

    \b
    Example:
      dure check -f fleet.yaml -f workloads/
      dure check -f train.yaml --fleet fleet.yaml --json
    """
    try:
        documents = _read(paths, _fleet(fleet_path))
    except InvalidFile as error:
        if not as_json:
            raise
        _print_json(None, error)
        ctx.exit(InvalidFile.exit_code)
    failed = strict and bool(documents.warnings)
    if as_json:
        _print_json(documents, None, failed)
    else:
        _print_text(documents)
    if failed:
        ctx.exit(InvalidFile.exit_code)


def _fleet(path: Path | None) -> Fleet | None:
    fleets = read_files([path]).fleets if path is not None else ()
    if path is not None and not fleets:
        raise click.UsageError(f"{path} holds no Fleet.")
    return fleets[0] if fleets else None


def _read(paths: tuple[str, ...], fleet: Fleet | None) -> Documents:
    if "-" not in paths:
        return read_files([Path(path) for path in paths], fleet=fleet)
    if len(paths) > 1:
        raise click.UsageError("Standard input (-f -) cannot be mixed with files.")
    return read_text(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input", fleet=fleet)


def _print_text(documents: Documents) -> None:
    for warning in documents.warnings:
        click.echo(f"warning: {warning}", err=True)
    counts = {kind: len(getattr(documents, kind)) for kind in _KINDS}
    found = ", ".join(f"{n} {kind if n > 1 else _KINDS[kind]}" for kind, n in counts.items() if n)
    click.echo(f"ok: {found}")


def _print_json(documents: Documents | None, error: InvalidFile | None, failed: bool = False) -> None:
    names = {kind: [each.name for each in getattr(documents, kind, ())] for kind in _KINDS}
    answer = {
        "ok": error is None and not failed,
        **names,
        "problems": msgspec.to_builtins(error.problems) if error else [],
        "warnings": msgspec.to_builtins(documents.warnings) if documents else [],
    }
    click.echo(json.dumps(answer, ensure_ascii=False))
