"""From paths, text or a request body to checked model structs: parse, read, settle, check, or say all that is wrong.

The command line reads files and standard input through here, the REST API its bodies; both get the same checks and
the same words. Nothing half-read ever leaves: either every document is sound or `InvalidFile` is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dure.files.checks import check
from dure.files.kind import API_VERSION, KINDS
from dure.files.known import Known
from dure.files.problem import InvalidFile, Problem, nearest_of, shown
from dure.files.reading import BROKEN, Reading, found_kind
from dure.files.workload import settle
from dure.files.yaml import MAX_BYTES, Value, from_json, from_plain, parse
from dure.model.catalogue import Catalogue
from dure.model.fleet import Fleet
from dure.model.policy import Policy
from dure.model.tenant import Tenant
from dure.model.workload import Workload

_SUFFIXES = (".yaml", ".yml", ".json")


class Documents(msgspec.Struct, frozen=True):
    """What the files hold, in their order. `warnings` are for people; nothing in them keeps a file from use."""

    fleets: tuple[Fleet, ...] = ()
    workloads: tuple[Workload, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    policies: tuple[Policy, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read_files(paths: Sequence[Path], *, catalogue: Catalogue | None = None, fleet: Fleet | None = None) -> Documents:
    """All documents of the files, and of the YAML and JSON files in folders among them, checked against each other.

    `fleet` is the one in force, for what the files themselves do not say; `catalogue` the built-in one if left out.
    """
    sources = [(_load(path), str(path)) for path in _expanded(paths)]
    return _read(sources, catalogue, fleet)


def read_text(
    text: str | bytes, where: str = "text", *, catalogue: Catalogue | None = None, fleet: Fleet | None = None
) -> Documents:
    """The same for text that the caller has, such as standard input; `where` names it in messages."""
    return _read([(text, where)], catalogue, fleet)


def read_json(
    body: bytes, where: str, *, catalogue: Catalogue | None = None, fleet: Fleet | None = None
) -> Documents:
    """One JSON document, several times as fast as `read_text`, whose words have lines and columns: where this one
    refuses or warns, ask that one."""
    return _checked([_document(from_json(body, where), where)], catalogue, fleet)


def parse_workload_json(
    body: Any,
    *,
    tenant: str = "",
    catalogue: Catalogue | None = None,
    fleet: Fleet | None = None,
    where: str = "request body",
) -> Workload:
    """One workload from decoded JSON, or from its bytes. `tenant` is the owner where the document names none."""
    values = parse(body, where) if isinstance(body, bytes | str) else [from_plain(body, where)]
    if len(values) != 1:
        raise InvalidFile([Problem(where, "", f"expected one document, found {len(values)}")])
    documents = _checked([_document(_headed(values[0]), where)], catalogue, fleet)
    if not documents.workloads:
        raise InvalidFile([Problem(where, "kind", "expected a Workload")])
    workload = documents.workloads[0]
    return workload if workload.tenant or not tenant else msgspec.structs.replace(workload, tenant=tenant)


def _expanded(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file())
        else:
            found.append(path)
    return found


def _load(path: Path) -> bytes:
    """No more of a file than may be read: one byte beyond the limit is enough to refuse it."""
    where = str(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            message = f"{size / 2**20:.1f} MiB is too large; a file may have {MAX_BYTES // 2**20} MiB"
            raise InvalidFile([Problem(where, "", message, "Split it into several files.")])
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InvalidFile([Problem(where, "", "there is no such file")]) from None
    except OSError as error:
        raise InvalidFile([Problem(where, "", f"cannot be read: {error.strerror}")]) from None


def _read(sources: Sequence[tuple[str | bytes, str]], catalogue: Catalogue | None, fleet: Fleet | None) -> Documents:
    readings: list[tuple[Reading, Any]] = []
    problems: list[Problem] = []
    for text, where in sources:
        try:
            values = parse(text, where)
        except InvalidFile as error:
            problems += error.problems
            continue
        if not values:
            problems.append(Problem(where, "", "has no document", f"Kinds: {', '.join(KINDS)}"))
        readings += [_document(value, where) for value in values]
    if problems:
        raise InvalidFile([*problems, *(problem for reading, _ in readings for problem in reading.problems)])
    return _checked(readings, catalogue, fleet)


def _document(value: Value, where: str) -> tuple[Reading, Any]:
    """Read one document by its kind."""
    into = Reading(where, value)
    if not isinstance(value.data, dict):
        wanted = "a document with apiVersion, kind, metadata and spec"
        return into, into.wrong(value, "", f"expected {wanted}, found {found_kind(value)}")
    kind = value.data.get("kind")
    if kind is None or not isinstance(kind.data, str) or kind.data not in KINDS:
        name = kind.data if kind is not None else None
        allowed = ", ".join(KINDS)
        if name is None:
            return into, into.wrong(value, "", f"the key 'kind' is missing; allowed: {allowed}")
        hint = nearest_of(str(name), KINDS)
        return into, into.wrong(kind or value, "kind", f"unknown kind {shown(name)}; allowed: {allowed}", hint)
    return into, KINDS[kind.data].read(value, "", into)


def _headed(value: Value) -> Value:
    """A request body may leave out apiVersion and kind; the address has said it is a workload."""
    if not isinstance(value.data, dict) or not {"metadata", "spec"} & value.data.keys():
        return value
    head = {"apiVersion": Value(API_VERSION), "kind": Value("Workload")}
    return msgspec.structs.replace(value, data={**head, **value.data})


def _checked(readings: list[tuple[Reading, Any]], catalogue: Catalogue | None, fleet: Fleet | None) -> Documents:
    known = _known([made for _, made in readings if made is not BROKEN], catalogue, fleet)
    settled: list[Any] = []
    names: dict[tuple[type, str], Reading] = {}
    for into, made in readings:
        if made is BROKEN:
            continue
        final = settle(made, known.catalogue) if isinstance(made, Workload) else made
        settled.append(final)
        check(final, known, into)
        first = names.setdefault((type(made), made.name), into)
        if first is not into:
            place = first.place(first.root.line, first.root.column)
            into.at("metadata.name", f"{type(made).__name__} '{made.name}' is already defined in {place}")
    if problems := [problem for into, _ in readings for problem in into.problems]:
        raise InvalidFile(problems)
    warnings = tuple(problem for into, _ in readings for problem in into.warnings)
    return Documents(
        fleets=tuple(made for made in settled if isinstance(made, Fleet)),
        workloads=tuple(made for made in settled if isinstance(made, Workload)),
        tenants=tuple(made for made in settled if isinstance(made, Tenant)),
        policies=tuple(made for made in settled if isinstance(made, Policy)),
        warnings=warnings,
    )


def _known(made: list[Any], catalogue: Catalogue | None, fleet: Fleet | None) -> Known:
    """What names may be used: the catalogue, the fleet in force, and what the documents themselves define."""
    if catalogue is None:
        from dure.files.builtin import catalogue as built_in

        catalogue = built_in()
    fleets = [each for each in made if isinstance(each, Fleet)] or ([fleet] if fleet is not None else [])
    classes = dict(catalogue.classes)
    for each in fleets:
        classes.update(each.classes)
    tenants = [each.name for each in made if isinstance(each, Tenant)]
    tenants += [tenant.name for each in fleets for tenant in each.tenants]
    return Known(msgspec.structs.replace(catalogue, classes=classes), tuple(fleets), frozenset(tenants))
