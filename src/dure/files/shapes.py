"""What a key of a file may hold, said once: the reader, the JSON Schema and the writer all come from it.

A shape reads a `Value` into what the model holds (reporting to a `Reading`), describes itself as JSON Schema, and
writes the model's value back in the form of a file. The kinds (`fleet`, `workload`, ...) are built of these.
"""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dure.files.problem import nearest_of, shown
from dure.files.quantities import Unit
from dure.files.reading import BROKEN, Reading, found_kind
from dure.files.yaml import Value

Schema = dict[str, Any]


class Shape(ABC):
    """The interface; `kind` is what an error message calls it."""

    kind = "a value"

    @abstractmethod
    def read(self, value: Value, path: str, into: Reading) -> Any: ...

    @abstractmethod
    def schema(self) -> Schema: ...

    def write(self, value: Any) -> Any:
        return value

    def mismatch(self, value: Value, path: str, into: Reading) -> Any:
        return into.wrong(value, path, f"expected {self.kind}, found {found_kind(value)}")


class Text(Shape):
    """Words; a plain number is taken as the text it was meant to be only where `numbers` allows it."""

    kind = "text"

    def __init__(self, pattern: str = "", rule: str = "", empty: bool = False, longest: int = 1000) -> None:
        self.pattern, self.rule, self.empty, self.longest = pattern, rule, empty, longest
        self._compiled = re.compile(pattern) if pattern else None

    def read(self, value: Value, path: str, into: Reading) -> Any:
        text = value.data
        if not isinstance(text, str):
            quote = "Put it in quotes." if isinstance(text, int | float | bool) else ""
            return into.wrong(value, path, f"expected {self.kind}, found {found_kind(value)}", quote)
        if not text and not self.empty:
            return into.wrong(value, path, "may not be empty")
        if len(text) > self.longest:
            return into.wrong(value, path, f"longer than {self.longest} characters")
        if self._compiled and not self._compiled.fullmatch(text):
            return into.wrong(value, path, f"{shown(text)} is not allowed: {self.rule}")
        return text

    def schema(self) -> Schema:
        pattern = {"pattern": f"^({self.pattern})$"} if self.pattern else {}
        return {"type": "string", **({} if self.empty else {"minLength": 1}), "maxLength": self.longest, **pattern}


