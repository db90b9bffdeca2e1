"""A real `dure up` in a process of its own, on loopback, with a state folder of its own."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from dure.cli.root import run


class Answer(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Up:
    """One running server. `line` is what it printed when it was ready; `source` has it be of another version."""

    def __init__(self, state: Path, *options: str, source: Path | None = None) -> None:
        self.state = state
        command = [sys.executable, "-m", "dure", "up", "--state", str(state), "--speed", "600", *options]
        # What nobody reads fills a pipe, and then the server waits for its own log line to be taken, for ever.
        self._said = state.with_name(f"{state.name}.stderr")
        with self._said.open("ab") as said:
            path = {"PYTHONPATH": str(source)} if source is not None else {}
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=said, text=True, env={**os.environ, **path}
            )
        assert self.process.stdout is not None
        # A server that never gets ready must not hang the tests.
        watchdog = threading.Timer(120, self.process.kill)
        watchdog.start()
        self.line = self.process.stdout.readline()
        watchdog.cancel()
        self._drain = threading.Thread(target=self.process.stdout.read, daemon=True)
        self._drain.start()

    @property
    def url(self) -> str:
        found = re.search(r"http://[^/ ]+", self.line)
        assert found, f"no address in {self.line!r}: {self._stderr()}"
        return found[0]

    def dure(self, *args: str, stdin: str | None = None) -> Answer:
        """The command line against this server, in this process: what a shell would see, without its start-up."""
        out, err = io.StringIO(), io.StringIO()
        given = io.TextIOWrapper(io.BytesIO((stdin or "").encode()), encoding="utf-8")
        with (
            mock.patch.dict(os.environ, {"DURE_STATE": str(self.state)}),
            mock.patch.object(sys, "stdin", given),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run(list(args))
        return Answer(code, out.getvalue(), err.getvalue())

    def stop(self, how: int = signal.SIGINT) -> tuple[int, str]:
        """Exit code and what was said on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=60)
        self._drain.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.process.returncode, self._stderr()

    def _stderr(self) -> str:
        return self._said.read_text("utf-8")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Shared by the tests that only ask or add; each uses names of its own."""
    server = Up(tmp_path_factory.mktemp("up"), "--port", "0")
    yield server
    server.stop()


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Starts servers that a test may stop or kill; none is left behind."""
    started: list[Up] = []

    def start(*options: str, state: Path | None = None, source: Path | None = None) -> Up:
        server = Up(state or tmp_path / "state", *options, source=source)
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop(signal.SIGKILL)
