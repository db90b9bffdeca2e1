"""A named, versioned set of goals and weights for one verb. The plane keeps every version."""

from __future__ import annotations

import enum

import msgspec

from dure.model.units import Instant


class Verb(enum.StrEnum):
    PLACE = "place"
    PACK = "pack"
    SHARE = "share"
    SCALE = "scale"
    ROUTE = "route"


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """`settings` are read by the algorithm of the same verb, which refuses keys it does not know.

    `changed_by` and `changed_s` say who made this version and when; a document does not name them.
    """

    name: str
    verb: Verb
    algorithm: str = "default"
    settings: dict[str, float | int | str | bool] = {}
    version: int = 1
    paused: bool = False
    changed_by: str = ""
    changed_s: Instant = 0.0
