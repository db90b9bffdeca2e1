"""What a container and the device daemon say to each other over a slice's socket.

Frames of a length and MessagePack. The container opens with its model, then asks; the connection is the lease: when
it ends, however it ends, the slice is free. Used by `slices` and `slice_client`; imports little, for images hold it.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

import msgspec
import numpy as np

from dure.model.errors import InvalidInput, Temporary

MOST_BYTES = 1 << 30
_HEAD = struct.Struct(">I")


class Array(msgspec.Struct, frozen=True):
    """`data` is the raw little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Open(msgspec.Struct, frozen=True, tag="open"):
    """`model` is the file itself; `latency_ms` what the tenant would like to be promised."""

    model: bytes
    suffix: str = ".onnx"
    segments: int = 8
    latency_ms: float | None = None


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    number: int
    inputs: dict[str, Array]


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    slice: str
    compute_milli: int
    memory_mib: int


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    number: int
    outputs: dict[str, Array]


class Problem(msgspec.Struct, frozen=True, tag="problem"):
    """`number` 0 is about the slice itself."""

    number: int
    status: int
    detail: str


FromContainer = Open | Ask
FromDaemon = Opened | Answer | Problem


def send(connection: socket.socket, message: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(message)
    connection.sendall(_HEAD.pack(len(data)) + data)


def receive(connection: socket.socket, kind: Any) -> Any:
    """The next message, or None when the other side has closed."""
    head = _read(connection, _HEAD.size)
    if head is None:
        return None
    (size,) = _HEAD.unpack(head)
    if size > MOST_BYTES:
        raise InvalidInput(f"a message of {size} bytes is too large")
    body = _read(connection, size)
    if body is None:
        return None
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"that is no message of a slice: {error}") from error


def packed(arrays: dict[str, Any]) -> dict[str, Array]:
    return {
        name: Array(one.dtype.str, tuple(map(int, one.shape)), np.ascontiguousarray(one).tobytes())
        for name, one in arrays.items()
    }


def unpacked(arrays: dict[str, Array]) -> dict[str, Any]:
    try:
        return {name: np.frombuffer(one.data, one.dtype).reshape(one.shape) for name, one in arrays.items()}
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"a tensor's bytes do not fit its shape: {error}") from error


def _read(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        try:
            part = connection.recv(min(size - len(parts), 1 << 20))
        except ConnectionError:
            return None
        except TimeoutError as error:
            raise Temporary("the other side of a slice went silent") from error
        if not part:
            return None
        parts += part
    return bytes(parts)
