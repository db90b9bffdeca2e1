"""The part of CEL that device selectors are written in, judged without a CEL library.

Understood: literals, lists, `device.driver`, `device.attributes[domain].name`, `device.capacity[domain].name`, the
logical and comparison operators, `in`, `has()`, `quantity()` and the methods of strings and quantities below.
Anything else is `Unsupported`, so that a pod is held with a clear message and never given a device by a guess. A
look-up that finds nothing makes the device not match, as do values of different kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from dure.model.errors import InvalidInput
from dure.model.quantity import amount

Value = Any
Judge = Callable[[Mapping[str, Value]], Value]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|[-!<>().,\[\]]))"
)


class Unsupported(Exception):
    """The expression uses something that nobody here can judge."""


class Version(str):
    """A semantic version: it equals no plain text, as in Kubernetes."""

    __slots__ = ()


class _NoValue(Exception):
    """A look-up found nothing, or kinds do not go together."""


def compile_selector(text: str) -> Judge:
    """A judge of `{"driver": text, "attributes": {domain: {name: value}}, "capacity": {domain: {name: Decimal}}}`."""
    parser = _Parser(text)
    judge = parser.either()
    parser.end()
    return judge


def matches(judge: Judge, device: Mapping[str, Value]) -> bool:
    try:
        return judge(device) is True
    except _NoValue:
        return False


class _Parser:
    """Recursive descent, one method for each level of precedence."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise Unsupported(f"'{text[at:].strip()[:20]}' in '{text}'")
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self._text = text
        self._at = 0

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._strange()

    def either(self) -> Judge:
        left = self.both()
        while self._take("||"):
            left = _logical(left, self.both(), decisive=True)
        return left

    def both(self) -> Judge:
        left = self._compared()
        while self._take("&&"):
            left = _logical(left, self._compared(), decisive=False)
        return left

    def _compared(self) -> Judge:
        left = self._signed()
        for sign, compare in _COMPARE.items():
            if self._take(sign):
                return _binary(left, self._signed(), compare)
        return left

    def _signed(self) -> Judge:
        if self._take("!"):
            inner = self._signed()
            return lambda device: not _kind(inner(device), bool)
        if self._take("-"):
            number = self._signed()
            return lambda device: -_kind(number(device), int)
        return self._chain(self._first())

    def _first(self) -> Judge:
        kind, text = self._next()
        if kind == "number":
            return _constant(int(text))
        if kind == "text":
            return _constant(self._unquoted(text))
        if text == "(":
            inner = self.either()
            self._expect(")")
            return inner
        if text == "[":
            return self._listed()
        if text in ("true", "false"):
            return _constant(text == "true")
        if text == "device":
            return lambda device: device
        if text in ("has", "quantity") and self._take("("):
            inner = self.either()
            self._expect(")")
            return _has(inner) if text == "has" else _quantity(inner)
        raise self._strange(back=1)

    def _listed(self) -> Judge:
        items: list[Judge] = []
        while not self._take("]"):
            items.append(self.either())
            if not self._take(","):
                self._expect("]")
                break
        return lambda device: [item(device) for item in items]

    def _chain(self, base: Judge) -> Judge:
        """Fields, look-ups and methods behind a value."""
        while True:
            if self._take("."):
                kind, name = self._next()
                if kind != "name":
                    raise self._strange(back=1)
                base = self._called(base, name) if self._take("(") else _field(base, name)
            elif self._take("["):
                base = _lookup(base, self.either())
                self._expect("]")
            else:
                return base

    def _called(self, base: Judge, name: str) -> Judge:
        method = _METHODS.get(name)
        if method is None:
            raise Unsupported(f"method {name}() in '{self._text}'")
        given: list[Judge] = []
        while not self._take(")"):
            given.append(self.either())
            if not self._take(","):
                self._expect(")")
                break
        if len(given) != (0 if name in _BARE else 1):
            raise Unsupported(f"{name}() with {len(given)} arguments in '{self._text}'")
        return lambda device: method(base(device), *(one(device) for one in given))

    def _unquoted(self, text: str) -> str:
        if re.search(r"\\[^\"'\\]", text):
            raise Unsupported(f"an escape in '{self._text}'")
        return re.sub(r"\\(.)", r"\1", text[1:-1])

    def _take(self, text: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][0] != "text" and self._tokens[self._at][1] == text:
            self._at += 1
            return True
        return False

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise Unsupported(f"'{self._text}' ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._strange()

    def _strange(self, back: int = 0) -> Unsupported:
        at = self._at - back
        found = self._tokens[at][1] if at < len(self._tokens) else "its end"
        return Unsupported(f"'{found}' in '{self._text}'")


def _constant(value: Value) -> Judge:
    return lambda _: value


def _kind(value: Value, kind: type) -> Value:
    if type(value) is not kind:
        raise _NoValue
    return value


def _alike(left: Value, right: Value) -> None:
    if type(left) is not type(right):
        raise _NoValue


def _logical(left: Judge, right: Judge, *, decisive: bool) -> Judge:
    """As in CEL one side that decides makes up for another that has no value."""

    def judge(device: Mapping[str, Value]) -> Value:
        unknown = False
        for side in (left, right):
            try:
                if _kind(side(device), bool) is decisive:
                    return decisive
            except _NoValue:
                unknown = True
        if unknown:
            raise _NoValue
        return not decisive

    return judge


def _binary(left: Judge, right: Judge, compare: Callable[[Value, Value], bool]) -> Judge:
    return lambda device: compare(left(device), right(device))


def _ordered(compare: Callable[[Value, Value], bool]) -> Callable[[Value, Value], bool]:
    def judge(left: Value, right: Value) -> bool:
        _alike(left, right)
        if isinstance(left, (list, Mapping)):
            raise _NoValue
        return compare(left, right)

    return judge


def _contained(left: Value, right: Value) -> bool:
    if not isinstance(right, (list, Mapping)):
        raise _NoValue
    return bool(left in right)


_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "==": _ordered(lambda a, b: bool(a == b)),
    "!=": _ordered(lambda a, b: bool(a != b)),
    "<=": _ordered(lambda a, b: bool(a <= b)),
    ">=": _ordered(lambda a, b: bool(a >= b)),
    "<": _ordered(lambda a, b: bool(a < b)),
    ">": _ordered(lambda a, b: bool(a > b)),
    "in": _contained,
}


