"""A small JSON client for one API server, so that the lab and its tests need no client library.

Used by `lab.cluster`, `lab.nodes` and tests. One connection per call: it must work right after a kill -9.
"""

import http.client
import json
import ssl
import time
from collections.abc import Callable
from typing import Any

from lab.errors import ApiError, LabError
from lab.pki import KeyPair

Json = dict[str, Any]
TIMEOUT_S = 30.0
POLL_S = 0.05


class Api:
    """GET, POST, PUT, PATCH and DELETE with one identity."""

    def __init__(self, port: int, ca: str, identity: KeyPair | None) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=ca)
        if identity is not None:
            self._tls.load_cert_chain(identity.cert, identity.key)

    def get(self, path: str) -> Json:
        return self.call("GET", path)

    def post(self, path: str, body: Json) -> Json:
        return self.call("POST", path, body)

    def put(self, path: str, body: Json) -> Json:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Json) -> Json:
        """A JSON merge patch."""
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str) -> Json:
        return self.call("DELETE", path)

    def call(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        status, raw = self.raw(method, path, None if body is None else json.dumps(body), kind)
        if status >= 400:
            raise ApiError(status, _message(raw))
        answer: Json = json.loads(raw)
        return answer

    def raw(self, method: str, path: str, body: str | None = None, kind: str = "application/json") -> tuple[int, str]:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=TIMEOUT_S, context=self._tls)
        try:
            headers = {"Content-Type": kind} if body is not None else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def until(self, path: str, holds: Callable[[Json], bool], *, what: str, timeout_s: float = 60.0) -> Json:
        """GET `path` again and again until `holds` is true of the answer; a missing object is waited for."""
        deadline = time.monotonic() + timeout_s
        seen: object = None
        while True:
            try:
                answer = self.get(path)
                if holds(answer):
                    return answer
                seen = answer
            except ApiError as error:
                if error.status not in (404, 429, 503):
                    raise
                seen = error
            except OSError as error:
                seen = error
            if time.monotonic() > deadline:
                raise LabError(f"waited {timeout_s:.0f} s in vain for {what} at {path}; last seen: {seen}")
            time.sleep(POLL_S)


def _message(raw: str) -> str:
    try:
        return str(json.loads(raw)["message"])
    except (ValueError, KeyError, TypeError):
        return raw[:500]
