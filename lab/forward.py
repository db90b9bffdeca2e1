"""Names of cluster services that lead to loopback servers, for controllers that run outside of any cluster network.

A controller is started with `HTTP_PROXY` set to this forwarder (`lab.keda`); a manifest may then keep the address it
would have in production. A name nobody has given a server, or one whose server is gone, answers 502.
"""

import contextlib
import http.client
import urllib.parse
from collections.abc import Mapping

from lab.loopback import Loopback, Quiet


class Forwarder(Loopback):
    """Runs while the block lasts. `routes` maps `host:port` to the URL of a loopback server; it may be changed."""

    def __init__(self, routes: Mapping[str, str]) -> None:
        self.routes = dict(routes)
        super().__init__(_handler(self.routes), "lab-forward")
        self.url = f"http://{self.address}"


def _handler(routes: Mapping[str, str]) -> type[Quiet]:
    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def get(self) -> None:
            asked = urllib.parse.urlsplit(self.path)
            target = routes.get(asked.netloc)
            path = urllib.parse.urlunsplit(("", "", asked.path, asked.query, ""))
            try:
                status, raw = _fetch(target, path) if target else (502, f"no server for {asked.netloc}".encode())
            except (OSError, http.client.HTTPException) as error:
                status, raw = 502, str(error).encode()
            # Who asked may have hung up meanwhile.
            with contextlib.suppress(ConnectionError):
                self.reply(status, raw)

    return Handler


def _fetch(target: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(target).netloc, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
