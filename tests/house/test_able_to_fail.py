"""Every test looks at something: what is written here finds those that would pass whatever happens."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
# What complains by itself: pytest, Playwright, numpy, clients of HTTP, schema validators.
COMPLAINS = ("raises", "warns", "fail", "expect", "raise_for_status", "validate", "check_schema")
WEAK = ("is not None", "isinstance(")


def test_every_test_asserts_something_of_its_own_or_through_a_function_of_the_tests() -> None:
    looking = _looking()
    silent = [where for where, test in _tests() if not _looks(test, looking)]
    assert silent == []


def test_no_test_is_content_with_a_type_or_with_anything_at_all() -> None:
    looking = _looking()
    weak = []
    for where, test in _tests():
        asserts = [ast.unparse(node.test) for node in ast.walk(test) if isinstance(node, ast.Assert)]
        others = any(_complains(node, looking) for node in ast.walk(test))
        if asserts and not others and all(one.endswith(WEAK[0]) or one.startswith(WEAK[1]) for one in asserts):
            weak.append(where)
    assert weak == []


def test_no_test_is_content_with_any_exception_or_swallows_all() -> None:
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in _nodes(path):
            match node:
                case ast.Call(func=ast.Attribute(attr="raises" | "suppress"), args=[ast.Name(id=name), *_]):
                    caught = name
                case ast.ExceptHandler(type=None):
                    caught = "BaseException"
                case ast.ExceptHandler(type=ast.Name(id=name), body=[ast.Pass() | ast.Continue()]):
                    caught = name
                case _:
                    continue
            if caught in ("Exception", "BaseException", "AssertionError"):
                found.append(f"{path.relative_to(TESTS)}:{node.lineno} takes any {caught}")
    assert found == []


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


def _tests() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in _nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{path.relative_to(TESTS)}::{node.name}", node


@cache
def _looking() -> set[str]:
    """Names of the functions of the tests that look at something, themselves or through one another."""
    functions: dict[str, list[ast.AST]] = {}
    for path in TESTS.rglob("*.py"):
        for node in _nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.setdefault(node.name, []).append(node)
    looking: set[str] = set()
    while more := {
        name
        for name, nodes in functions.items()
        if name not in looking and any(_looks(node, looking) for node in nodes)
    }:
        looking |= more
    return looking


def _looks(function: ast.AST, looking: set[str]) -> bool:
    return any(isinstance(node, ast.Assert | ast.Raise) or _complains(node, looking) for node in ast.walk(function))


def _complains(node: ast.AST, looking: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in COMPLAINS or name in looking or name.startswith("assert_")
