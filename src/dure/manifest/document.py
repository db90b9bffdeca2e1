"""One Kubernetes object with the places of its keys, as rules look at it. Made by `dure.files.manifests`."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Path: TypeAlias = tuple[str | int, ...]
Json: TypeAlias = dict[str, Any]


class Document(msgspec.Struct, frozen=True, eq=False):
    """`keys` and `values` map a path to line and column of the key and of the value, both counted from 1;
    `remarks` are its comments with their lines; `home` is the folder around it that is applied as a whole, if any."""

    file: str
    data: Json
    keys: dict[Path, tuple[int, int]] = {}
    values: dict[Path, tuple[int, int]] = {}
    line: int = 1
    remarks: tuple[tuple[int, str], ...] = ()
    home: str = ""

    @property
    def kind(self) -> str:
        return text(self.data.get("kind"))

    @property
    def group(self) -> str:
        return text(self.data.get("apiVersion")).rpartition("/")[0]

    @property
    def metadata(self) -> Json:
        return mapping(self.data.get("metadata"))

    @property
    def name(self) -> str:
        return text(self.metadata.get("name"))

    @property
    def namespace(self) -> str:
        return text(self.metadata.get("namespace"))

    @property
    def labels(self) -> Json:
        return mapping(self.metadata.get("labels"))

    @property
    def annotations(self) -> Json:
        return mapping(self.metadata.get("annotations"))

    @property
    def spec(self) -> Json:
        return mapping(self.data.get("spec"))

    def at(self, path: Path) -> Any:
        """The value at a path, or None."""
        found: Any = self.data
        for step in path:
            if isinstance(step, int):
                found = found[step] if isinstance(found, list) and step < len(found) else None
            else:
                found = found.get(step) if isinstance(found, dict) else None
        return found

    def line_of(self, path: Path) -> int:
        """The line of the key, or of the nearest thing around it that is there."""
        for end in range(len(path), 0, -1):
            place = self.keys.get(path[:end]) or self.values.get(path[:end])
            if place:
                return place[0]
        return self.line

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'" if self.name else self.kind or "a document without kind"


def shown(path: Path) -> str:
    """A path as people write it: spec.triggers[0].metadata.query."""
    made = ""
    for step in path:
        if isinstance(step, int):
            made += f"[{step}]"
        elif "." in step or "/" in step:
            made += f'["{step}"]'
        else:
            made += f".{step}" if made else step
    return made


def mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Scalars as text: YAML writers quote numbers or not as they like."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def number(value: Any) -> float | None:
    """A number, also when it is quoted."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def same_namespace(one: Document, other: Document) -> bool:
    """A document without a namespace gets one from its user, so it may be any."""
    return not one.namespace or not other.namespace or one.namespace == other.namespace


def strings(value: Any, path: Path = ()) -> list[tuple[Path, str]]:
    """Every text inside of a value with its path."""
    if isinstance(value, str):
        return [(path, value)]
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in strings(item, (*path, key))]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in strings(item, (*path, index))]
    return []
