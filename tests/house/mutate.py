"""Small faults for a source text: where one could sit, and the program that has it.

`mutants` samples these places and asks the tests. Invariant: the same text gives the same places in the same order.
Left out are annotations, text (a message may be worded anew), the figures that a module or a struct names (another
default is another product, not a fault) and `strict` of a zip: an assertion, like a type, that no test of behaviour
can notice.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}
OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Place:
    """`function` is the first line of the function around it, 0 outside of all; `change` plants the fault."""

    line: int
    function: int
    fault: str
    change: Callable[[], None]


def places(tree: ast.Module) -> list[Place]:
    return list(_inside(tree, 0))


def faulty(text: str, number: int) -> ast.Module:
    """The program with the fault at that place alone."""
    tree = ast.parse(text)
    places(tree)[number].change()
    return ast.fix_missing_locations(tree)


def _inside(parent: ast.AST, function: int) -> Iterator[Place]:
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        children = value if isinstance(value, list) else [value]
        for at, child in enumerate(children):
            if not isinstance(child, ast.AST) or _skipped(parent, child):
                continue
            where = _first_line(child) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            yield from _faults(parent, field, at if isinstance(value, list) else None, child, where)
            yield from _inside(child, where)


def _skipped(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(child, ast.keyword) and child.arg == "strict":
        return True
    if isinstance(parent, ast.Module | ast.ClassDef):
        # Type aliases, named figures, fields and docstrings; the functions are what can be wrong.
        return not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    return isinstance(parent, ast.Raise) or _is_docstring(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _faults(parent: ast.AST, field: str, at: int | None, node: ast.AST, function: int) -> Iterator[Place]:
    line = getattr(node, "lineno", getattr(parent, "lineno", 0))
    for fault, new in _instead(parent, node):

        def change(new: ast.AST = new) -> None:
            if at is None:
                setattr(parent, field, new)
            else:
                getattr(parent, field)[at] = new

        yield Place(line, function, fault, change)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        turned = ast.UnaryOp(ast.Not(), node.test)
        yield Place(line, function, "condition turned", lambda: setattr(node, "test", turned))


def _instead(parent: ast.AST, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    kind = type(node)
    if kind in SWAPS:
        yield f"{kind.__name__} -> {SWAPS[kind].__name__}", SWAPS[kind]()
    match node:
        case ast.Constant(value=bool() as value):
            yield f"{value} -> {not value}", ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield f"{value} -> {value + 1}", ast.Constant(value + 1)
        case ast.Name(id=name, ctx=ast.Load()) if name in OTHER_NAMES and isinstance(parent, ast.Call):
            yield f"{name} -> {OTHER_NAMES[name]}", ast.Name(OTHER_NAMES[name], ast.Load())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "sign or not left out", operand
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "answers None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            yield "statement left out", ast.Pass()
