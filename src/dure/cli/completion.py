"""`dure completion SHELL`: the script that makes the shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Example:
      dure completion bash > ~/.local/share/bash-completion/completions/dure
    """
    from dure.cli.root import dure

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(dure, {}, "dure", "_DURE_COMPLETE").source())
