"""Reading `-f FILE` for the commands that hand files to the server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dure.model.errors import DureError, InvalidInput, NotFound

if TYPE_CHECKING:
    from dure.model.catalogue import Catalogue

MAX_BYTES = 5 * 1024 * 1024

file_option = click.option(
    "-f", "--file", "files", required=True, multiple=True, metavar="FILE", help="YAML or JSON; '-' is standard input."
)


def read_text(name: str) -> str:
    """The text of one file, checked against the size that the server takes."""
    if name == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        path = Path(name)
        if not path.is_file():
            raise NotFound(f"no such file: {name}")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InvalidInput("the file is larger than 5 MiB", where=name, remedy="Split it into several files.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text: byte {error.start} cannot be read", where=name) from error


def read_workloads(name: str, state: Path) -> list[tuple[str, str]]:
    """Checked here, before anything is sent: (workload name, its document as YAML) for each one in the file."""
    from dure.files import InvalidFile
    from dure.files import read_text as parse
    from dure.files.dump import to_yaml

    text = read_text(name)
    try:
        found = parse(text, name).workloads
    except InvalidFile as error:
        # It may name a class of the fleet's own, which only the server knows.
        found = parse(text, name, catalogue=_catalogue_of(state, error)).workloads
    if not found:
        raise InvalidInput("no document of kind Workload in it", where=name, remedy="See examples/batch.yaml.")
    return [(workload.name, to_yaml([workload])) for workload in found]


def _catalogue_of(state: Path, refused: DureError) -> Catalogue:
    """With the classes of the server's fleet; what was `refused` stands where that is away or knows no others."""
    import msgspec

    from dure.cli.client import Client
    from dure.files.builtin import catalogue
    from dure.model.accelerator import AcceleratorProfile

    known = catalogue()
    try:
        served = msgspec.convert(Client(state).items("/v1/classes"), list[AcceleratorProfile])
    except DureError:
        raise refused from None
    return msgspec.structs.replace(known, classes={**known.classes, **{one.name: one for one in served}})
