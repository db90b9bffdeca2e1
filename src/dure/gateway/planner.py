"""Plans the moves of a long backlog in a process of its own, so that planning takes no time from submissions.

`Planner` is what the mover calls; the child is this module run as a program, one plan for each frame on its input. It
ends when its input does, so it never outlives the gateway. A child that cannot be started or breaks costs nothing but
that advantage: the plan is then made here.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from typing import IO

import msgspec
import structlog

from dure.route import reroute
from dure.route.reroute import Plan
from dure.route.situation import Candidate, Situation

# Fewer jobs are planned faster than they are told to another process.
FEW = 16
NICE = 5
_log = structlog.get_logger("dure.gateway")


class Task(msgspec.Struct, frozen=True, array_like=True):
    waiting: tuple[Candidate, ...]
    situation: Situation
    settings: reroute.Settings

    def plan(self) -> Plan:
        return reroute.plan(self.waiting, self.situation, self.settings)


class Planner:
    """Called by one thread; `close` by any."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def plan(self, waiting: tuple[Candidate, ...], situation: Situation, settings: reroute.Settings) -> Plan:
        task = Task(waiting, situation, settings)
        if len(waiting) <= FEW or self._closed:
            return task.plan()
        try:
            return self._ask(task)
        except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
            if not self._closed:
                _log.warning("the planning process failed, planning here", error=str(error))
            self._end()
            return task.plan()

    def close(self) -> None:
        self._closed = True
        self._end()

    def _ask(self, task: Task) -> Plan:
        child = self._child
        if child is None:
            argv = [sys.executable, "-m", "dure.gateway.planner"]
            child = self._child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if child.stdin is None or child.stdout is None:
            raise EOFError("the planning process has no pipes")
        write_frame(child.stdin, msgspec.msgpack.encode(task))
        return msgspec.msgpack.decode(read_frame(child.stdout), type=Plan)

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue


def write_frame(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> bytes:
    size = struct.unpack("<Q", _exactly(pipe, 8))[0]
    return _exactly(pipe, size)


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError("the other side ended")
    return data


def main() -> None:
    """Answer tasks until there are no more. Whoever stops the gateway by keyboard stops this by its closed input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    while True:
        try:
            task = msgspec.msgpack.decode(read_frame(sys.stdin.buffer), type=Task)
        except EOFError:
            return
        write_frame(sys.stdout.buffer, msgspec.msgpack.encode(task.plan()))


if __name__ == "__main__":
    main()
