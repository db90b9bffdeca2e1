"""Every reason code with its remedy."""

from __future__ import annotations

from dure.model.errors import Conflict, DureError, InvalidInput, NotAllowed, NotFound, Permanent, Temporary
from dure.model.reason import REMEDIES, Reason
from handbook.text import cell, table

HEAD = """\
# Reason codes

A refusal is a value: a code that stays the same, and the two numbers that clash. `dure why WORKLOAD` shows them, the
journal keeps them (`dure get decisions`), problem+json carries the code as `reason`.
"""
ERRORS = """\

## Errors

What goes wrong in a command or a request is one of these. A message says what was wrong, where, and what to do.
"""


def page() -> str:
    rows = [(f'<span id="{reason.value.lower()}"></span>`{reason}`', cell(REMEDIES[reason])) for reason in Reason]
    kinds: tuple[type[DureError], ...] = (InvalidInput, NotAllowed, NotFound, Conflict, Temporary, Permanent)
    told = [(f"`{kind.__name__}`", kind.title, str(kind.exit_code), str(kind.status)) for kind in kinds]
    return (
        HEAD
        + "\n"
        + table(("code", "what to do"), rows)
        + ERRORS
        + "\n"
        + table(("kind", "meaning", "exit code", "HTTP status"), told)
    )
