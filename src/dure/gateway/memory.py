"""Learnt durations of this gateway, kept in a file. A file that cannot be read is set aside, never overwritten."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import structlog

from dure.adapters.whole import write_whole
from dure.model.units import Seconds
from dure.route.durations import Durations, decode, encode

SAVE_EVERY = 20
_log = structlog.get_logger("dure.gateway")


class Memory:
    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._unsaved = 0
        self.durations = _read(path) if path else Durations()

    def learn(self, kind: str, class_name: str, run_s: Seconds) -> None:
        with self._lock:
            self.durations = self.durations.learnt(kind, class_name, run_s)
            self._unsaved += 1
            due = self._unsaved >= SAVE_EVERY
        if due:
            self.save()

    def save(self) -> None:
        if self._path is None:
            return
        with self._lock:
            self._unsaved = 0
            write_whole(self._path, encode(self.durations))


def _read(path: Path) -> Durations:
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        return Durations()
    except (OSError, msgspec.DecodeError) as error:
        aside = path.with_suffix(".broken")
        _log.warning(
            "learnt durations cannot be read, starting anew", file=str(path), kept=str(aside), error=str(error)
        )
        os.replace(path, aside)
        return Durations()
