"""Kubernetes manifests from files, folders or text, with the place of every key; for `dure lint`.

Lists are taken apart into their items. Documents that are no Kubernetes objects (values files and the like) are left
out; a document with a `spec` but no kind is kept, because someone meant it to be applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dure.files.problem import InvalidFile, Problem
from dure.files.yaml import MAX_BYTES, Value, parse
from dure.manifest.document import Document
from dure.manifest.document import Path as Keys

_SUFFIXES = (".yaml", ".yml", ".json")
_HOMES = ("kustomization.yaml", "kustomization.yml", "Kustomization", "Chart.yaml")
_MARK = "\ufeff"
_COMMENT = re.compile(r"(?:^|\s)#\s*(.+)$")
# A version alone is no object: a chart and a values file have one too.
_FRAGMENT_KEYS = frozenset({"spec", "metadata", "kind"})


class Source(msgspec.Struct, frozen=True):
    """One text and what was found in it; `mark` is the byte order mark that some editors put before it."""

    name: str
    text: str
    documents: tuple[Document, ...]
    mark: str = ""


def read_sources(paths: Iterable[Path]) -> tuple[list[Source], list[InvalidFile]]:
    """Every YAML and JSON file of the paths and below folders, each once; and why others cannot be read."""
    sources: list[Source] = []
    problems: list[InvalidFile] = []
    for path, top in _expanded(paths).items():
        try:
            sources.append(read_source(_load(path), str(path), _home(path, top)))
        except InvalidFile as error:
            problems.append(error)
    return sources, problems


def read_source(content: bytes | str, name: str, home: str = "") -> Source:
    try:
        values = parse(content, name)
    except InvalidFile as error:
        raise _told_templates(error, content) from None
    whole = content.decode("utf-8") if isinstance(content, bytes) else content
    text = whole.removeprefix(_MARK)
    made = [each for value in values for each in _documents(value, name)]
    told = [msgspec.structs.replace(each, home=home) for each in _with_remarks(made, text)]
    return Source(name, text, tuple(told), whole[: len(whole) - len(text)])


def _told_templates(error: InvalidFile, content: bytes | str) -> InvalidFile:
    """The usual reason why something in a chart's folder is not YAML."""
    raw = content if isinstance(content, bytes) else content.encode()
    if b"{{" not in raw:
        return error
    remedy = "A Helm template? Lint what comes of it: helm template CHART | dure lint -"
    return InvalidFile([msgspec.structs.replace(each, remedy=remedy) for each in error.problems])


def _documents(value: Value, name: str) -> Iterable[Document]:
    if isinstance(value.data, list):
        for item in value.data:
            yield from _documents(item, name)
        return
    if not isinstance(value.data, dict):
        return
    kind, items = value.data.get("kind"), value.data.get("items")
    listed = kind is not None and isinstance(kind.data, str) and kind.data.endswith("List")
    if listed and items is not None and isinstance(items.data, list):
        yield from (made for item in items.data for made in _documents(_named(item, value.data), name))
    elif value.data.keys() & _FRAGMENT_KEYS or "groups" in value.data:
        yield _document(value, name)


def _named(item: Value, around: dict[str, Value]) -> Value:
    """Items of a typed list, as the API answers it, leave out what the list says of them all."""
    kind = str(around["kind"].data).removesuffix("List")
    if not kind or not isinstance(item.data, dict) or item.data.keys() & {"kind", "apiVersion"}:
        return item
    said = {key: value for key, value in around.items() if key == "apiVersion"}
    return msgspec.structs.replace(item, data={**item.data, **said, "kind": Value(kind)})


def _document(value: Value, name: str) -> Document:
    keys: dict[Keys, tuple[int, int]] = {}
    values: dict[Keys, tuple[int, int]] = {}
    waiting: list[tuple[Keys, Value]] = [((), value)]
    while waiting:
        path, each = waiting.pop()
        values[path] = (each.line, each.column)
        if isinstance(each.data, list):
            waiting += [((*path, index), item) for index, item in enumerate(each.data)]
        elif isinstance(each.data, dict):
            keys.update({(*path, key): place for key, place in each.keys.items()})
            waiting += [((*path, key), item) for key, item in each.data.items()]
    return Document(name, value.plain(), keys, values, value.line)


def _with_remarks(documents: list[Document], text: str) -> Iterable[Document]:
    """Each comment belongs to the last document that begins above it, or to the first one."""
    found = [(row, each[1]) for row, line in enumerate(text.split("\n"), 1) if (each := _COMMENT.search(line))]
    starts = [document.line for document in documents]
    for index, document in enumerate(documents):
        until = starts[index + 1] if index + 1 < len(starts) else len(text)
        since = 0 if index == 0 else document.line
        yield msgspec.structs.replace(document, remarks=tuple(each for each in found if since <= each[0] < until))


def _expanded(paths: Iterable[Path]) -> dict[Path, Path | None]:
    """Each file once, with the folder that was named when it lies in one."""
    found: dict[Path, Path | None] = {}
    for path in paths:
        if not path.is_dir():
            found.setdefault(path, None)
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in _SUFFIXES and each.is_file())
        for each in inside:
            if not any(part.startswith(".") for part in each.relative_to(path).parts):
                found.setdefault(each, path)
    return found


def _home(path: Path, top: Path | None) -> str:
    """The nearest folder around a file, up to the one that was named, that kustomize or Helm would apply."""
    around = path.parents if top else ()
    for folder in around:
        if any((folder / mark).is_file() for mark in _HOMES):
            return str(folder)
        if folder == top:
            break
    return ""


def _load(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InvalidFile([Problem(str(path), "", "there is no such file")]) from None
    except OSError as error:
        raise InvalidFile([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from None
