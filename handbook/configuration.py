"""Every key of every file that Dure reads, and every variable of the environment, from the types that read them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from dure.cli.scale_nodes import NodesFile
from dure.cli.scale_pool import PoolFile
from dure.device.config import DeviceConfig
from dure.device.plugin.node import NodeConfig
from dure.files.reference import reference
from dure.place.settings import PlaceSettings
from handbook import commands
from handbook.text import cell, table

ROOT = Path(__file__).resolve().parents[1]
HEAD = """\
# Configuration

Files of the kinds Fleet, Workload, Tenant and Policy are read by every command with `-f`; how units, hours and
mistakes are written stands in [files](../files.md). `dure schema all` prints the same as JSON Schema. The other files
belong to one command each. An unknown key is always an error that names the nearest valid one.

"""
# Read without an option of a command.
VARIABLES = {
    "DURE_STATE": "Folder of the state; `--state` goes before it.",
    "DURE_URL": "Address of the plane for the command line, instead of the one that runs here.",
    "DURE_TOKEN": "Token for that plane.",
    "DURE_CA": "File with the authority to believe, where the plane speaks TLS.",
    "DURE_DATA": "Folder with public data sets, for `dure bench`.",
    "DURE_DEVICE": "Socket of a device daemon or of a slice.",
    "DURE_GATEWAY_TOKEN": "Token of the cluster, for `dure gateway plan` and `why`.",
    "XDG_STATE_HOME": "Where state folders are; `~/.local/state` if it is not set.",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "Where traces are sent, with the extra `otel`.",
    "NUMBA_CACHE_DIR": "Where compiled kernels are kept, if the folder of the package cannot be written.",
}
STRUCTS: tuple[tuple[str, str, type], ...] = (
    ("Device file", "`dure device run -f FILE`, see [share](../share.md).", DeviceConfig),
    ("Node file", "`dure device plugin -f FILE`, `dure device serve -f FILE`, see [node](../node.md).", NodeConfig),
    ("Pool file", "`dure scale pool -f FILE`, see [scale](../scale.md).", PoolFile),
    ("Nodes file", "`dure scale nodes -f FILE`, see [scale](../scale.md).", NodesFile),
)


def page() -> str:
    kinds = reference()
    others = "\n".join(_struct(title, told, kind) for title, told, kind in STRUCTS)
    return "\n".join([HEAD + kinds, _place(), others, _chart(), _environment()])


def variables() -> dict[str, str]:
    """Every variable of the environment with what it does."""
    found = dict(VARIABLES)
    for path, command in commands.walk():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and isinstance(parameter.envvar, str):
                told = f"`{parameter.opts[-1]}` of `{path}`: {parameter.help or ''}"
                found[parameter.envvar] = " ".join(filter(None, [found.get(parameter.envvar, ""), told]))
    return dict(sorted(found.items()))


def _place() -> str:
    rows = [
        (f"`{_camel(name)}`", f"`{json.dumps(default)}`")
        for name, default in zip(PlaceSettings.__struct_fields__, PlaceSettings.__struct_defaults__, strict=True)
    ]
    told = inspect.cleandoc(PlaceSettings.__doc__ or "")
    return f"## Settings of a place policy\n\n{told}\n\n" + table(("setting", "default"), rows)


def _struct(title: str, told: str, kind: type) -> str:
    _, components = msgspec.json.schema_components([kind])
    parts = [f"## {title}\n\n{told}\n"]
    for name, schema in sorted(components.items(), key=lambda one: one[0] != kind.__name__):
        if "properties" not in schema:
            continue
        needed = set(schema.get("required", ()))
        rows = [
            (f"`{key}`", _kind(value), "**Needed.**" if key in needed else f"`{json.dumps(value.get('default'))}`")
            for key, value in schema["properties"].items()
        ]
        inner = "" if name == kind.__name__ else f"### {title}: {name}\n\n"
        described = cell(schema.get("description", ""))
        parts.append(f"{inner}{described}\n\n" + table(("key", "holds", "default"), rows))
    return "\n".join(parts)


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items') or {})}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"mapping to {_kind(inner)}" if isinstance(inner, dict) else "mapping"
    return str(schema.get("type", "anything"))


def _chart() -> str:
    schema = json.loads((ROOT / "deploy/chart/dure/values.schema.json").read_text("utf-8"))
    rows = [(f"`{path}`", kind, cell(told)) for path, kind, told in _values(schema, "")]
    told = "`helm install dure deploy/chart/dure -f values.yaml`, see [on Kubernetes](../howto/kubernetes.md)."
    return f"## Values of the chart\n\n{told}\n\n" + table(("value", "holds", "meaning"), rows)


def _values(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    for name, each in schema.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        yield at, _kind(each), each.get("description", "")
        yield from _values(each, at)


def _environment() -> str:
    rows = [(f"`{name}`", cell(told)) for name, told in variables().items()]
    return "## Environment\n\n" + table(("variable", "meaning"), rows)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
