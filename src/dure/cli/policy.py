"""`dure policy`: the goals of the fleet as versioned objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dure.cli.client import Client
from dure.cli.output import output_options, print_data, print_table
from dure.cli.state import state_option


@click.group()
def command() -> None:
    """Goals of the fleet: what placement weighs, what it must not do, or whose code decides.

    A policy is changed while Dure runs; every version is kept and every change is an event.

    \b
    Example:
      dure policy apply examples/policy.yaml
      dure policy history greener
      dure policy rollback greener
    """


@command.command("list")
@output_options
@state_option
def list_(output: str, state: Path) -> None:
    """The newest version of every policy."""
    found = Client(state).items("/v1/policies")
    _print(found, output)


@command.command()
@click.argument("name")
@output_options
@state_option
def show(name: str, output: str, state: Path) -> None:
    """One policy with its settings."""
    found = Client(state).get(f"/v1/policies/{name}")
    _print(found, output)


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@state_option
def apply(file: Path, state: Path) -> None:
    """Make the policies of FILE hold from now on; the same file again changes nothing."""
    from dure.files import read_files
    from dure.files.dump import to_yaml
    from dure.model.errors import InvalidInput

    found = read_files([file]).policies
    if not found:
        raise InvalidInput("no Policy in this file", where=str(file), remedy="Write kind: Policy; dure schema policy")
    applied = Client(state).send("POST", "/v1/apply", to_yaml(found))
    for step in applied["steps"]:
        click.echo(f"policy {step['name']}: {step['action']}")


@command.command()
@click.argument("name")
@output_options
@state_option
def history(name: str, output: str, state: Path) -> None:
    """Every version, oldest first."""
    found = Client(state).get(f"/v1/policies/{name}/history")
    _print(found, output)


@command.command()
@click.argument("name")
@click.option("--to", "version", type=click.IntRange(1), help="Which version; the one before the present without it.")
@state_option
def rollback(name: str, version: int | None, state: Path) -> None:
    """Make an earlier version hold again, as a new one."""
    query = f"?version={version}" if version is not None else ""
    found = Client(state).send("POST", f"/v1/policies/{name}/rollback{query}")
    click.echo(f"policy {name} is at version {found.get('version', 1)}: {_settings(found)}")


def _print(found: list[dict[str, Any]] | dict[str, Any], output: str) -> None:
    """One policy or several, as a table or whole."""
    if output in ("json", "yaml"):
        print_data(found, output)
    else:
        _table(found if isinstance(found, list) else [found])


def _table(found: list[dict[str, Any]]) -> None:
    rows = [
        [
            one["name"],
            str(one.get("version", 1)),
            one["verb"],
            one.get("algorithm", "default"),
            "paused" if one.get("paused") else "",
            one.get("changed_by", "-"),
            _settings(one),
        ]
        for one in found
    ]
    print_table(["NAME", "VERSION", "VERB", "ALGORITHM", "", "BY", "SETTINGS"], rows)


def _settings(one: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in one.get("settings", {}).items()) or "-"
