"""Every option of every command, found in the command tree itself, against values that nobody can mean.

A refusal is an exit code from the table and a message on standard error; anything that escapes as an exception fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dure.cli.root import dure, run
from dure.files.params import FiniteRange

WRONG_NUMBERS = ("x", "", "nan", "1e400", "1 2", "٣x")
WRONG_FILES = {
    "empty.yaml": b"",
    "binary.yaml": bytes(range(256)) * 20,
    "broken.yaml": b"a: [1, 2\nb: }",
    "list.yaml": b"- 1\n- 2\n",
    "null.json": b"null",
    "utf16.yaml": "kind: Fleet".encode("utf-16"),
    "number.yaml": b"42",
    "unknown.yaml": b"apiVersion: dure.dev/v1alpha1\nkind: Fleeet\nmetadata: {name: x}\nspec: {}\n",
    "not.csv.gz": b"not gzip",
}
EXAMPLE = Path(__file__).parents[3] / "examples" / "serving.yaml"
# Written to, not read: any place in which a file can be made is right.
WRITTEN = {"out", "report", "plot", "resume", "socket", "trace", "keep", "token_file"}
# Their files are large recordings, read only after a long start; `dure bench` tests them one by one.
SLOW = ("bench",)


def leaves(command: click.Command, path: tuple[str, ...], ctx: click.Context) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        yield path
        return
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from leaves(found, (*path, name), click.Context(found, info_name=name, parent=ctx))


def command_of(path: tuple[str, ...]) -> click.Command:
    found: click.Command = dure
    for name in path:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name) or found
    return found


COMMANDS = sorted(leaves(dure, (), click.Context(dure)))


def wrong_values(parameter: click.Parameter, path: tuple[str, ...], folder: Path) -> list[str]:
    kind = parameter.type
    if getattr(parameter, "is_flag", False):
        return []
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return list(WRONG_NUMBERS)
    if isinstance(kind, click.Choice):
        return ["no-such-choice", ""]
    if isinstance(kind, click.Path) and kind.file_okay and parameter.name not in WRITTEN and path[0] not in SLOW:
        return [str(folder / name) for name in (*WRONG_FILES, "no-such-file", "", "x" * 5000)]
    return []


def a_sound_value(parameter: click.Parameter, folder: Path) -> str:
    kind = parameter.type
    if parameter.name == "state":
        return str(folder / "state")
    if isinstance(kind, click.Choice):
        return str(next(iter(kind.choices)))
    if isinstance(kind, click.Path | click.File):
        return str(EXAMPLE)
    return "1" if isinstance(kind, click.types.IntParamType | click.types.FloatParamType) else "nothing"


def line(path: tuple[str, ...], wrong: click.Parameter, value: str, folder: Path) -> list[str]:
    options, arguments = list(path), []
    for parameter in command_of(path).params:
        if parameter is not wrong and not parameter.required and parameter.name != "state":
            continue
        given = value if parameter is wrong else a_sound_value(parameter, folder)
        if isinstance(parameter, click.Argument):
            arguments.append(given)
        else:
            options += [max(parameter.opts, key=len), given]
    return [*options, "--", *arguments] if arguments else options


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_wrong_value_is_refused_with_a_message(
    path: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in WRONG_FILES.items():
        (tmp_path / name).write_bytes(content)
    for parameter in command_of(path).params:
        for value in wrong_values(parameter, path, tmp_path):
            args = line(path, parameter, value, tmp_path)
            code, told = run(args), capsys.readouterr().err
            assert 0 < code <= 6, (args, told)
            assert told.strip(), args
            assert "Traceback" not in told


def test_the_tree_is_really_walked() -> None:
    assert len(COMMANDS) > 50
    assert ("policy", "rollback") in COMMANDS


def test_no_number_may_be_nan() -> None:
    """Also where a command fails for another reason first, so that trying it shows nothing."""
    kinds = {(path, one.name): one.type for path in COMMANDS for one in command_of(path).params}
    numbers = {where: kind for where, kind in kinds.items() if isinstance(kind, click.types.FloatParamType)}
    assert numbers
    assert [where for where, kind in numbers.items() if not isinstance(kind, FiniteRange)] == []
