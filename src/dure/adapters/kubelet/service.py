"""gRPC services over unix sockets whose messages are frozen structs.

Used by the device plugin and the DRA driver, and by tests that play the kubelet. An error of Dure's own becomes a
gRPC status with its message; the kubelet shows that message in the pod's events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import grpc
import msgspec

from dure.adapters.kubelet.wire import decode, encode
from dure.model.errors import DureError, InvalidInput, Temporary

T = TypeVar("T", bound=msgspec.Struct)
_LOCAL = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
# Each open stream holds a thread for as long as the kubelet listens.
THREADS = 16
# What Linux takes as the address of a unix socket.
LONGEST = 107


class Method(NamedTuple):
    """`answer` takes the request; with `stream` it answers with an iterator that ends when `alive()` says so."""

    request: type[msgspec.Struct]
    answer: Callable[..., Any]
    stream: bool = False


class SocketServer:
    """One socket that serves until `close`."""

    def __init__(self, path: Path, services: Mapping[str, Mapping[str, Method]]) -> None:
        if len(str(path)) > LONGEST:
            what = f"a socket's address has at most {LONGEST} characters, this one has {len(str(path))}"
            raise InvalidInput(f"{path}: {what}. Choose a shorter folder")
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(THREADS), options=_LOCAL)
        handlers = [
            grpc.method_handlers_generic_handler(name, {call: _handler(one) for call, one in methods.items()})
            for name, methods in services.items()
        ]
        self._server.add_generic_rpc_handlers(tuple(handlers))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()
        self.path.unlink(missing_ok=True)


def call(
    path: Path, service: str, method: str, request: msgspec.Struct, answer: type[T], timeout_s: float = 10.0
) -> T:
    """Ask another socket once; `Temporary` when it does not answer."""
    with grpc.insecure_channel(f"unix:{path}", options=_LOCAL) as channel:
        ask = channel.unary_unary(
            f"/{service}/{method}", request_serializer=encode, response_deserializer=lambda data: decode(answer, data)
        )
        try:
            found: T = ask(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise Temporary(f"{path} did not answer {method}: {error.details()}") from error
        return found


def _handler(method: Method) -> Any:
    def reads(data: bytes) -> msgspec.Struct:
        return decode(method.request, data)

    def answer(request: msgspec.Struct, context: Any) -> msgspec.Struct:
        try:
            found: msgspec.Struct = method.answer(request)
        except DureError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise
        return found

    def stream(request: msgspec.Struct, context: Any) -> Iterator[msgspec.Struct]:
        yield from method.answer(request, context.is_active)

    if method.stream:
        return grpc.unary_stream_rpc_method_handler(stream, reads, encode)
    return grpc.unary_unary_rpc_method_handler(answer, reads, encode)
