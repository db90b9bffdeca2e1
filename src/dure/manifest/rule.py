"""What a rule is and what it finds. A rule is data plus one function over all manifests at once."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from dure.manifest.document import Document, Path

if TYPE_CHECKING:
    from dure.manifest.manifests import Manifests


# With this annotation the author of an object says which findings are as they should be.
IGNORE = "dure.dev/lint-ignore"


class Severity(enum.StrEnum):
    """`error`: does not work, or does harm. `warning`: works otherwise than its author will expect."""

    ERROR = "error"
    WARNING = "warning"


class SetKey(msgspec.Struct, frozen=True):
    """Put `key: value` first into the mapping at `path`; `value` is YAML text."""

    document: Document
    path: Path
    key: str
    value: str


class Replace(msgspec.Struct, frozen=True):
    """Another scalar at `path`."""

    document: Document
    path: Path
    value: str


class Remove(msgspec.Struct, frozen=True):
    """Take away the key at `path`, which has a scalar on its own line."""

    document: Document
    path: Path


Edit: TypeAlias = SetKey | Replace | Remove


class Hit(msgspec.Struct, frozen=True):
    """One place where a rule fires; `edits` are the change that is safe to make without asking.

    `severity` and `line` differ from the rule's and the path's only where they are given.
    """

    document: Document
    path: Path
    message: str
    edits: tuple[Edit, ...] = ()
    severity: Severity | None = None
    line: int = 0


Check: TypeAlias = "Callable[[Manifests], Iterable[Hit]]"


class Rule(msgspec.Struct, frozen=True):
    """`title` is the trap in one sentence; `why` says how it bites, `fix` what to do."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str
    before: str
    after: str
    check: Check
    fixable: bool = False
