"""One tenant's process as the executor sees it: started, spoken to, watched, ended and started again.

A lane never raises for what its process does: a crash, a hang or a broken model becomes a `Lost` message. Only the
executor's thread calls it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from dure.adapters.onnx.worker import Work, serve
from dure.device.config import TenantConfig
from dure.device.cores import stay_on
from dure.device.ears import Ears

START_MS = 300_000.0
"""Loading a model may take this long: PyTorch alone takes a minute on a machine with ten times its load."""


BEHIND = 19
"""Niceness in the second row: others on the same processor get about seventy times as much of it."""


class Lost(msgspec.Struct, frozen=True):
    """The process is gone; whatever it ran has failed."""

    why: str


class Lane:
    """`segments_ms` is empty until the process has loaded its model."""

    def __init__(
        self, config: TenantConfig, work: Work, ears: Ears, processors: frozenset[int] = frozenset()
    ) -> None:
        self.config = config
        self.segments_ms: list[float] = []
        self.starts = 0
        self.retired = False
        self._work = work
        self._ears = ears
        self._processors = processors
        self._usual = 0
        self._behind = False
        self._spawn = multiprocessing.get_context("spawn")
        self._start()

    @property
    def process_id(self) -> int:
        return self._process.pid or 0

    def send(self, message: tuple[Any, ...]) -> Lost | None:
        try:
            self._pipe.send(message)
        except (OSError, ValueError) as error:
            return Lost(f"tenant process ended: {error}")
        return None

    def receive(self) -> tuple[Any, ...] | Lost:
        """The next message; call only when the pipe is readable."""
        try:
            message: tuple[Any, ...] = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(1.0)
            return Lost(f"tenant process ended with code {self._process.exitcode}")
        if message[0] in ("ready", "profile"):
            self.segments_ms = list(message[1])
        if message[0] == "ready":
            self._usual = os.getpriority(os.PRIO_PROCESS, self.process_id)
        return message

    def pause(self) -> None:
        """Stop the process wherever it is, until `resume`: a processor can do what few accelerators can."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stand_behind(self, behind: bool) -> None:
        """In the second row its threads run on what the others leave; in the first as usual."""
        if behind == self._behind:
            return
        self._behind = behind
        # One that is gone is heard of by its pipe.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.process_id, BEHIND if behind else self._usual)

    def restart(self) -> None:
        """End the process, however it is, and load the model again in a new one."""
        self.stop()
        self.segments_ms = []
        self._start()

    def retire(self) -> None:
        """End the process for good: its tenant was not let in."""
        self.stop()
        self.segments_ms = []
        self.retired = True

    def stop(self) -> None:
        if not self._pipe.closed:
            self._ears.forget(self._pipe)
            self._pipe.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join(5.0)

    def _signal(self, number: signal.Signals) -> None:
        # One that is gone is heard of by its pipe.
        with contextlib.suppress(ProcessLookupError):
            if self._process.pid is not None:
                os.kill(self._process.pid, number)

    def _start(self) -> None:
        self._pipe, theirs = self._spawn.Pipe()
        self._process = self._spawn.Process(target=_serve, args=(theirs, self._work, self._processors), daemon=True)
        # Ctrl-C goes to the whole terminal group; the daemon alone decides when its tenants end.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._ears.follow(self.config.name, self._pipe)
        self.starts += 1
        self._behind = False


def _serve(pipe: Connection, work: Work, processors: frozenset[int]) -> None:
    """The main function of the process, on the device's own processors if it has any."""
    # Priorities are given to all threads of a process at once only by its group.
    os.setpgid(0, 0)
    stay_on(processors)
    serve(pipe, work)
