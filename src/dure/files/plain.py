"""Small YAML files with one known shape each: read whole, checked once, refused with what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from dure.model.errors import InvalidInput, NotFound

T = TypeVar("T")


def read_as(path: Path, shape: type[T], what: str, remedy: str) -> T:
    """The file as a `shape`; `what` names it in the message ("node pools"), `remedy` says what to write."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), shape)
    except FileNotFoundError as error:
        raise NotFound(f"no such file: {path}", remedy=remedy) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidInput(f"not {what}: {error}", where=str(path), remedy=remedy) from error
