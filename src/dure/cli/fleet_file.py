"""The fleet that a command works on: a file's, or the demo's."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.errors import InvalidInput
from dure.model.fleet import Fleet


def fleet_and_catalogue(path: Path | None) -> tuple[Fleet, Catalogue]:
    """With the fleet's own accelerator classes added to the built-in catalogue."""
    from dure.files.builtin import catalogue, demo_fleet

    known = catalogue()
    if path is None:
        return demo_fleet(), known
    from dure.files import read_files

    fleets = read_files([path]).fleets
    if len(fleets) != 1:
        raise InvalidInput(
            f"found {len(fleets)} documents of kind Fleet, need exactly one",
            where=str(path),
            remedy="See examples/fleet.yaml.",
        )
    return fleets[0], msgspec.structs.replace(known, classes={**known.classes, **fleets[0].classes})
