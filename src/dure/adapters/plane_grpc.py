"""The plane over gRPC, for agents elsewhere: one connection that the agent dials, with a stream of news on it.

`Watch` pushes what is desired whenever it changes. `fetch_desired` still asks each time, with the tag of what was
pushed last, because a stream cannot tell an old wish from a plane that has nothing new; the answer is then a few
bytes. Messages are the model's own structs as MessagePack, so there is no second description of them to keep equal.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import grpc
import msgspec

from dure.adapters.shapes import settle
from dure.model.defrag import DefragWish
from dure.model.errors import Conflict, DureError, InvalidInput, NotAllowed, NotFound, Permanent, Temporary
from dure.model.membership import Credential, Membership, Proposal, secret_digest
from dure.model.report import Desired, Report
from dure.model.units import Seconds

SERVICE = "dure.v1.Agents"
REMEDY = "dure-remedy-bin"
PLAIN, SECURE = "grpc", "grpcs"
TIMEOUT_S = 15.0
MAX_MESSAGE = 64 * 1024 * 1024
# A connection that NAT forgot is found by a ping; a plane that is back is found within a second. An attempt to
# connect is given time, though: a plane that has just bound its port answers only when it has started.
_OPTIONS = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.enable_http_proxy", 0),
    # Two agents in one process must not share a connection that one of them closes.
    ("grpc.use_local_subchannel_pool", 1),
)
CODES: dict[type[DureError], grpc.StatusCode] = {
    InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    NotFound: grpc.StatusCode.NOT_FOUND,
    Conflict: grpc.StatusCode.ABORTED,
    Temporary: grpc.StatusCode.UNAVAILABLE,
    Permanent: grpc.StatusCode.FAILED_PRECONDITION,
}
_ERRORS = {code: kind for kind, code in CODES.items()} | {grpc.StatusCode.UNIMPLEMENTED: Permanent}

T = TypeVar("T")


class Own(NamedTuple):
    """The agent's own certificate and key, as files."""

    certificate: str
    key: str


class Asked(msgspec.Struct, frozen=True):
    """`tag` is of what the agent has already."""

    cluster: str
    tag: str = ""


class Joining(msgspec.Struct, frozen=True):
    """Without a proposal the plane makes the credential."""

    cluster: str
    proposal: Proposal | None = None


class Wanted(msgspec.Struct, frozen=True):
    """`desired` is None when the agent has it already."""

    tag: str
    desired: tuple[Desired, ...] | None


