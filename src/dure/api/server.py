"""Runs the API on uvicorn in a thread of its own: finds a free port, starts, stops with grace.

Whoever starts it keeps the main thread, and with it the signals.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import structlog
import uvicorn

from dure.adapters.shapes import settle
from dure.api.app import App
from dure.api.wire import Wire
from dure.model.errors import Permanent, Temporary

if TYPE_CHECKING:
    from dure.adapters.pki import Certificates

DEFAULT_PORT = 7420
PORTS_TRIED = 50
START_S = 20.0
GRACE_S = 5
# Every hour the certificate is looked at.
RENEW_TICKS = 36_000
_log = structlog.get_logger("dure.api")


@dataclass(frozen=True)
class Address:
    """`asked` is the port that was wanted, which may have been taken."""

    host: str
    port: int
    asked: int
    scheme: str = "http"

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def moved(self) -> bool:
        return self.asked not in (0, self.port)


def open_socket(host: str = "127.0.0.1", port: int = DEFAULT_PORT) -> tuple[socket.socket, Address]:
    """Listen on `port`, or on the next free one; 0 takes any. The socket is held, so nobody can take it between."""
    last: OSError | None = None
    for candidate in [0] if port == 0 else range(port, min(port + PORTS_TRIED, 65536)):
        # Named as TCP, asyncio switches Nagle's delay off; unnamed, small answers wait 40 ms for an acknowledgement.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(128)
        except OSError as error:
            listener.close()
            last = error
            continue
        return listener, Address(host, listener.getsockname()[1], port)
    raise Permanent(f"cannot listen on {host}: {last}", remedy="Name another with --host and --port.")


class Server:
    """`start` answers once requests are served; `stop` ends the streams first, then waits for what is under way."""

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        address: Address,
        certificates: Certificates | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """With `certificates` it speaks TLS, also under these `names`; they may be renewed while it runs."""
        settle()
        self.address = replace(address, scheme="https") if certificates else address
        self._app = app
        self._listener = listener
        config = uvicorn.Config(
            app.asgi,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="on",
            ws="none",
            http=Wire,
            timeout_graceful_shutdown=GRACE_S,
        )
        hosts = [address.host, *names]
        if certificates is not None:
            pair, _ = certificates.server(hosts)
            config.ssl_certfile, config.ssl_keyfile = str(pair.certificate), str(pair.key)
        self._uvicorn = _Uvicorn(config, app, partial(_renew, config, certificates, hosts))
        self._thread = threading.Thread(target=self._run, name="dure-api", daemon=True)

    def login_url(self) -> str:
        """The address with a login code that works once."""
        return f"{self.address.url}/login?code={self._app.service.keys.new_code()}"

    def start(self) -> Address:
        self._thread.start()
        if not self._uvicorn.ready.wait(START_S) or not self._uvicorn.started:
            self.stop()
            raise Temporary("the API did not start", where=self.address.url)
        return self.address

    def stop(self) -> None:
        """Safe to call twice."""
        self._uvicorn.should_exit = True
        if self._thread.is_alive():
            self._thread.join(GRACE_S + START_S)
        self._listener.close()

    def _run(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._listener])
        except (Exception, SystemExit) as error:
            _log.error("the API ended", exc_info=error)
        finally:
            self._uvicorn.ready.set()


def _renew(config: uvicorn.Config, certificates: Certificates | None, hosts: Sequence[str]) -> None:
    """Connections that come after this are given the new certificate; those that are there go on."""
    if certificates is None or config.ssl is None:
        return
    try:
        pair, new = certificates.server(hosts)
        if new:
            config.ssl.load_cert_chain(pair.certificate, pair.key)
    except OSError as error:
        _log.warning("the certificate could not be renewed", error=str(error))


class _Uvicorn(uvicorn.Server):
    """Says when it serves, and ends open event streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, app: App, renew: Callable[[], None]) -> None:
        super().__init__(config)
        self._renew = renew
        self.ready = threading.Event()
        self._streams = app.service.stream

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second."""
        if counter % RENEW_TICKS == RENEW_TICKS - 1:
            self._renew()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.close()
        await super().shutdown(sockets)
