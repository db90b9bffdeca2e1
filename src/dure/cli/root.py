"""The `dure` command itself: finds commands in the registry, loads them late, maps errors to exit codes."""

from __future__ import annotations

import difflib
import importlib
import sys

import click

from dure.cli.registry import ALIASES, COMMANDS
from dure.model.errors import DureError


class LazyGroup(click.Group):
    """Knows its commands by name and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = importlib.import_module(entry.module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in ALIASES:
            args = [*ALIASES[args[0]], *args[1:]]
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], [*COMMANDS, *ALIASES], n=1)
            hint = f" Did you mean '{close[0]}'?" if close else " See: dure --help"
            raise click.UsageError(f"No command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            sections.setdefault(entry.section, []).append((name, entry.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong input, 3 not allowed, 4 not found, 5 conflict, 6 temporary.",
)
@click.version_option(package_name="dure", message="dure %(version)s")
def dure() -> None:
    """Pool the accelerators of many clusters; decide what runs where, when and on which slice.

    \b
    Example:
      dure up                      start Dure with its embedded fleet
      dure submit -f job.yaml      hand it a workload
      dure why my-job              what it waits for, with numbers
    """


def run(args: list[str], called: str = "dure") -> int:
    """The exit code of a command line; `called` is what the user typed before it."""
    try:
        # Click answers `ctx.exit(code)` with the code here, and everything else with what the command returned.
        answer = dure.main(args, prog_name=called, standalone_mode=False)
    except click.Abort:
        click.echo("Interrupted.", err=True)
        return 130
    except click.ClickException as error:
        error.show(sys.stderr)
        return error.exit_code
    except DureError as error:
        click.echo(f"dure: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has seen enough; keep the interpreter from complaining at exit.
        sys.stderr.close()
        return 0
    except OSError as error:
        click.echo(f"dure: {_system(error)}", err=True)
        return DureError.exit_code
    return answer if isinstance(answer, int) else 0


def _system(error: OSError) -> str:
    """What the operating system refused, and for which file."""
    text = error.strerror or str(error)
    name = str(error.filename or "")
    return f"{name[:200]}: {text}" if name else text
