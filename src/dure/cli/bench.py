"""`dure bench NAME`: the benchmarks, each loaded when it is called."""

from __future__ import annotations

import importlib

import click

from dure.bench import BENCHES


class BenchGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(BENCHES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in BENCHES:
            return None
        command = importlib.import_module(BENCHES[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Benchmarks"):
            formatter.write_dl([(name, entry.help) for name, entry in BENCHES.items()])


@click.group(cls=BenchGroup)
def command() -> None:
    """Measure Dure against named opponents in the same run.

    \b
    Example:
      dure bench pack --list default --json
    """
