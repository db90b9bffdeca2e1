"""The JSON Schemas accept what the reader accepts and refuse what it refuses for its form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from dure.files.builtin import catalogue, demo_fleet, text
from dure.files.dump import Kinded, to_dict
from dure.files.kind import KINDS
from dure.files.reference import renewed
from dure.files.schema import schema, schema_of_all
from dure.files.yaml import parse
from tests.unit.files.strategies import fleets, policies, tenants, workloads

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
VALIDATORS = {kind: jsonschema_rs.validator_for(schema(kind)) for kind in KINDS}
ALL = jsonschema_rs.validator_for(schema_of_all())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
def test_examples_are_valid(path: Path) -> None:
    documents = [value.plain() for value in parse(path.read_bytes(), path.name)]
    assert documents
    assert [one["metadata"] for one in documents if not VALIDATORS[one["kind"]].is_valid(one)] == []
    assert [one["metadata"] for one in documents if not ALL.is_valid(one)] == []


@pytest.mark.parametrize("name", ["demo.yaml", "templates.yaml"])
def test_what_ships_is_valid(name: str) -> None:
    documents = [value.plain() for value in parse(text(name), name)]
    assert documents
    assert [one["metadata"] for one in documents if not ALL.is_valid(one)] == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=(Phase.generate,))
@given(fleets() | workloads() | tenants | policies)
def test_all_that_is_written_is_valid(value: Kinded) -> None:
    assert VALIDATORS[type(value).__name__].is_valid(to_dict(value))


def changed(document: dict[str, Any], path: list[Any], value: object) -> dict[str, Any]:
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["spec", "clusters"], []),
        (["spec", "clusters", 0, "regoin"], "kr"),
        (["spec", "clusters", 0, "name"], "Seoul A"),
        (["spec", "clusters", 0, "pools", 0, "nodes"], -1),
        (["spec", "clusters", 0, "pools", 0, "share"], ["mgi"]),
        (["spec", "clusters", 0, "pools", 0, "price", "owned"], "2100/d"),
        (["spec", "clusters", 0, "pools", 0, "price", "owned"], {"daily": {"9 to 5": "1/h"}}),
        (["spec", "tenants", 0, "budget", "money"], "40M"),
        (["apiVersion"], "v1"),
    ],
)
def test_a_wrong_fleet_is_invalid(path: list[Any], value: object) -> None:
    document = to_dict(demo_fleet())
    assert VALIDATORS["Fleet"].is_valid(document)
    assert not VALIDATORS["Fleet"].is_valid(changed(document, path, value))


def test_every_key_has_a_description() -> None:
    def walk(found: Any) -> None:
        for key, below in found.get("properties", {}).items():
            if key not in ("default", *_DAYS):
                assert below.get("description"), key
            walk(below)
        for branch in found.get("anyOf", []):
            walk(branch)
        if "items" in found:
            walk(found["items"])

    for kind in KINDS:
        walk(schema(kind))


_DAYS = {"daily", "weekdays", "weekend", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}


def test_the_reference_page_lists_every_key() -> None:
    page = (ROOT / "docs" / "files.md").read_text("utf-8")
    assert page == renewed(page), "renew it: python -m dure.files.reference docs/files.md"


def test_templates_of_the_catalogue_are_valid_as_written() -> None:
    templates = catalogue().templates
    assert templates
    assert [name for name, one in templates.items() if not VALIDATORS["Workload"].is_valid(to_dict(one))] == []
