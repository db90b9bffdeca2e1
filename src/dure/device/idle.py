"""Threads that idle although somebody had work for them: the bubbles of a real device, for its timeline.

State of the executor's thread, told after every dispatch what is free and whether anybody waits who could use it.
"""

from __future__ import annotations

from dure.device.record import Bubble, Record


class Idle:
    def __init__(self, record: Record) -> None:
        self._record = record
        self._since_ms = 0.0
        self._share = 0.0

    def note(self, now_ms: float, share: float) -> None:
        """From now on this part of the device is free though it could be used; 0 ends a bubble."""
        if share == self._share:
            return
        if self._share > 0.0 and now_ms > self._since_ms:
            self._record.add_bubble(Bubble(self._since_ms, now_ms, self._share))
        self._since_ms, self._share = now_ms, share
