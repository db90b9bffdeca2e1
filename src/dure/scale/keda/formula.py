"""Scaling-modifier formulas: the part of the expr language that KEDA users write.

Called by `serve` with the triggers' values by name; a failed trigger is None. Numbers, names, arithmetic,
comparison, logic, `a ? b : c`, `a ?? b`, lists and the usual aggregates. Wrong formulas raise `InvalidInput` that
shows the place.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping

from dure.model.errors import InvalidInput

Value = float | bool | None | list["Value"]

_TOKEN = re.compile(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|\*\*|\?\?|&&|\|\||[<>=!]=|[-+*/%^<>!?:(),\[\]{}#])")
_WORDS = {"and": "&&", "or": "||", "not": "!"}
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", ">", "<=", ">="),
    ("+", "-"),
    ("*", "/", "%"),
)
_FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "sum": math.fsum,
    "mean": statistics.fmean,
    "median": statistics.median,
    "abs": lambda xs: abs(xs[0]),
    "ceil": lambda xs: float(math.ceil(xs[0])),
    "floor": lambda xs: float(math.floor(xs[0])),
    "round": lambda xs: float(math.floor(abs(xs[0]) + 0.5)) * math.copysign(1.0, xs[0]),
    "int": lambda xs: float(math.trunc(xs[0])),
    "float": lambda xs: xs[0],
}
_PREDICATES = ("count", "any", "all", "none")


def evaluate(formula: str, values: Mapping[str, float | None]) -> float:
    """The formula's number; `InvalidInput` when it is malformed or not a number."""
    result = _Parser(formula, values).whole()
    if isinstance(result, bool) or not isinstance(result, (int, float)):
        raise InvalidInput(f"formula gives {result!r}, not a number", where=formula, remedy="Use '??' for defaults.")
    return float(result)


class _Parser:
    """Recursive descent that evaluates on the way; formulas are short and run once per poll."""

    def __init__(self, formula: str, values: Mapping[str, float | None]) -> None:
        self.formula = formula
        self.values = values
        self.tokens = _tokens(formula)
        self.at = 0
        self.item: Value = None

    def whole(self) -> Value:
        result = self.ternary()
        if self.at < len(self.tokens):
            raise self.wrong(f"unexpected '{self.tokens[self.at]}'")
        return result

    def ternary(self) -> Value:
        test = self.default()
        if not self.take("?"):
            return test
        yes = self.ternary()
        self.need(":")
        no = self.ternary()
        return yes if test else no

    def default(self) -> Value:
        left = self.binary(0)
        while self.take("??"):
            right = self.binary(0)
            left = right if left is None else left
        return left

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.power()
        left = self.binary(level + 1)
        while self.at < len(self.tokens) and self.tokens[self.at] in _LEVELS[level]:
            sign = self.tokens[self.at]
            self.at += 1
            left = self.apply(sign, left, self.binary(level + 1))
        return left

    def power(self) -> Value:
        base = self.unary()
        if self.take("**") or self.take("^"):
            return math.pow(self.number(base), self.number(self.power()))
        return base

    def unary(self) -> Value:
        if self.take("-"):
            return -self.number(self.unary())
        if self.take("!"):
            return not self.unary()
        return self.atom()

    def atom(self) -> Value:
        if self.at >= len(self.tokens):
            raise self.wrong("ends too early")
        token = self.tokens[self.at]
        self.at += 1
        if token == "(":
            inner = self.ternary()
            self.need(")")
            return inner
        if token == "[":
            return self.items("]")
        if token == "#":
            return self.item
        if token[0].isdigit():
            return float(token)
        if token in ("true", "false", "nil"):
            return {"true": True, "false": False, "nil": None}[token]
        if self.take("("):
            return self.predicate(token) if token in _PREDICATES else self.call(token)
        if token not in self.values:
            raise self.wrong(f"no trigger is named '{token}'")
        return self.values[token]

    def items(self, end: str) -> list[Value]:
        found: list[Value] = []
        while not self.take(end):
            found.append(self.ternary())
            if not self.take(","):
                self.need(end)
                break
        return found

    def call(self, name: str) -> Value:
        if name not in _FUNCTIONS:
            raise self.wrong(f"no function '{name}'")
        arguments = self.items(")")
        flat = [x for a in arguments for x in (a if isinstance(a, list) else [a])]
        numbers = [self.number(x) for x in flat]
        if not numbers:
            raise self.wrong(f"'{name}' needs a value")
        return _FUNCTIONS[name](numbers)

    def predicate(self, name: str) -> Value:
        subject = self.ternary()
        if not isinstance(subject, list):
            raise self.wrong(f"'{name}' needs a list")
        self.need(",")
        braced = self.take("{")
        start, hits = self.at, 0
        for self.item in subject or [0.0]:
            self.at = start
            hits += bool(self.ternary()) if subject else 0
        if braced:
            self.need("}")
        self.need(")")
        outcomes: dict[str, Value] = {
            "count": float(hits),
            "any": hits > 0,
            "all": hits == len(subject),
            "none": hits == 0,
        }
        return outcomes[name]

    def apply(self, sign: str, left: Value, right: Value) -> Value:
        if sign == "||":
            return bool(left) or bool(right)
        if sign == "&&":
            return bool(left) and bool(right)
        if sign in ("==", "!="):
            return (left == right) == (sign == "==")
        a, b = self.number(left), self.number(right)
        if sign in ("/", "%") and b == 0.0:
            raise self.wrong("division by zero")
        table: dict[str, Callable[[], Value]] = {
            "<": lambda: a < b,
            ">": lambda: a > b,
            "<=": lambda: a <= b,
            ">=": lambda: a >= b,
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: a / b,
            "%": lambda: math.fmod(a, b),
        }
        return table[sign]()

    def number(self, value: Value) -> float:
        if value is None:
            raise self.wrong("a failed trigger has no value here; write 'name ?? 0'")
        if isinstance(value, list):
            raise self.wrong("a list is not a number")
        return float(value)

    def take(self, token: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.wrong(f"'{token}' expected")

    def wrong(self, what: str) -> InvalidInput:
        return InvalidInput(what, where=f"formula '{self.formula}'", remedy="See the scaling section of the manual.")


def _tokens(formula: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    text = formula.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidInput(f"cannot read '{text[at:].strip()[:12]}'", where=f"formula '{formula}'")
        tokens.append(_WORDS.get(match.group(1), match.group(1)))
        at = match.end()
    return tokens
