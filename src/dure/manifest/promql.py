"""Enough of PromQL to judge a query: its tree, its selectors, and whether its value grows with the fleet.

A small precedence parser; what it does not understand gives None and rules stay silent. Ranges, offsets and
subqueries are read over, for no rule needs them. Linear in the length of the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec


class Number(msgspec.Struct, frozen=True):
    value: float


class Text(msgspec.Struct, frozen=True):
    value: str


class Matcher(msgspec.Struct, frozen=True):
    label: str
    op: str
    value: str


class Selector(msgspec.Struct, frozen=True):
    name: str
    matchers: tuple[Matcher, ...] = ()


class Call(msgspec.Struct, frozen=True):
    """A function or an aggregation; `grouping` is None without `by` and `without`."""

    name: str
    args: tuple[Expr, ...]
    grouping: tuple[str, ...] | None = None
    without: bool = False


class Binary(msgspec.Struct, frozen=True):
    op: str
    left: Expr
    right: Expr


Expr: TypeAlias = Number | Text | Selector | Call | Binary

AGGREGATIONS = frozenset(
    {"sum", "avg", "min", "max", "count", "stddev", "stdvar", "group", "topk", "bottomk", "quantile", "count_values"}
)
COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
_LEVEL = {"or": 1, "and": 2, "unless": 2, **dict.fromkeys(COMPARISONS, 3), "+": 4, "-": 4}
_LEVEL |= {"*": 5, "/": 5, "%": 5, "atan2": 5, "^": 6}
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<range>\[[^\]]*\])
    |(?P<number>[0-9][0-9a-zA-Z_.]*|\.[0-9]+)
    |(?P<word>[a-zA-Z_:$][a-zA-Z0-9_:$.]*)
    |(?P<op>==|!=|=~|!~|>=|<=|[-+*/%^<>=(){},@])""",
    re.VERBOSE,
)
_WORD_WITH_BRACE = re.compile(r"(\$)\{([a-zA-Z_]+)\}")
# Names of values that say how full or how slow one thing is: they stay as they are when replicas are added.
_PER_THING = re.compile(r"util|usage_perc|percent|_perc\b|ratio|_ACTIVE|temp|latency|_seconds\b", re.IGNORECASE)
_THROUGH = re.compile(
    r"rate|irate|increase|delta|deriv|\w+_over_time|clamp\w*|round|ceil|floor|abs|scalar|sort\w*|last"
)


class _Unreadable(Exception):
    pass


def parse(query: str) -> Expr | None:
    try:
        return _Parser(_tokens(query)).whole()
    except (_Unreadable, RecursionError):
        return None


def walk(expr: Expr | None) -> Iterator[Expr]:
    if expr is None:
        return
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)
    elif isinstance(expr, Binary):
        yield from walk(expr.left)
        yield from walk(expr.right)


def selectors(expr: Expr | None) -> list[Selector]:
    return [part for part in walk(expr) if isinstance(part, Selector)]


def labels_used(expr: Expr | None) -> frozenset[str]:
    """Labels that matchers and groupings name."""
    named = {matcher.label for selector in selectors(expr) for matcher in selector.matchers}
    for part in walk(expr):
        if isinstance(part, Call) and part.grouping and not part.without:
            named |= set(part.grouping)
    return frozenset(named)


def grows(expr: Expr | None) -> bool | None:
    """Whether the value grows with the number of things measured: True for sums, False for means and ratios.

    Sums count things, so they double when replicas and load double; means, maxima of utilisations and ratios of
    sums stay what they are. None when it cannot be told.
    """
    match expr:
        case Call(name="sum" | "count"):
            return True
        case Call(name="avg" | "quantile" | "histogram_quantile" | "stddev"):
            return False
        case Call(name="max" | "min" | "topk" | "bottomk", args=args):
            return grows(args[-1]) if args else None
        case Call(name=name, args=args) if args and _THROUGH.fullmatch(name):
            return grows(next((arg for arg in args if not isinstance(arg, Number)), None))
        case Binary():
            return _grows_together(expr)
        case Selector(name=name):
            return False if _PER_THING.search(name) else None
        case _:
            return None


