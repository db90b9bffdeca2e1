"""What the front counts of the requests that pass, as a pulse for the replica engine. Pure.

`proxy` adds to it; `GET /-/front` shows it; `dure scale replicas` reads it there. Answers are not parsed: tokens are
taken from the `usage` that OpenAI-style servers send at the end, else from the pieces of a stream.
"""

from __future__ import annotations

import re

import msgspec

from dure.model.pulse import Pulse
from dure.model.units import Instant

_USAGE = re.compile(rb'"completion_tokens"\s*:\s*(\d+)')
# A stream's piece carries about one token; the last two are its end and its usage.
_PIECE = b"data:"
# As much of the end of an answer as can hold its usage.
TAIL = 4096


class Counts(msgspec.Struct):
    """Mutable: one for each front."""

    asked: int = 0
    prompt_tokens: int = 0
    answered: int = 0
    output_tokens: int = 0


class Answer:
    """Counts the tokens of one answer while it passes."""

    def __init__(self) -> None:
        self._pieces, self._tail = 0, b""

    def see(self, chunk: bytes) -> None:
        # A mark that is cut in two is seen with the end of what came before, and nothing is counted twice.
        held = self._tail[-(len(_PIECE) - 1) :]
        self._pieces += (held + chunk).count(_PIECE) - held.count(_PIECE)
        self._tail = (self._tail + chunk)[-TAIL:]

    @property
    def streams(self) -> bool:
        """Its first piece, and with it its first token, has come."""
        return self._pieces > 0

    @property
    def tokens(self) -> int:
        said = _USAGE.findall(self._tail)
        return int(said[-1]) if said else max(self._pieces - 1, 0)


class _Shown(msgspec.Struct, frozen=True):
    counts: Counts
    waiting: int
    waiting_tokens: float
    running: int


def pulse_of(text: str, now_s: Instant) -> Pulse | None:
    """From what `/-/front` shows; None where that is no front."""
    try:
        found = msgspec.json.decode(text, type=_Shown)
    except msgspec.MsgspecError:
        return None
    counts = found.counts
    return Pulse(
        at_s=now_s,
        asked=counts.asked,
        prompt_tokens=counts.prompt_tokens,
        answered=counts.answered,
        output_tokens=counts.output_tokens,
        waiting=found.waiting,
        waiting_tokens=found.waiting_tokens,
        running=found.running,
    )
