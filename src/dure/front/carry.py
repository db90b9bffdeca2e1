"""How an answer that breaks off on one engine goes on upon another. Pure: no I/O, no clock.

`carrier` gives every event of a stream to `Stream` on its way to the client. When the engine leaves or dies,
`continued` makes of the request and what the client has the request for the next engine, or says why not; what that
one sends is rewritten so that the client sees one answer: one identity, role, sum of tokens, end, and no text twice.
"""

from __future__ import annotations

from typing import Any

import msgspec

COMPLETIONS, CHAT = b"/v1/completions", b"/v1/chat/completions"
DONE = b"[DONE]"
Json = dict[str, Any]

# Fields that change what an answer is, not only how likely each word of it is; by the reason that is told.
_WHOLE = {
    "choices": ("use_beam_search",),
    "echo": ("echo", "suffix"),
    "logprobs": ("logprobs", "top_logprobs", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids"),
    "tools": ("tools", "functions", "function_call"),
    "format": ("structured_outputs", "grammar", "json_schema", "regex"),
    "content": ("audio", "prompt_embeds", "truncate_prompt_tokens", "kv_transfer_params"),
    # Counted over the answer alone, of which the next engine takes the first part for prompt.
    "penalty": ("presence_penalty", "frequency_penalty"),
}
_LENGTHS = ("max_tokens", "max_completion_tokens", "min_tokens")


class Kept(msgspec.Struct, frozen=True):
    """It is not carried over; `reason` is one word, as the front counts it."""

    reason: str


class Seen(msgspec.Struct, frozen=True):
    """What the next engine is told of the answer so far: its text, and how many tokens that is.

    `opaque` is an answer of which more was seen than text.
    """

    text: str = ""
    tokens: int = 0
    opaque: bool = False


def known(method: bytes, path: bytes) -> bool:
    """Whether requests like this compute text and nothing else, so that they may be sent again."""
    return method == b"POST" and path.partition(b"?")[0] in (COMPLETIONS, CHAT)


def continued(path: bytes, body: bytes, seen: Seen) -> bytes | Kept:
    """The body with which another engine goes on after what was seen. If that is nothing, it is the same request."""
    door, asked = path.partition(b"?")[0], _object(body)
    if door not in (COMPLETIONS, CHAT):
        return Kept("endpoint")
    if seen.opaque:
        return Kept("delta")
    if not seen.text:
        return body
    if asked is None:
        return Kept("body")
    reason = _kept(asked)
    if reason:
        return Kept(reason)
    more = _after_prompt(asked, seen.text) if door == COMPLETIONS else _after_messages(asked, seen.text)
    if isinstance(more, Kept):
        return more
    for name in _LENGTHS:
        if asked.get(name) is not None:
            more[name] = max(0, asked[name] - seen.tokens)
    if more.get("max_tokens") == 0 or more.get("max_completion_tokens") == 0:
        return Kept("length")
    return msgspec.json.encode(more)


def _object(body: bytes) -> Json | None:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _kept(asked: Json) -> str:
    """Why a request of which something was answered cannot be continued; empty when it can."""
    for reason, names in _WHOLE.items():
        if any(asked.get(name) for name in names):
            return reason
    # A 0 of `logprobs` asks for those of the chosen tokens.
    if any(asked.get(name) is not None and asked[name] is not False for name in ("logprobs", "prompt_logprobs")):
        return "logprobs"
    if any(asked.get(name) not in (None, 1) for name in ("n", "best_of")):
        return "choices"
    if asked.get("tool_choice") not in (None, "none"):
        return "tools"
    form = asked.get("response_format")
    if any(name.startswith("guided_") and asked[name] for name in asked) or (form and form != {"type": "text"}):
        return "format"
    if asked.get("seed") is not None and asked.get("temperature") != 0:
        return "seed"
    if asked.get("stop") and asked.get("include_stop_str_in_output"):
        # Such an engine holds nothing back, so that a stop word may lie across the cut.
        return "stop"
    numbers = (asked.get(name) for name in _LENGTHS)
    return "" if all(one is None or type(one) is int for one in numbers) else "body"


def _after_prompt(asked: Json, text: str) -> Json | Kept:
    prompt = asked.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        return Kept("prompt")
    if asked.get("max_tokens") is None:
        # The engine's own default holds, of which nothing is known here.
        return Kept("unbounded")
    return {**asked, "prompt": prompt + text}


def _after_messages(asked: Json, text: str) -> Json | Kept:
    messages = asked.get("messages")
    if not isinstance(messages, list) or not messages or not all(_plain(each) for each in messages):
        return Kept("content")
    last = messages[-1]
    if asked.get("continue_final_message"):
        if not isinstance(last.get("content"), str):
            return Kept("content")
        messages = [*messages[:-1], {**last, "content": last["content"] + text}]
    else:
        messages = [*messages, {"role": "assistant", "content": text}]
    return {**asked, "messages": messages, "add_generation_prompt": False, "continue_final_message": True}


def _plain(message: object) -> bool:
    """A message of text only."""
    if not isinstance(message, dict) or message.get("tool_calls"):
        return False
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return all(isinstance(part, dict) and part.get("type") == "text" for part in parts)


class Stream:
    """One client's stream over as many engines as it takes; the state is only what passed through `take`.

    Chat templates may trim a last message, so an answer is carried from its last letter; spaces after it, which the
    client has, are left out when they come again.
    """

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat
        self._first: Json | None = None
        self._texts: list[str] = []
        self._pieces = 0
        self._indexes: set[int] = set()
        self._roles: set[int] = set()
        self._opaque = False
        # So many pieces, and tokens in them, to the last from which another engine can go on.
        self._solid = (0, 0)
        # Tokens before this engine, its later ones, those of the prompt, and spaces that it will send again.
        self._before, self._used, self._prompt = 0, 0, 0
        self._again = ""
        self._later = False
        self._held = b""
        self._finished = self._done = False

    @property
    def whole(self) -> bool:
        """Nothing of it is missing, unless for the mark of its end."""
        return self._done or (self._finished and len(self._indexes) <= 1)

    @property
    def done(self) -> bool:
        """Its end was said."""
        return self._done

    @property
    def broken(self) -> bool:
        """The engine itself has said that it does not go on."""
        return bool(self._held)

    @property
    def tokens(self) -> int:
        """As far as engines told, else pieces with text."""
        return self._before + self._used

    def seen(self) -> Seen:
        pieces, tokens = self._solid
        text = "".join(self._texts[:pieces])
        return Seen(text.rstrip() if self._chat else text, tokens, self._opaque)

    def resume(self) -> None:
        """From now on another engine speaks, which was given what `seen` returned."""
        _, tokens = self._solid
        self._again = "".join(self._texts)[len(self.seen().text) :]
        self._before, self._used, self._pieces = tokens, 0, 0
        self._later, self._held = True, b""

    def take(self, event: bytes) -> bytes:
        """What the client gets for one event of an engine; empty for nothing."""
        if self._done or self._held:
            return b""
        data = _data(event)
        if data == DONE:
            self._done = True
            return _event(DONE)
        chunk = _object(data) if data else None
        if chunk is None:
            self._opaque = self._opaque or bool(data)
            return event + b"\n\n"
        if "error" in chunk and "choices" not in chunk:
            return self._error(event, chunk["error"])
        return self._chunk(event, chunk)

    def end(self) -> bytes:
        """What the client lacks when no engine goes on: what was held back, or the mark of the end."""
        if self._done:
            return b""
        if self._held:
            held, self._held = self._held, b""
            self._done = True
            return held + _event(DONE)
        self._done = True
        return _event(DONE)

    def full(self) -> bytes:
        """The end of an answer that has as many tokens as were asked for, whose engine did not come to say so."""
        self._finished, self._held = True, b""
        says: Json = {"delta": {}} if self._chat else {"text": ""}
        choice = {"index": 0, **says, "finish_reason": "length"}
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        chunk = {"object": kind, **(self._first or {}), "choices": [choice]}
        return _event(msgspec.json.encode(chunk)) + self.end()

    def _error(self, event: bytes, error: object) -> bytes:
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and code < 500:
            # The request's own fault, which another engine would find as well.
            self._finished = True
            return event + b"\n\n"
        self._held = event + b"\n\n"
        return b""

    def _chunk(self, event: bytes, chunk: Json) -> bytes:
        changed = self._identify(chunk)
        choices = chunk.get("choices")
        kept, aborted, empty = [], False, not choices
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or type(choice.get("index", 0)) is not int:
                self._opaque = True
                continue
            changed |= self._choice(choice)
            aborted |= choice.get("finish_reason") == "abort"
            kept.append(choice)
        changed |= self._usage(chunk)
        self._settle()
        if aborted:
            return self._aborted(chunk, kept)
        self._finished = self._finished or any(choice.get("finish_reason") for choice in kept)
        if self._later and not empty and not chunk.get("usage") and not any(map(_says, kept)):
            return b""
        return _event(msgspec.json.encode(chunk)) if changed else event + b"\n\n"

    def _identify(self, chunk: Json) -> bool:
        if self._first is None:
            self._first = {name: chunk[name] for name in ("id", "created", "model", "object") if name in chunk}
            return False
        if self._later:
            chunk.update(self._first)
        return self._later

    def _choice(self, choice: Json) -> bool:
        """Note what a choice says; True when something of it was left out."""
        delta = choice.get("delta")
        says = delta if isinstance(delta, dict) else choice
        field = "content" if says is delta else "text"
        changed, index, more = False, choice.get("index", 0), False
        self._indexes.add(index)
        if says is delta:
            if says.get("role") is not None:
                if self._later and index in self._roles:
                    del says["role"]
                    changed = True
                self._roles.add(index)
            more = any(value for name, value in says.items() if name not in ("role", "content"))
        text = says.get(field)
        self._opaque |= more or (text is not None and not isinstance(text, str))
        self._pieces += bool(text or more)
        if not text or self._opaque:
            return changed
        new = self._new(text)
        if new:
            # Of several choices nothing is continued, so their texts are only known to be there.
            self._texts.append(new)
        says[field] = new
        return changed or new != text

    def _new(self, text: str) -> str:
        """Without the spaces at its beginning that the client has already."""
        same = 0
        while same < min(len(text), len(self._again)) and text[same] == self._again[same]:
            same += 1
        self._again = self._again[same:] if same == len(text) else ""
        return text[same:]

    def _usage(self, chunk: Json) -> bool:
        self._used = max(self._used, self._pieces)
        usage = chunk.get("usage")
        if not isinstance(usage, dict):
            return False
        made, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
        if type(made) is not int or type(prompt) is not int:
            return False
        self._used = made
        if not self._prompt:
            self._prompt = max(0, prompt - self._before)
        if self._later:
            usage["prompt_tokens"], usage["completion_tokens"] = self._prompt, self.tokens
            usage["total_tokens"] = self._prompt + self.tokens
        return self._later

    def _settle(self) -> None:
        """Note how far another engine could go on from, if that is here."""
        pieces, _ = self._solid
        if len(self._texts) > pieces and not (self._chat and self._texts[-1].isspace()):
            self._solid = (len(self._texts), self.tokens)

    def _aborted(self, chunk: Json, choices: list[Json]) -> bytes:
        """Its text passes, its end is held back until it is known that nobody goes on."""
        given = [{**choice, "finish_reason": None} for choice in choices]
        passed = _event(msgspec.json.encode({**chunk, "choices": given})) if any(map(_says, given)) else b""
        for choice in choices:
            if isinstance(choice.get("delta"), dict):
                choice["delta"] = {}
            else:
                choice["text"] = ""
        self._held = _event(msgspec.json.encode(chunk))
        return passed


def _says(choice: Json) -> bool:
    """Whether a choice has anything for the client."""
    delta = choice.get("delta")
    if choice.get("finish_reason") or choice.get("text"):
        return True
    return isinstance(delta, dict) and any(delta.values())


def _data(event: bytes) -> bytes:
    """The data of a server-sent event; empty for comments."""
    lines = event.splitlines()
    return b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
