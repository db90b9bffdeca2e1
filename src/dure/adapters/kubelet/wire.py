"""Protobuf's wire format for frozen structs, as far as the kubelet's interfaces need it.

Used by `service`. A field's number is its position: all messages of these interfaces count their fields that way, so
nothing has to be generated or kept equal. Known are texts, booleans, signed numbers, structs, tuples of texts or
structs, and mappings from text. Unknown fields are skipped, so a newer kubelet is understood.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from dure.model.errors import InvalidInput

T = TypeVar("T", bound=msgspec.Struct)
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIGN = 1 << 64


def encode(message: msgspec.Struct) -> bytes:
    """What proto3 sends: fields that hold their default are left out."""
    made = bytearray()
    for number, (name, _) in _fields(type(message)).items():
        made += _field(number, getattr(message, name))
    return bytes(made)


def decode(kind: type[T], data: bytes) -> T:
    """A message of this kind; `InvalidInput` when the bytes are none."""
    fields = _fields(kind)
    found: dict[str, Any] = {}
    for number, value in _parts(memoryview(data)):
        if number not in fields:
            continue
        name, hint = fields[number]
        found[name] = _joined(found.get(name), hint, value)
    return kind(**found)


def _field(number: int, value: Any) -> bytes:
    match value:
        case None | "" | False | 0:
            return b""
        case bool() | int():
            return _varint(number << 3 | VARINT) + _varint(int(value))
        case str():
            return _sized(number, value.encode())
        case msgspec.Struct():
            return _sized(number, encode(value))
        case tuple():
            return b"".join(_sized(number, _item(one)) for one in value)
        case dict():
            pairs = (_sized(1, key.encode()) + _sized(2, _item(one)) for key, one in sorted(value.items()))
            return b"".join(_sized(number, pair) for pair in pairs)
    raise InvalidInput(f"a {type(value).__name__} has no place in a message")


def _item(value: Any) -> bytes:
    return encode(value) if isinstance(value, msgspec.Struct) else str(value).encode()


def _sized(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    left = value % _SIGN
    made = bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _parts(data: memoryview) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        match tag & 7:
            case 0:
                value, at = _read_varint(data, at)
                yield tag >> 3, value - _SIGN if value >= _SIGN >> 1 else value
            case 2:
                size, at = _read_varint(data, at)
                at += size
                if at > len(data):
                    raise InvalidInput("a message ends in the middle of a field")
                yield tag >> 3, bytes(data[at - size : at])
            case 1 | 5 as width:
                at += 8 if width == FIXED64 else 4
            case other:
                raise InvalidInput(f"wire type {other} is not known")


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise InvalidInput("a message ends in the middle of a number")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _joined(before: Any, hint: Any, value: int | bytes) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return (*(before or ()), _scalar(inner[0], value))
    if origin is dict:
        pair = dict(_parts(memoryview(_raw(value))))
        key, item = pair.get(1, b""), pair.get(2, b"")
        return {**(before or {}), _text(_raw(key)): _scalar(inner[1], item)}
    return _scalar(hint, value)


def _scalar(hint: Any, value: int | bytes) -> Any:
    if isinstance(hint, types.UnionType):
        hint = next(one for one in typing.get_args(hint) if one is not type(None))
    if hint is str:
        return _text(_raw(value))
    if hint is bool:
        return bool(value)
    if hint is int:
        return value
    return decode(hint, _raw(value))


def _raw(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise InvalidInput("a number came where text or a message was expected")
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("a text of a message is not UTF-8") from error


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> dict[int, tuple[str, Any]]:
    hints = typing.get_type_hints(kind)
    return {number: (name, hints[name]) for number, name in enumerate(kind.__struct_fields__, start=1)}
