"""What a modelled engine says: a text that only depends on everything before it. Pure.

`engines` asks it for each request. Since the next word follows from the whole context, an answer that another engine
goes on with is the same answer, to the letter; so tests can tell whether anything was lost or said twice.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

_WORDS = (" the", " cluster", " waits", " for", " room", ".", "\n", " A", " queue", " moves", " on", ",", " né", "길")
# One word in so many would be the last.
_ENDS = 97
MOST_TOKENS = 256


class _Asked(msgspec.Struct, frozen=True):
    prompt: str = ""
    messages: tuple[dict[str, Any], ...] = ()
    stream: bool = False
    model: str = "modelled"
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    continue_final_message: bool = False
    stream_options: dict[str, Any] | None = None


class Words:
    """The answer to one request, as tokens and as an OpenAI-style server would send them."""

    def __init__(self, asked: _Asked, *, chat: bool) -> None:
        self.chat, self.stream, self.reason = chat, asked.stream, "length"
        self._context = _rendered(asked) if chat else asked.prompt
        limit = asked.max_completion_tokens if asked.max_tokens is None else asked.max_tokens
        self._most = (MOST_TOKENS if chat else 16) if limit is None else limit
        told = asked.stream_options or {}
        self._tells, self._always = bool(told.get("include_usage")), bool(told.get("continuous_usage_stats"))
        mark = zlib.crc32(self._context.encode())
        kind = "chat.completion" if chat else "text_completion"
        kind += ".chunk" if chat and asked.stream else ""
        self._own = {"id": f"cmpl-{mark:08x}", "object": kind, "created": mark, "model": asked.model}
        self._made = 0

    def __iter__(self) -> Iterator[str]:
        context = self._context
        for _ in range(self._most):
            mark = zlib.crc32(context.encode())
            if mark % _ENDS == 0:
                self.reason = "stop"
                return
            word = _WORDS[mark % len(_WORDS)]
            context += word
            self._made += 1
            yield word

    def opening(self) -> bytes:
        return self._event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})

    def piece(self, text: str, reason: str | None) -> bytes:
        says: dict[str, Any] = {"delta": {"content": text} if text else {}} if self.chat else {"text": text}
        more = {"usage": self._usage(0)} if self._tells and self._always else {}
        return self._event({"choices": [{"index": 0, **says, "finish_reason": reason}], **more})

    def usage(self, prompt: int) -> bytes:
        """Nothing, where it was not asked for."""
        return self._event({"choices": [], "usage": self._usage(prompt)}) if self._tells else b": end\n\n"

    def end(self) -> bytes:
        return b"data: [DONE]\n\n"

    def whole(self, prompt: int) -> bytes:
        """The answer to who does not stream."""
        text = "".join(itertools.islice(self, self._most))
        says = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        choice = {"index": 0, **says, "finish_reason": self.reason}
        return msgspec.json.encode({**self._own, "choices": [choice], "usage": self._usage(prompt)})

    def _usage(self, prompt: int) -> dict[str, int]:
        return {"prompt_tokens": prompt, "completion_tokens": self._made, "total_tokens": prompt + self._made}

    def _event(self, says: dict[str, Any]) -> bytes:
        return b"data: " + msgspec.json.encode({**self._own, **says}) + b"\n\n"


def words_of(path: bytes, body: bytes) -> Words | None:
    """None for what asks for no text."""
    door = path.partition(b"?")[0]
    if door not in (b"/v1/completions", b"/v1/chat/completions"):
        return None
    try:
        return Words(msgspec.json.decode(body, type=_Asked), chat=door == b"/v1/chat/completions")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _rendered(asked: _Asked) -> str:
    """Messages as a template would join them, each trimmed at its end; the last may be left open to go on."""
    turns = [f"<{each.get('role')}>{str(each.get('content') or '').rstrip()}" for each in asked.messages]
    return "</>".join(turns) if asked.continue_final_message else "</>".join([*turns, "<assistant>"])
