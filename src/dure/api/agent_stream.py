"""The plane's gRPC service for agents: the same calls as over HTTP, and a stream of what is desired.

Started by `dure up --grpc-port`. Generic handlers with MessagePack bodies: the structs of the model are the schema.
Every call asks `plane.admission` about the caller first. A stream holds one thread while it is open, so their number
has a limit; whoever comes after it is told to come again and can still ask.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import grpc
import msgspec

from dure.adapters.acting import acting
from dure.adapters.plane_grpc import CODES, PLAIN, REMEDY, SECURE, SERVICE, Asked, Joining, Wanted
from dure.api.app import MAX_BODY
from dure.api.backend import Backend
from dure.model.errors import DureError, InvalidInput, NotAllowed, Permanent, Temporary
from dure.model.report import Report
from dure.model.who import agent
from dure.plane import admission
from dure.plane.members import LocalPlane, follow, tag_of

STREAMS = 256
_CALLS = 32
_GRACE_S = 1.0
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_BODY),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)

T = TypeVar("T")


class Tls(NamedTuple):
    """With `clients`, an authority, every agent needs a certificate of it that names its cluster."""

    certificate: Path
    key: Path
    clients: Path | None = None


class AgentStream:
    """`start` answers the address; `stop` ends the streams."""

    def __init__(
        self, backend: Backend, host: str, port: int, tls: Tls | None = None, *, streams: int = STREAMS
    ) -> None:
        self._backend = backend
        self._mutual = tls is not None and tls.clients is not None
        self._free = threading.BoundedSemaphore(streams)
        self._threads = ThreadPoolExecutor(streams + _CALLS, "agent-stream")
        self._server = grpc.server(self._threads, options=_OPTIONS)
        calls = {
            "Join": self._join,
            "Membership": self._membership,
            "Desired": self._desired,
            "Wish": self._wish,
            "Report": self._report,
        }
        handlers = {name: grpc.unary_unary_rpc_method_handler(_answer(call)) for name, call in calls.items()}
        handlers["Watch"] = grpc.unary_stream_rpc_method_handler(self._watch)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self.url = self._listen(host, port, tls)

    def start(self) -> str:
        self._server.start()
        return self.url

    def stop(self) -> None:
        """Safe to call twice."""
        self._server.stop(_GRACE_S).wait()
        self._threads.shutdown()

    def _listen(self, host: str, port: int, tls: Tls | None) -> str:
        name = f"[{host}]" if ":" in host else host
        try:
            if tls is None:
                return f"{PLAIN}://{name}:{self._server.add_insecure_port(f'{name}:{port}')}"
            pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
            secure = _credentials(pair, tls.clients.read_bytes() if tls.clients else None)
            return f"{SECURE}://{name}:{self._server.add_secure_port(f'{name}:{port}', secure)}"
        except (OSError, RuntimeError) as error:
            raise Permanent(
                f"cannot serve agents on {name}:{port}: {error}", remedy="Name another port with --grpc-port."
            ) from error

    def _join(self, body: bytes, context: Any) -> Any:
        asked = _read(body, Joining)
        self._check_certificate(asked.cluster, context)
        proposed = asked.proposal.digest if asked.proposal is not None else ""
        with acting(agent(asked.cluster), "Join"):
            return admission.redeem(self._backend.store, asked.cluster, _secret(context), proposed)

    def _membership(self, body: bytes, context: Any) -> Any:
        name = self._caller(_read(body, Asked).cluster, context)
        return admission.membership_of(self._backend.fleet(), self._backend.catalogue(), name)

    def _desired(self, body: bytes, context: Any) -> Any:
        asked = _read(body, Asked)
        wanted = LocalPlane(self._backend.store).fetch_desired(self._caller(asked.cluster, context))
        tag = tag_of(wanted)
        return Wanted(tag, None if tag == asked.tag else wanted)

    def _wish(self, body: bytes, context: Any) -> Any:
        return LocalPlane(self._backend.store).fetch_wish(self._caller(_read(body, Asked).cluster, context))

    def _report(self, body: bytes, context: Any) -> Any:
        """Who reports is said beside the report, so that nothing of a stranger is read."""
        name = self._caller(_header(context, "dure-cluster"), context)
        report = _read(body, Report)
        admission.check_report(report, name)
        with acting(agent(name), "Report"):
            LocalPlane(self._backend.store).write_report(admission.timely(report, self._backend.now()))

    def _watch(self, body: bytes, context: Any) -> Iterator[bytes]:
        try:
            asked = _read(body, Asked)
            name = self._caller(asked.cluster, context)
            if not self._free.acquire(blocking=False):
                raise Temporary("as many agents as this plane takes have a stream already")
        except DureError as error:
            _abort(context, error)
            return
        try:
            for tag, wanted in follow(self._backend.store, name, context.is_active):
                yield msgspec.msgpack.encode(Wanted(tag, wanted))
        finally:
            self._free.release()

    def _caller(self, name: str, context: Any) -> str:
        self._check_certificate(name, context)
        admission.check(self._backend.store, name, _secret(context))
        return name

    def _check_certificate(self, cluster: str, context: Any) -> None:
        """That it is one of ours was checked when the connection was made; here, that it is this cluster's."""
        if not self._mutual:
            return
        names = context.auth_context().get("x509_common_name", ())
        if not any(hmac.compare_digest(name, cluster.encode()) for name in names):
            raise NotAllowed(
                f"this certificate is not of the agent of '{cluster}'", remedy=f"dure cluster certificate {cluster}"
            )


def _answer(call: Callable[[bytes, Any], Any]) -> Callable[[bytes, Any], bytes]:
    """Dure's errors as status codes, with their remedy beside them."""

    def answer(body: bytes, context: Any) -> bytes:
        try:
            return msgspec.msgpack.encode(call(body, context))
        except DureError as error:
            _abort(context, error)
            raise

    return answer


def _abort(context: Any, error: DureError) -> None:
    if error.remedy:
        context.set_trailing_metadata(((REMEDY, error.remedy.encode()),))
    code = next((code for kind, code in CODES.items() if isinstance(error, kind)), grpc.StatusCode.UNKNOWN)
    context.abort(code, error.message)


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"this is no {kind.__name__}: {error}") from error


def _secret(context: Any) -> str:
    return admission.bearer(_header(context, "authorization"))


def _header(context: Any, name: str) -> str:
    value = next((value for key, value in context.invocation_metadata() if key == name), "")
    if isinstance(value, bytes):
        raise NotAllowed(f"the header {name} is no text")
    return str(value)


def _credentials(pair: tuple[bytes, bytes], clients: bytes | None) -> Any:
    return grpc.ssl_server_credentials((pair,), clients, clients is not None)
