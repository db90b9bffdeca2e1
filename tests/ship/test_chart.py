"""The chart as far as it can be judged without Helm: its values are closed, its agent is the rendered one."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import dure
from deploy import chart_agent
from dure.cli.up import command as up

CHART = Path(__file__).resolve().parents[2] / "deploy/chart/dure"
Json = dict[str, Any]


def schema() -> Json:
    found: Json = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    return found


def values() -> Json:
    found: Json = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return found


def example() -> Json:
    found: Json = yaml.safe_load((CHART.parent / "example-values.yaml").read_text("utf-8"))
    return found


def walk(node: Any, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every schema inside of a schema."""
    if isinstance(node, dict):
        yield path, node
        for name in ("properties", "patternProperties"):
            for key, inner in node.get(name, {}).items():
                yield from walk(inner, f"{path}.{key}")
        yield from walk(node.get("items"), f"{path}[]")


def test_defaults_and_example_keep_to_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(schema())
    judge = jsonschema.Draft7Validator(schema())
    judge.validate(values())
    judge.validate(example())


def test_the_schema_is_closed_everywhere_and_every_value_is_described() -> None:
    for path, node in walk(schema()):
        if node.get("type") == "object":
            assert node.get("additionalProperties") is False, path
        if "patternProperties" not in node and not path.endswith("$"):
            assert node.get("description"), path
    assert len(list(walk(schema()))) > 60


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("plane.replcas", 3),
        ("plane.replicas", "3"),
        ("plane.store.url", "postgresql://secret@db/dure"),
        ("plane.tls.sekret", "x"),
        ("plane.resources.limits.gpu", 1),
        ("agent.plane", "ftp://dure.example"),
        ("agent.cluster", "Seoul'; rm"),
        ("image.digest", "sha256:12"),
        ("planes", {}),
    ],
)
def test_an_unknown_or_wrong_value_is_refused(path: str, value: Any) -> None:
    given = copy.deepcopy(values())
    inner = given
    *folders, last = path.split(".")
    for name in folders:
        inner = inner[name]
    inner[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema()).validate(given)


def test_every_value_of_the_schema_has_a_default_and_is_used() -> None:
    texts = "".join(path.read_text("utf-8") for path in (CHART / "templates").iterdir())
    for part, inside in schema()["properties"].items():
        assert set(inside["properties"]) == set(values()[part]), part
        for name in inside["properties"]:
            assert re.search(rf"(\.Values\.{part}|\${part})\.{name}\b", texts), f"{part}.{name} is read nowhere"


def test_the_agent_of_the_chart_is_the_rendered_one() -> None:
    assert chart_agent.TEMPLATE.read_text("utf-8") == chart_agent.template(), "renew it: make chart"


def test_the_chart_has_the_version_of_dure() -> None:
    found = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert found["version"] == found["appVersion"] == dure.__version__


def test_every_option_that_the_chart_gives_to_the_plane_exists() -> None:
    text = (CHART / "templates/plane.yaml").read_text("utf-8")
    given = set(re.findall(r"- (--[a-z-]+)=", text))
    known = {name for parameter in up.params for name in parameter.opts}
    assert len(given) > 10
    assert given <= known
