"""Takes secrets out of what is about to leave the house: by the name of a field, and by the look of a text. Pure.

`dure bugreport` passes everything through it. What looks like a secret and is none is removed too: that is the side
to err on. Pod templates go whole, since their environments hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REMOVED = "(removed)"
_NAMES = re.compile(
    r"token|secret|passw|api[-_]?key|authorization|credential|kubeconfig|private|cert|template|cookie|session", re.I
)
_TEXTS = (
    re.compile(r"-----BEGIN [A-Z ]+-----.*?(-----END [A-Z ]+-----|$)", re.S),
    re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9._-]+"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"(?i)\b(token|secret|password|passwd|api[-_]?key)\s*[=:]\s*\S+"),
    re.compile(r"\b(?=[A-Za-z0-9_-]*[0-9])(?=[A-Za-z0-9_-]*[A-Z])(?=[A-Za-z0-9_-]*[a-z])[A-Za-z0-9_-]{32,}\b"),
)


def redacted(value: Any) -> Any:
    """The same shape without what nobody else should read."""
    if isinstance(value, Mapping):
        return {name: _field(str(name), inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(one) for one in value]
    return _text(value) if isinstance(value, str) else value


def _field(name: str, value: Any) -> Any:
    if _NAMES.search(name) and value not in (None, "", False, True):
        return (
            REMOVED
            if isinstance(value, (str, bytes))
            else type(value)()
            if isinstance(value, (dict, list))
            else value
        )
    return redacted(value)


def _text(text: str) -> str:
    for pattern in _TEXTS:
        text = pattern.sub(REMOVED, text)
    return text
