"""Prometheus remote write 1.0, the sending half: samples as a protobuf `WriteRequest` in a snappy block.

Four message types with two fields each, so they are written here by hand rather than by a generated module and its
runtime. Snappy allows a block of literals alone: every receiver reads it, it is as long as what it holds, and needs
no compressor. Called by the Prometheus adapter. Labels are sorted and samples of one series lie together, as the
protocol demands.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from dure.model.sample import Sample

HEADERS = {
    "content-type": "application/x-protobuf",
    "content-encoding": "snappy",
    "x-prometheus-remote-write-version": "0.1.0",
}
_Key = tuple[tuple[str, str], ...]
# Field number shifted by three, plus the wire type: 2 is a length and bytes, 1 eight bytes, 0 a varint.
_FIRST_BYTES, _SECOND_BYTES, _FIRST_DOUBLE, _SECOND_VARINT = b"\x0a", b"\x12", b"\x09", b"\x10"
_LITERAL = 1 << 16
_double = struct.Struct("<d")


def body(samples: Iterable[Sample]) -> bytes:
    """What to POST."""
    by_series: dict[_Key, list[Sample]] = {}
    for sample in samples:
        key = tuple(sorted({**sample.labels, "__name__": sample.name}.items()))
        by_series.setdefault(key, []).append(sample)
    message = b"".join(_FIRST_BYTES + _sized(_series(key, some)) for key, some in by_series.items())
    return snappy_literals(message)


def _series(key: _Key, samples: list[Sample]) -> bytes:
    labels = (
        _FIRST_BYTES + _sized(_FIRST_BYTES + _sized(name.encode()) + _SECOND_BYTES + _sized(value.encode()))
        for name, value in key
    )
    points = (
        _SECOND_BYTES
        + _sized(_FIRST_DOUBLE + _double.pack(one.value) + _SECOND_VARINT + varint(round(one.at_s * 1000)))
        for one in sorted(samples, key=lambda one: one.at_s)
    )
    return b"".join((*labels, *points))


def snappy_literals(data: bytes) -> bytes:
    """A snappy block that copies nothing: the length, then literals of at most 64 KiB."""
    parts = [varint(len(data))]
    for begin in range(0, len(data), _LITERAL):
        literal = data[begin : begin + _LITERAL]
        # 61 says that the length less one follows in two bytes; the low two bits, zero, say literal.
        parts += [bytes([61 << 2]), struct.pack("<H", len(literal) - 1), literal]
    return b"".join(parts)


def varint(number: int) -> bytes:
    """Seven bits a byte, lowest first; negative numbers as the protocol has them, in two's complement of 64 bits."""
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data