def _grows_together(expr: Binary) -> bool | None:
    left, right = grows(expr.left), grows(expr.right)
    if isinstance(expr.right, Number) or (isinstance(expr.right, Call) and expr.right.name == "vector"):
        return left
    if isinstance(expr.left, Number):
        return False if expr.op == "/" else right
    if expr.op == "/":
        return None if left is None or right is None else left and not right
    if expr.op in COMPARISONS | {"and", "unless"}:
        return left
    if left or right:
        return True
    return None if left is None or right is None else False


def _tokens(query: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    query = _WORD_WITH_BRACE.sub(r"\1\2", query)
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            raise _Unreadable
        if match.lastgroup:
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return found


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0

    def whole(self) -> Expr:
        expr = self.expression(0)
        if self.at < len(self.tokens):
            raise _Unreadable
        return expr

    def expression(self, level: int) -> Expr:
        left = self.unary()
        while (op := self.peek().lower()) in _LEVEL and _LEVEL[op] > level:
            self.at += 1
            self.modifiers()
            # `^` binds to the right; no rule minds, all others bind to the left.
            left = Binary(op, left, self.expression(_LEVEL[op]))
        return left

    def modifiers(self) -> None:
        while self.peek().lower() in ("bool", "on", "ignoring", "group_left", "group_right"):
            self.at += 1
            if self.peek() == "(":
                self.labels()

    def unary(self) -> Expr:
        if self.peek() in ("-", "+"):
            self.at += 1
            return self.unary()
        expr = self.primary()
        while True:
            kind, word = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
            if kind == "range":
                self.at += 1
            elif word.lower() in ("offset", "@"):
                self.at += 2 + (self.tokens[self.at + 1][1] == "-" if self.at + 1 < len(self.tokens) else 0)
            else:
                return expr

    def primary(self) -> Expr:
        kind, word = self.take()
        if kind == "number":
            return Number(_number(word))
        if kind == "text":
            return Text(word[1:-1])
        if word == "(":
            expr = self.expression(0)
            self.expect(")")
            return expr
        if word == "{":
            return Selector("", self.matchers())
        if kind != "word":
            raise _Unreadable
        return self.named(word)

    def named(self, word: str) -> Expr:
        if self.peek() == "{":
            self.at += 1
            return Selector(word, self.matchers())
        lower = word.lower()
        aggregation = lower in AGGREGATIONS
        grouping: tuple[str, ...] | None = None
        without = False
        if aggregation and self.peek().lower() in ("by", "without"):
            without = self.take()[1].lower() == "without"
            grouping = self.labels()
        if self.peek() != "(":
            return Number(float(lower in ("inf", "nan"))) if lower in ("inf", "nan") else Selector(word)
        args = self.arguments()
        if aggregation and grouping is None and self.peek().lower() in ("by", "without"):
            without = self.take()[1].lower() == "without"
            grouping = self.labels()
        return Call(lower, args, grouping, without)

    def arguments(self) -> tuple[Expr, ...]:
        self.expect("(")
        args: list[Expr] = []
        while self.peek() != ")":
            args.append(self.expression(0))
            if self.peek() == ",":
                self.at += 1
        self.expect(")")
        return tuple(args)

    def labels(self) -> tuple[str, ...]:
        self.expect("(")
        named: list[str] = []
        while (word := self.take()[1]) != ")":
            if word != ",":
                named.append(word)
        return tuple(named)

    def matchers(self) -> tuple[Matcher, ...]:
        made: list[Matcher] = []
        while (word := self.take()[1]) != "}":
            if word == ",":
                continue
            op, (kind, value) = self.take()[1], self.take()
            if op not in ("=", "!=", "=~", "!~") or kind not in ("text", "word"):
                raise _Unreadable
            made.append(Matcher(word, op, value[1:-1] if kind == "text" else value))
        return tuple(made)

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise _Unreadable
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, word: str) -> None:
        if self.take()[1] != word:
            raise _Unreadable


def _number(word: str) -> float:
    try:
        return float(int(word, 16)) if word.lower().startswith("0x") else float(word)
    except ValueError:
        return 0.0  # a duration such as 5m, after `offset`