class GrpcPlane:
    """`PlaneLink` of one cluster's agent. A reader thread keeps the stream; everything else is asked and answered."""

    def __init__(self, url: str, cluster: str, credential: str, *, ca: str = "", own: Own | None = None) -> None:
        settle()
        self._cluster = cluster
        self._channel = _channel(url, ca, own)
        self._headers = (("authorization", f"Bearer {credential}"),)
        self._heard = threading.Condition()
        self._known = Wanted("", ())
        self._fetched = ""
        self._stream: Any = None
        self._failure: DureError | None = None

    def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
        with self._heard:
            known = self._known
        answer = self._call("Desired", Asked(self._cluster, known.tag), Wanted)
        with self._heard:
            self._known = known if answer.desired is None else answer
            self._fetched = answer.tag
            return self._known.desired or ()

    def fetch_wish(self, cluster: str) -> DefragWish | None:
        found: DefragWish | None = self._call("Wish", Asked(self._cluster), DefragWish | None)
        return found

    def wait_for_news(self, wait_s: Seconds) -> bool:
        with self._heard:
            if self._stream is None:
                self._open()
            self._heard.wait_for(lambda: self._failure is not None or self._new(), wait_s)
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            return self._new()

    def write_report(self, report: Report) -> None:
        self._call("Report", report, None, headers=(("dure-cluster", self._cluster),))

    def fetch_membership(self) -> Membership:
        found: Membership = self._call("Membership", Asked(self._cluster), Membership)
        return found

    def close(self) -> None:
        with self._heard:
            if self._stream is not None:
                self._stream.cancel()
        self._channel.close()

    def _new(self) -> bool:
        return self._known.tag != self._fetched

    def _open(self) -> None:
        method = self._channel.unary_stream(f"/{SERVICE}/Watch")
        self._stream = method(msgspec.msgpack.encode(Asked(self._cluster, self._fetched)), metadata=self._headers)
        threading.Thread(target=self._read, args=(self._stream,), name="plane stream", daemon=True).start()

    def _read(self, stream: Any) -> None:
        try:
            for message in stream:
                wanted = msgspec.msgpack.decode(message, type=Wanted)
                with self._heard:
                    self._known = wanted
                    self._heard.notify_all()
            ended: DureError = Temporary("the plane has ended the stream")
        except (grpc.RpcError, ValueError) as error:
            # A channel that was closed meanwhile answers with a ValueError.
            ended = error_of(error)
        except msgspec.MsgspecError as error:
            ended = Permanent(f"the plane sent what this version cannot read: {error}")
            stream.cancel()
        with self._heard:
            self._stream, self._failure = None, ended
            self._heard.notify_all()

    def _call(self, method: str, body: Any, kind: Any, headers: tuple[tuple[str, str], ...] = ()) -> Any:
        return _send(self._channel, method, body, kind, (*self._headers, *headers))


def join_over_grpc(
    url: str, cluster: str, token: str, secret: str = "", *, ca: str = "", own: Own | None = None
) -> str:
    """See `plane_link.join`."""
    channel = _channel(url, ca, own)
    asked = Joining(cluster, Proposal(secret_digest(secret)) if secret else None)
    try:
        made: Credential = _send(channel, "Join", asked, Credential, (("authorization", f"Bearer {token}"),))
    finally:
        channel.close()
    return made.credential or secret


def error_of(error: Exception) -> DureError:
    """The plane's own error again; anything about the connection may pass."""
    if not isinstance(error, grpc.RpcError) or not hasattr(error, "code"):
        return Temporary(f"the plane does not answer: {error}")
    remedy = next((value for key, value in error.trailing_metadata() or () if key == REMEDY), b"")
    kind = _ERRORS.get(error.code(), Temporary)
    about = "the plane does not answer: " if kind is Temporary else ""
    return kind(f"{about}{error.details()}", remedy=remedy.decode())


def _send(
    channel: Any, method: str, body: Any, kind: type[T] | None, headers: tuple[tuple[str, str], ...]
) -> T | Any:
    call = channel.unary_unary(f"/{SERVICE}/{method}")
    try:
        answer = call(msgspec.msgpack.encode(body), timeout=TIMEOUT_S, metadata=headers)
    except (grpc.RpcError, ValueError) as error:
        raise error_of(error) from error
    return msgspec.msgpack.decode(answer, type=kind) if kind is not None else None


def _channel(url: str, ca: str, own: Own | None = None) -> Any:
    parts = urlsplit(url)
    if parts.scheme not in (PLAIN, SECURE) or not parts.hostname or not parts.port:
        raise InvalidInput(
            f"'{url}' is no gRPC address", remedy="Write grpc://HOST:PORT, or grpcs://HOST:PORT for TLS."
        )
    if parts.scheme == PLAIN:
        return grpc.insecure_channel(parts.netloc, _OPTIONS)
    try:
        roots = Path(ca).read_bytes() if ca else None
        pair = (Path(own.key).read_bytes(), Path(own.certificate).read_bytes()) if own else (None, None)
    except OSError as error:
        raise InvalidInput(f"a certificate cannot be read: {error}", where=str(error.filename)) from error
    return grpc.secure_channel(parts.netloc, grpc.ssl_channel_credentials(roots, *pair), _OPTIONS)
