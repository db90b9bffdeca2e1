"""Child processes of the lab: started on a leash, watched, killed by name, never orphaned.

`lab.components` describes each one, `lab.cluster` starts and stops them. Invariant: every child dies with this
process whatever happens to it (see `lab.leash`), and its log stays readable until the lab's folder is removed.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO

from lab.errors import ComponentFailed

LEASH = Path(__file__).with_name("leash.py")
LOG_TAIL_LINES = 25
POLL_S = 0.05

Child = subprocess.Popen[bytes]
Job = tuple[Callable[[], Child], "Future[Child]"]


def spawn(
    argv: Sequence[str],
    *,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes] = subprocess.STDOUT,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    niceness: int = 0,
) -> Child:
    """Start `argv` in a process group of its own, bound to the life of this process."""
    command = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), str(niceness), *argv]

    def start() -> Child:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=None if env is None else dict(env),
            cwd=cwd,
            process_group=0,
        )

    return _nursery.run(start)


class Component:
    """One long-running program: start, kill -9, stop, start again, with one growing log file."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str] | Callable[[], Sequence[str]],
        log: Path,
        ready: Callable[[], bool],
        *,
        env: Mapping[str, str] | None = None,
        ready_timeout_s: float = 90.0,
    ) -> None:
        """`argv` may be a function where a start depends on what runs by then."""
        self.name = name
        self._argv = argv
        self.log = log
        self._ready = ready
        self._env = env
        self._ready_timeout_s = ready_timeout_s
        self._process: Child | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(self._argv() if callable(self._argv) else self._argv)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None or not self.running:
            raise ComponentFailed(f"{self.name} is not running; start it first")
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start it unless it runs already; with `wait`, return once it is ready."""
        if not self.running:
            env = {**os.environ, **(self._env or {})}
            with self.log.open("ab") as log:
                self._process = spawn(self.argv, stdout=log, env=env)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + self._ready_timeout_s
        while not self._answers():
            if not self.running:
                raise ComponentFailed(f"{self.name} ended while starting\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ComponentFailed(
                    f"{self.name} was not ready after {self._ready_timeout_s:.0f} s\n{self.log_tail()}"
                )
            time.sleep(POLL_S)

    def kill(self) -> None:
        """kill -9, and wait until it is gone; its files and its port stay its own."""
        self._end(signal.SIGKILL, grace_s=0)

    def stop(self, *, grace_s: float = 20.0) -> None:
        """Ask it to end; after `grace_s`, kill it."""
        self._end(signal.SIGTERM, grace_s=grace_s)

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        tail = "\n".join(text.splitlines()[-lines:])
        return f"the end of {self.log}:\n{tail}"

    def _answers(self) -> bool:
        try:
            return self._ready()
        except OSError:
            return False

    def _end(self, first: signal.Signals, grace_s: float) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            os.killpg(process.pid, first)
            if first is not signal.SIGKILL:
                try:
                    process.wait(grace_s)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._process = None


class _Nursery:
    """Forks children from one thread that lives as long as this process.

    The kernel ties the leash to the *thread* that forked: a child started from a short-lived thread would be
    killed when that thread ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._owner = 0
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()

    def run(self, start: Callable[[], Child]) -> Child:
        with self._lock:
            # A forked copy of this process has the object but not the thread.
            if self._thread is None or self._owner != os.getpid():
                self._jobs = queue.SimpleQueue()
                self._owner = os.getpid()
                self._thread = threading.Thread(target=self._work, name="lab-nursery", daemon=True)
                self._thread.start()
            jobs = self._jobs
        answer: Future[Child] = Future()
        jobs.put((start, answer))
        return answer.result()

    def _work(self) -> None:
        while True:
            start, answer = self._jobs.get()
            try:
                answer.set_result(start())
            except BaseException as error:  # the caller raises it
                answer.set_exception(error)


_nursery = _Nursery()
