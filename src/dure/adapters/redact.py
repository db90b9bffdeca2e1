"""Secrets never reach a log: what looks like one, and what is known to be one, is blotted out of every line.

`guard_logs` is called by each process at its start. It works on the finished text, tracebacks included. Those tell
where something happened, never what the variables held: that would be pods' environments, and megabytes of a fleet.
"""

from __future__ import annotations

import re
import sys
from typing import Any

BLOT = "***"
_PATTERNS = (
    (re.compile(r"(dure_[0-9a-f]{12}_)[A-Za-z0-9_-]{16,}"), rf"\g<1>{BLOT}"),
    (re.compile(r"(?i)(bearer\s+)[^\s'\"]+"), rf"\g<1>{BLOT}"),
    (re.compile(r"(?i)([?&](?:code|token|secret|password|key)=)[^&\s'\"]+"), rf"\g<1>{BLOT}"),
    (re.compile(r"(://[^/:@\s'\"]*:)[^@/\s'\"]+@"), rf"\g<1>{BLOT}@"),
    (re.compile(r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|$)"), rf"\g<1>{BLOT}\g<2>"),
)
# Shorter ones would blot out innocent words.
_SHORTEST = 12
_known: set[str] = set()


def know(secret: str) -> str:
    """A secret that has no form to be known by. Answers it, so that it can be said where it is read."""
    if len(secret) >= _SHORTEST:
        _known.add(secret)
    return secret


def redact(text: str) -> str:
    for secret in _known:
        text = text.replace(secret, BLOT)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def guard_logs() -> None:
    """Let every line pass through `redact`, after it was rendered plainly; fine to call twice."""
    import structlog

    processors = structlog.get_config()["processors"]
    if _blot in processors:
        return
    plain = structlog.dev.ConsoleRenderer(
        colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    rendered = [plain if isinstance(one, structlog.dev.ConsoleRenderer) else one for one in processors]
    structlog.configure(processors=[*rendered, _blot])


def _blot(_logger: Any, _method: str, rendered: Any) -> Any:
    return redact(rendered) if isinstance(rendered, str) else rendered
