"""Every command with its options and examples, read off the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from dure.cli.registry import ALIASES, COMMANDS
from dure.cli.root import dure
from handbook.text import cell, table

HEAD = """\
# Commands

Every command of `dure`, as `--help` tells it. `kubectl dure ...` is the same where kubectl is at hand. Exit codes:
0 done, 1 failed, 2 wrong input, 3 not allowed, 4 not found, 5 conflict, 6 temporary.
"""


def page() -> str:
    parts = [HEAD, _overview()]
    parts += [_section(path, command) for path, command in walk()]
    return "\n".join(parts)


def walk() -> Iterator[tuple[str, click.Command]]:
    """Every command and group with its whole name, groups before what is in them."""
    context = click.Context(dure, info_name="dure")
    for name in COMMANDS:
        command = dure.get_command(context, name)
        assert command is not None
        yield from _below(f"dure {name}", command, context)


def _below(path: str, command: click.Command, parent: click.Context) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path, parent=parent)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _below(f"{path} {name}", inner, context)


def _overview() -> str:
    rows = [
        (f"[`dure {name}`](#dure-{name})", entry.help, entry.section)
        for name, entry in sorted(COMMANDS.items(), key=lambda one: one[1].section)
    ]
    rows += [(f"`dure {name}`", f"Short for `dure {' '.join(words)}`.", "") for name, words in ALIASES.items()]
    return table(("command", "what for", "part"), rows)


def _section(path: str, command: click.Command) -> str:
    level = "#" * min(path.count(" ") + 1, 4)
    prose, example = _told(command)
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    parts = [f"{level} {path}\n", f"{prose}\n", f"```\n{usage}\n```\n"]
    rows = [row for parameter in command.params if (row := _row(parameter, context)) is not None]
    if rows:
        parts.append(table(("option", "meaning"), rows))
    if example:
        parts.append(f"Example:\n\n```\n{example}\n```\n")
    return "\n".join(parts)


def _told(command: click.Command) -> tuple[str, str]:
    """What a command says of itself, and its example."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    prose, _, example = text.partition("Example:\n")
    return prose.strip(), inspect.cleandoc(example).strip()


def _row(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    if not isinstance(parameter, click.Option):
        return (f"`{parameter.make_metavar(context)}`", "argument") if parameter.nargs != 0 else None
    if parameter.hidden:
        return None
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    kind = "" if parameter.is_flag else f" `{cell(parameter.make_metavar(context))}`"
    extra = [parameter.help or ""]
    if parameter.required:
        extra.append("**Needed.**")
    if parameter.multiple:
        extra.append("May be repeated.")
    if isinstance(parameter.show_default, str):
        extra.append(f"Default: {parameter.show_default}.")
    elif parameter.show_default and parameter.default is not None and not callable(parameter.default):
        extra.append(f"Default: `{parameter.default}`.")
    if isinstance(parameter.envvar, str):
        extra.append(f"Environment: `{parameter.envvar}`.")
    return names + kind, " ".join(part for part in extra if part)