NAME = Text(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", "use lower-case letters, digits, '-' and '.'", longest=63)
WORDS = Text()


class Flag(Shape):
    kind = "true or false"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        return value.data if isinstance(value.data, bool) else self.mismatch(value, path, into)

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Whole(Shape):
    """A whole number between `least` and `most`."""

    kind = "a whole number"

    def __init__(self, least: int = 0, most: int = 1_000_000) -> None:
        self.least, self.most = least, most

    def read(self, value: Value, path: str, into: Reading) -> Any:
        number = value.data
        if isinstance(number, bool) or not isinstance(number, int):
            return self.mismatch(value, path, into)
        return number if self.least <= number <= self.most else _outside(self, number, value, path, into)

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Number(Shape):
    """Any number from `least` (left out itself when `above`) to `most`."""

    kind = "a number"

    def __init__(self, least: float = 0, most: float = 1e15, above: bool = False) -> None:
        self.least, self.most, self.above = least, most, above

    def read(self, value: Value, path: str, into: Reading) -> Any:
        number = value.data
        if isinstance(number, bool) or not isinstance(number, int | float):
            return self.mismatch(value, path, into)
        if self.above and number <= self.least:
            return into.wrong(value, path, f"must be more than {self.least:g}, found {shown(number)}")
        return float(number) if self.least <= number <= self.most else _outside(self, number, value, path, into)

    def schema(self) -> Schema:
        return {"type": "number", "exclusiveMinimum" if self.above else "minimum": self.least, "maximum": self.most}


def _outside(shape: Whole | Number, number: float, value: Value, path: str, into: Reading) -> Any:
    if number < 0 <= shape.least:
        return into.wrong(value, path, f"may not be negative, found {shown(number)}")
    return into.wrong(value, path, f"must be from {shape.least:g} to {shape.most:g}, found {shown(number)}")


class Quantity(Shape):
    """A number with a unit."""

    def __init__(self, unit: Unit, positive: bool = False) -> None:
        self.unit, self.positive, self.kind = unit, positive, unit.name

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if isinstance(value.data, dict | list) or value.data is None:
            return into.wrong(
                value, path, f"expected {self.kind} like {self.unit.example}, found {found_kind(value)}"
            )
        try:
            number = self.unit.read(value.data)
        except ValueError as error:
            return into.wrong(value, path, f"{found_kind(value)}: {error}")
        if self.positive and number == 0:
            return into.wrong(value, path, "must be more than 0")
        return number

    def schema(self) -> Schema:
        text = {"type": "string", "pattern": self.unit.pattern, "examples": [self.unit.example]}
        return {"anyOf": [text, {"type": "number", "minimum": 0}]} if self.unit.bare is not None else text

    def write(self, value: Any) -> Any:
        return self.unit.write(value)


class Choice(Shape):
    """One word of an enumeration."""

    def __init__(self, words: type[enum.StrEnum]) -> None:
        self.words = words
        self.kind = f"one of {', '.join(words)}"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if not isinstance(value.data, str):
            return self.mismatch(value, path, into)
        try:
            return self.words(value.data)
        except ValueError:
            hint = nearest_of(value.data, self.words)
            return into.wrong(value, path, f"{shown(value.data)} is not {self.kind}", hint)

    def schema(self) -> Schema:
        return {"enum": [word.value for word in self.words]}

    def write(self, value: Any) -> Any:
        return str(value)


class ListOf(Shape):
    """A list; `unique` names the attribute by which its items must differ."""

    kind = "a list"

    def __init__(self, item: Shape, unique: str = "", least: int = 0, most: int = 10_000) -> None:
        self.item, self.unique, self.least, self.most = item, unique, least, most

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if not isinstance(value.data, list):
            return self.mismatch(value, path, into)
        if not self.least <= len(value.data) <= self.most:
            return into.wrong(value, path, f"must have {self.least} to {self.most} items, found {len(value.data)}")
        items = [self.item.read(item, f"{path}[{index}]", into) for index, item in enumerate(value.data)]
        if self.unique:
            self._refuse_twins(value.data, path, into)
        return BROKEN if any(item is BROKEN for item in items) else tuple(items)

    def _refuse_twins(self, values: list[Value], path: str, into: Reading) -> None:
        first: dict[str, int] = {}
        for index, value in enumerate(values):
            name = _name_of(value, self.unique)
            if name in first:
                into.wrong(
                    values[index], f"{path}[{index}]", f"the name '{name}' is already used by {path}[{first[name]}]"
                )
            elif name:
                first[name] = index

    def schema(self) -> Schema:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.item.schema(), **least, "maxItems": self.most}

    def write(self, value: Any) -> Any:
        return [self.item.write(item) for item in value]


def _name_of(value: Value, key: str) -> str:
    """The name of an item as the text has it, so that twins are found where the item could not be read."""
    raw = value.data.get(key) if isinstance(value.data, dict) else value
    return raw.data if raw is not None and isinstance(raw.data, str) else ""


class MapOf(Shape):
    """A mapping of free keys to values of one shape."""

    kind = "a mapping"

    def __init__(self, item: Shape, key: str = "", keys: type[enum.StrEnum] | None = None, most: int = 1000) -> None:
        self.item, self.key, self.keys, self.most = item, key, keys, most
        self._pattern = re.compile(key) if key else None

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if not isinstance(value.data, dict):
            return self.mismatch(value, path, into)
        if len(value.data) > self.most:
            return into.wrong(value, path, f"may have {self.most} keys, found {len(value.data)}")
        made = {}
        for key, item in value.data.items():
            name = self._read_key(key, value, path, into)
            made[name] = self.item.read(item, f"{path}.{key}", into)
        return BROKEN if any(item is BROKEN for pair in made.items() for item in pair) else made

    def _read_key(self, key: str, value: Value, path: str, into: Reading) -> Any:
        at = Value(None, *value.keys.get(key, (value.line, value.column)))
        if self.keys is not None and key not in list(self.keys):
            allowed = ", ".join(self.keys)
            return into.wrong(at, path, f"unknown key '{key}'; allowed: {allowed}", nearest_of(key, self.keys))
        if not key or (self._pattern and not self._pattern.fullmatch(key)):
            return into.wrong(at, path, f"the key {shown(key)} is not allowed here")
        return self.keys(key) if self.keys is not None else key

    def schema(self) -> Schema:
        names: Schema = {"enum": [word.value for word in self.keys]} if self.keys else {"minLength": 1}
        if self.key:
            names = {"pattern": f"^({self.key})$"}
        return {"type": "object", "propertyNames": names, "additionalProperties": self.item.schema()}

    def write(self, value: Mapping[str, Any]) -> Any:
        return {str(key): self.item.write(item) for key, item in value.items()}


