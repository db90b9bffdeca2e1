"""Model structs back in the form of files: `read_text(to_yaml([x]))` gives `x` again.

Used by `dure get -o yaml`, `dure diff` and everyone who writes a file for people. Defaults are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import yaml

from dure.files.kind import KINDS
from dure.files.yaml import reads_as_text
from dure.model.fleet import Fleet
from dure.model.policy import Policy
from dure.model.tenant import Tenant
from dure.model.workload import Workload

Kinded: TypeAlias = Fleet | Workload | Tenant | Policy


def to_dict(value: Kinded) -> dict[str, Any]:
    """The document of one struct, as plain data."""
    document: dict[str, Any] = KINDS[type(value).__name__].write(value)
    return document


def to_yaml(values: Iterable[Kinded]) -> str:
    """Documents one after another, with the keys in the order of the reference."""
    return dump_yaml(to_dict(value) for value in values)


def dump_yaml(documents: Iterable[Any]) -> str:
    """Plain data as YAML that this package reads back unchanged; also for lists that are not of a kind."""
    text: str = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096, default_flow_style=False
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes text that a reader of either YAML version would take for something else; never writes aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if reads_as_text(text) else "'"
    if len(text.splitlines()) > 1 or not text.isprintable():
        # Only double quotes keep every kind of line break apart.
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
