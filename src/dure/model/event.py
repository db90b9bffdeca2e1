"""One line of news for people: what happened, to which workload, where."""

from __future__ import annotations

import enum

import msgspec

from dure.model.units import Instant


class Level(enum.StrEnum):
    INFO = "info"
    WARNING = "warning"


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """`seq` is given by the store and rises, so that a reader can resume after the last one seen."""

    at_s: Instant
    kind: str
    message: str
    seq: int = 0
    level: Level = Level.INFO
    tenant: str = ""
    workload: str = ""
    cluster: str = ""
