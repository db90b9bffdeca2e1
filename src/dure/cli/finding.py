"""One thing that `dure doctor` has looked at."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """`level`: ok, warning or error."""

    check: str
    level: str
    message: str
    remedy: str = ""
