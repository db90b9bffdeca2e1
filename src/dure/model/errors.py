"""The ways in which something can be refused or go wrong outside of a decision.

Outcomes of scheduling are values (`Hold` with reasons); these are for broken contracts and I/O. Each
class carries the exit code of the command line and the status of the REST API, mapped nowhere else.
"""

from __future__ import annotations

from typing import ClassVar


class DureError(Exception):
    """What was wrong, where, and what to do about it."""

    exit_code: ClassVar[int] = 1
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Failed"

    def __init__(self, message: str, *, where: str = "", remedy: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.remedy = remedy
        self.reason = reason

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  {self.remedy}" if self.remedy else text


class InvalidInput(DureError):
    exit_code, status, title = 2, 400, "Invalid input"


class NotAllowed(DureError):
    exit_code, status, title = 3, 403, "Not allowed"


class NotFound(DureError):
    exit_code, status, title = 4, 404, "Not found"


class Conflict(DureError):
    exit_code, status, title = 5, 409, "Conflict"


class Temporary(DureError):
    """Trying the same again later may work."""

    exit_code, status, title = 6, 503, "Temporarily unavailable"


class Crowded(Temporary):
    """A queue is as long as it may get."""

    status, title = 429, "Too many waiting"


class Permanent(DureError):
    """Trying the same again will not work."""

    exit_code, status, title = 1, 500, "Failed"


_BY_STATUS: dict[int, type[DureError]] = {
    400: InvalidInput,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    412: Conflict,
    413: InvalidInput,
    422: InvalidInput,
    429: Temporary,
    502: Temporary,
    503: Temporary,
    504: Temporary,
}


def kind_of(status: int, otherwise: type[DureError] = Permanent) -> type[DureError]:
    """The error that an HTTP status of a plane or an API server stands for."""
    return _BY_STATUS.get(status, otherwise)
