"""JSON over HTTPS to one API server, with Dure's errors instead of status codes.

lightkube reads the kubeconfig and does TLS, tokens and exec plugins; bodies are plain dictionaries or our own small
structs, because an agent reads thousands of pods and needs a dozen fields of each. Safe to call from many threads.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ConfigError

from dure.adapters.kube.wire import Broken, Line, Wire
from dure.adapters.shapes import settle
from dure.model.errors import DureError, InvalidInput, NotFound, Permanent, Temporary, kind_of

Json = dict[str, Any]
T = TypeVar("T")
Acting = Sequence[tuple[str, str]]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
FIELD_MANAGER = "dure"
PAGE = 500
_TIMEOUT_S = 15.0
# Every lane of the agent keeps its connection: a new one for each bind would cost more than the bind.
_LIMITS = httpx2.Limits(max_connections=200, max_keepalive_connections=100)


def default_kubeconfig() -> Path:
    """The file kubectl would take: the first that exists of $KUBECONFIG, else the one of the home folder."""
    named = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    home = Path.home() / ".kube" / "config"
    return next((each for each in named if each.exists()), named[0] if named else home)


class Gone(Temporary):
    """A resourceVersion is too old to watch from; list again."""


class Api:
    """One identity at one API server."""

    def __init__(
        self, http: httpx2.Client, wire: Wire | None = None, guard: Callable[[], None] | None = None
    ) -> None:
        """`wire` for short writes; without one they take the same way as all others. `guard`: see `guarded`."""
        settle()
        self._http = http
        self._wire = wire
        self._guard = guard

    @classmethod
    def from_kubeconfig(cls, path: Path | str, context: str = "") -> Api:
        try:
            config = KubeConfig.from_file(str(path)).get(context or None)
        except (ConfigError, OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
            # The library expects the right shape; what it raises on another one differs from case to case.
            raise InvalidInput(
                f"the kubeconfig cannot be used: {error}",
                where=str(path),
                remedy="Give a file that kubectl takes: kubectl --kubeconfig FILE config view",
            ) from error
        if config is None:
            raise InvalidInput(f"no context '{context}'", where=str(path))
        return cls(*_clients(config))

    @classmethod
    def in_cluster(cls) -> Api:
        """With the service account of the pod that this process runs in."""
        try:
            config = KubeConfig.from_service_account().get()
        except ConfigError as error:
            raise InvalidInput(
                f"this is not a pod with a service account: {error}", remedy="Give --kubeconfig FILE."
            ) from error
        return cls(*_clients(config))

    def guarded(self, guard: Callable[[], None]) -> Api:
        """The same connections; `guard` is called right before every write and may raise."""
        return Api(self._http, self._wire, guard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()
        if self._wire is not None:
            self._wire.close()

    def get(self, path: str, kind: type[T], **params: str) -> T:
        return msgspec.json.decode(self._send("GET", path, params=params).content, type=kind)

    def post(self, path: str, body: Any, kind: type[T], acting: Acting = ()) -> T:
        """`acting` are the headers that name on whose behalf this is done (user impersonation). Sent once."""
        return msgspec.json.decode(self._short(path, body, acting, twice=False), type=kind)

    def send(self, path: str, body: Any) -> None:
        """POST of something whose answer tells nothing, and that may come twice."""
        self._short(path, body, twice=True)

    def _short(self, path: str, body: Any, acting: Acting = (), *, twice: bool) -> bytes:
        for name, value in acting:
            if not (value.isascii() and value.isprintable()):
                # It could break out of its header and name somebody else.
                raise InvalidInput(f"{name} {value!r} cannot be sent: only printable ASCII can")
        if self._wire is None:
            return self._send("POST", path, body, acting=acting).content
        data, headers = msgspec.json.encode(body), [*self._credentials(path), *acting]
        if self._guard is not None:
            self._guard()
        try:
            answer = self._wire.post(path, data, headers, twice=twice)
        except Broken as error:
            raise _away(error) from error
        if answer.status == 401:
            # A token may have run out: the usual way knows how to get another.
            return self._send("POST", path, body, acting=acting).content
        if answer.status >= 400:
            raise _error(answer.status, answer.body.decode(errors="replace"))
        return answer.body

    def _credentials(self, path: str) -> list[tuple[str, str]]:
        """What the usual way would put on such a request; a client certificate is in the connection."""
        auth = self._http.auth
        if auth is None:
            return []
        flow = auth.sync_auth_flow(self._http.build_request("POST", path))
        signed = next(flow)
        flow.close()
        return [("Authorization", signed.headers["Authorization"])] if "Authorization" in signed.headers else []

    def line(self, path: str) -> Line:
        """For a connection that is the caller's own; its requests are made with these headers."""
        if self._wire is None:
            raise Temporary("there is no way to this API server but the usual one")
        return self._wire.line(self._credentials(path))

    def patch(self, path: str, body: Any, kind: type[T], how: str = MERGE, manager: str = "") -> T:
        """`manager` is in whose name the fields are written, where that matters to somebody."""
        params = {"fieldManager": manager} if manager else None
        return msgspec.json.decode(self._send("PATCH", path, body, how, params).content, type=kind)

    def apply(
        self, path: str, body: Json, kind: type[T], *, dry_run: bool = False, manager: str = FIELD_MANAGER
    ) -> T:
        """Server-side apply: the manager's are the fields that `body` names and no others; the rest of its go."""
        params = {"fieldManager": manager, "force": "true"}
        if dry_run:
            params["dryRun"] = "All"
        return msgspec.json.decode(self._send("PATCH", path, body, APPLY, params).content, type=kind)

    def delete(self, path: str, *, propagation: str = "Background", uid: str = "", version: str = "") -> None:
        """Fine if it is gone already. With `uid` and `version` only that very state of it; else `Conflict`."""
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if uid:
            body["preconditions"] = {"uid": uid, **({"resourceVersion": version} if version else {})}
        try:
            self._send("DELETE", path, body)
        except NotFound:
            return

    def end(self, path: str, *, uid: str) -> None:
        """Delete without grace: for who knows that nothing of it runs any more."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        try:
            self._send("DELETE", path, body)
        except NotFound:
            return

    def watch(self, path: str, params: dict[str, str], read_s: float) -> Watch:
        """A stream of lines; silence longer than `read_s` ends it like a lost connection."""
        timeout = httpx2.Timeout(_TIMEOUT_S, read=read_s)
        request = self._http.build_request("GET", path, params=params, timeout=timeout)
        try:
            response = self._http.send(request, stream=True)
        except (httpx2.HTTPError, RuntimeError) as error:
            # A client that was closed meanwhile answers with a RuntimeError.
            raise _away(error) from error
        if response.status_code >= 400:
            response.read()
            raise _error(response.status_code, response.text)
        return Watch(response)

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: str = "",
        params: dict[str, str] | None = None,
        acting: Acting = (),
    ) -> httpx2.Response:
        headers = [("Content-Type", content or "application/json")] if body is not None else []
        headers += acting
        data = msgspec.json.encode(body) if body is not None else None
        if self._guard is not None and method != "GET":
            self._guard()
        try:
            response = self._http.request(method, path, content=data, headers=headers, params=params or {})
        except (httpx2.HTTPError, RuntimeError) as error:
            raise _away(error) from error
        if response.status_code >= 400:
            raise _error(response.status_code, response.text)
        return response


class Watch:
    """Iterate to read; `stop` from any thread ends the iteration."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        try:
            for line in self._response.iter_lines():
                if line:
                    yield line.encode()
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise _away(error) from error
        finally:
            self._response.close()

    def stop(self) -> None:
        stream = self._response.extensions.get("network_stream")
        sock = stream.get_extra_info("socket") if stream is not None else None
        if sock is not None:
            try:
                sock.shutdown(2)
            except OSError:
                return


def _clients(config: Any) -> tuple[httpx2.Client, Wire]:
    try:
        params = ConnectionParams(timeout=httpx2.Timeout(_TIMEOUT_S), trust_env=False).httpx_params(config)
        tls = params["verify"]
        wire = Wire(params["base_url"], tls if isinstance(tls, ssl.SSLContext) else None, _TIMEOUT_S)
        return httpx2.Client(limits=_LIMITS, **params), wire
    except (ConfigError, OSError, ValueError) as error:
        raise InvalidInput(f"the kubeconfig cannot be used: {error}") from error


def _away(error: Exception) -> Temporary:
    return Temporary(f"the API server does not answer: {str(error) or type(error).__name__}")


def _error(status: int, text: str) -> DureError:
    """A 5xx may pass; a request that the server will never take is the caller's problem."""
    try:
        message = str(json.loads(text).get("message", text[:300]))
    except (json.JSONDecodeError, AttributeError):
        message = text[:300]
    if status == 410:
        return Gone(message)
    kind = kind_of(status, Temporary if status >= 500 else Permanent)
    return kind(message)
