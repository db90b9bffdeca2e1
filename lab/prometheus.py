"""A real Prometheus on loopback, and promtool, for tests of what is scraped, asked for and alerted on.

    with Prometheus(tmp_path, config) as prometheus:
        prometheus.until("up == 1", lambda found: len(found) == 1, what="the target")

Both are built from the published Go module (`lab.versions`), without its web pages and without service
discovery of clouds: the API and static, file and HTTP discovery are what tests use.
"""

import http.client
import json
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from lab.build import ensure
from lab.components import LOOPBACK
from lab.errors import LabError
from lab.ports import Ports
from lab.process import Component
from lab.rest import POLL_S, Json

PROMETHEUS = "prometheus"
PROMTOOL = "promtool"


class Prometheus:
    """Runs while the block lasts. `config` is the content of its configuration; `rules` are files beside it."""

    def __init__(self, folder: Path, config: Json, *, rules: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (rules or {}).items():
            (folder / name).write_text(text)
        settings = folder / "prometheus.yml"
        settings.write_text(yaml.safe_dump({"rule_files": sorted(rules or ()), **config}))
        self._ports = Ports()
        self._port = self._ports.take()
        self.url = f"http://{LOOPBACK}:{self._port}"
        argv = [
            str(ensure([PROMETHEUS])[PROMETHEUS] / PROMETHEUS),
            f"--config.file={settings}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self._port}",
            # Tests may also write samples themselves, with times of their own.
            "--web.enable-remote-write-receiver",
            "--log.level=warn",
        ]
        self._process = Component(PROMETHEUS, argv, folder / "prometheus.log", self._ready)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._ports.close()

    @property
    def log(self) -> Path:
        return self._process.log

    def get(self, path: str, **parameters: str) -> Json:
        """`data` of one call of its HTTP API, e.g. `get("/api/v1/targets")`."""
        status, raw = self._raw(f"{path}?{urllib.parse.urlencode(parameters)}" if parameters else path)
        answer: Json = json.loads(raw) if raw.startswith("{") else {"error": raw}
        if status != 200:
            raise LabError(f"Prometheus refuses {path} {parameters or ''}: {answer.get('error')}")
        data: Json = answer["data"]
        return data

    def query(self, expression: str, at_s: float | None = None) -> list[Json]:
        """The samples of an instant query, now or at a moment of the past: each has `metric` and `value`."""
        when = {} if at_s is None else {"time": str(at_s)}
        found: list[Json] = self.get("/api/v1/query", query=expression, **when)["result"]
        return found

    def until(
        self,
        expression: str,
        holds: Callable[[list[Json]], bool],
        *,
        what: str,
        at_s: Callable[[], float | None] = lambda: None,
        timeout_s: float = 60.0,
    ) -> list[Json]:
        """Ask again and again until `holds` is true of the answer; `at_s` tells the moment that is asked for."""
        deadline = time.monotonic() + timeout_s
        while not holds(found := self.query(expression, at_s())):
            if time.monotonic() > deadline:
                raise LabError(f"waited {timeout_s:.0f} s in vain for {what}: {expression} gives {found}")
            time.sleep(POLL_S)
        return found

    def _ready(self) -> bool:
        return self._raw("/-/ready")[0] == 200

    def _raw(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()


def promtool(*arguments: str) -> str:
    """What promtool printed; a complaint of its becomes a `LabError`."""
    command = [str(ensure([PROMTOOL])[PROMTOOL] / PROMTOOL), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"promtool {' '.join(arguments)}: {done.stderr.strip()}\n{done.stdout.strip()}")
    return done.stdout