class Free(Shape):
    """Anything, kept as JSON text: a pod template is Kubernetes' business."""

    kind = "a mapping"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if not isinstance(value.data, dict):
            return self.mismatch(value, path, into)
        return msgspec.json.encode(value.plain()).decode()

    def schema(self) -> Schema:
        return {"type": "object"}

    def write(self, value: Any) -> Any:
        return msgspec.json.decode(value)


class Constant(Shape):
    """One fixed word."""

    def __init__(self, word: str) -> None:
        self.word, self.kind = word, f"'{word}'"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        return self.word if value.data == self.word else self.mismatch(value, path, into)

    def schema(self) -> Schema:
        return {"const": self.word}

    def write(self, value: Any) -> Any:
        return self.word


class Key(msgspec.Struct, frozen=True):
    """One key of a mapping. `attr` is the attribute of the struct that holds it, by default the key itself."""

    name: str
    shape: Any
    doc: str
    attr: str = ""
    required: bool = False

    @property
    def target(self) -> str:
        return self.attr or self.name


class Record(Shape):
    """A mapping with known keys. `make` builds the model's struct from what was read; `take` is its inverse."""

    kind = "a mapping"

    def __init__(
        self,
        doc: str,
        keys: tuple[Key, ...],
        make: Callable[..., Any],
        take: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> None:
        self.doc, self.keys, self.make = doc, keys, make
        self.take = take or (lambda value: changed(value, keys))
        self.names = {key.name: key for key in keys}

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if not isinstance(value.data, dict):
            return self.mismatch(value, path, into)
        before = len(into.problems)
        for name in (name for name in value.data if name not in self.names):
            self._unknown(name, value, path, into)
        made = {}
        for key in self.keys:
            item = value.data.get(key.name)
            if item is not None and not (item.data is None and not key.required):
                made[key.target] = key.shape.read(item, f"{path}.{key.name}" if path else key.name, into)
            elif key.required:
                into.wrong(value, path, f"the key '{key.name}' is missing: {key.doc}")
        return self.make(**made) if len(into.problems) == before else BROKEN

    def _unknown(self, name: str, value: Value, path: str, into: Reading) -> None:
        at = Value(None, *value.keys.get(name, (value.line, value.column)))
        allowed = ", ".join(self.names)
        into.wrong(at, path, f"unknown key {shown(name)}; allowed: {allowed}", nearest_of(name, self.names))

    def schema(self) -> Schema:
        properties = {key.name: {"description": key.doc, **key.shape.schema()} for key in self.keys}
        required = [key.name for key in self.keys if key.required]
        needed = {"required": required} if required else {}
        return {"type": "object", "description": self.doc, "properties": properties, **needed,
                "additionalProperties": False}  # fmt: skip

    def write(self, value: Any) -> Any:
        taken = self.take(value)
        return {key.name: key.shape.write(taken[key.target]) for key in self.keys if key.target in taken}


def changed(value: Any, keys: tuple[Key, ...]) -> dict[str, Any]:
    """The attributes of a struct that `keys` name and that are required or differ from their defaults."""
    fields = {field.name: field for field in msgspec.structs.fields(value)}
    taken = {}
    for key in keys:
        held = getattr(value, key.target)
        if key.required or held != _default(fields[key.target]):
            taken[key.target] = held
    return taken


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is msgspec.NODEFAULT:
        return field.default
    factory: Callable[[], Any] = field.default_factory
    return factory()