def _field(base: Judge, name: str) -> Judge:
    return _lookup(base, _constant(name))


def _lookup(base: Judge, key: Judge) -> Judge:
    def judge(device: Mapping[str, Value]) -> Value:
        found = base(device)
        if not isinstance(found, Mapping):
            raise _NoValue
        name = key(device)
        if name in found:
            return found[name]
        # A domain that the device says nothing about is an empty one, as in Kubernetes.
        if found is device.get("attributes") or found is device.get("capacity"):
            return {}
        raise _NoValue

    return judge


def _has(inner: Judge) -> Judge:
    def judge(device: Mapping[str, Value]) -> bool:
        try:
            inner(device)
        except _NoValue:
            return False
        return True

    return judge


def _quantity(inner: Judge) -> Judge:
    def judge(device: Mapping[str, Value]) -> Decimal:
        try:
            return amount(_kind(inner(device), str))
        except InvalidInput as error:
            raise _NoValue from error

    return judge


def _of(kind: type, do: Callable[..., Value]) -> Callable[..., Value]:
    def method(value: Value, *given: Value) -> Value:
        return do(_kind(value, kind), *(_kind(one, kind) for one in given))

    return method


_BARE = ("lowerAscii", "upperAscii")
_METHODS: dict[str, Callable[..., Value]] = {
    "startsWith": _of(str, str.startswith),
    "endsWith": _of(str, str.endswith),
    "contains": _of(str, str.__contains__),
    "lowerAscii": _of(str, str.lower),
    "upperAscii": _of(str, str.upper),
    "compareTo": _of(Decimal, lambda a, b: (a > b) - (a < b)),
    "isGreaterThan": _of(Decimal, lambda a, b: a > b),
    "isLessThan": _of(Decimal, lambda a, b: a < b),
}
