"""Database errors in Dure's words: broken uniqueness, try again later, or never; and what to do about it.

Every statement of the store runs inside of `translated`, so that nothing but the errors of `dure.model.errors` comes
out. A refused write was rolled back whole: what was accepted before it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dure.model.errors import Conflict, DureError, Permanent, Temporary

_RESTORE = "Stop Dure, keep a copy of the file, and restore a backup: dure restore FILE --state NEW-FOLDER"
# What the database says, what that means, and what helps. Looked for in this order.
_DISK = (
    ("full", "the disk is full", "Free some space; Dure goes on by itself."),
    ("No space left", "the disk is full", "Free some space; Dure goes on by itself."),
    ("readonly", "the disk or the database is read-only", "Make it writable; Dure goes on by itself."),
    ("read-only", "the disk or the database is read-only", "Make it writable; Dure goes on by itself."),
    ("disk I/O error", "the disk does not work", "Look at the disk; Dure goes on by itself when it works again."),
    ("unable to open", "the database cannot be opened", "Check the folder, and how many files Dure may open."),
    ("Too many open files", "Dure may not open more files", "Raise the limit of open files (ulimit -n)."),
)
_DAMAGE = ("malformed", "not a database", "invalid page", "corrupt")


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except DureError:
        raise
    except IntegrityError as error:
        raise Conflict(f"already there: {error.orig}") from error
    except DBAPIError as error:
        raise _of_database(error) from error
    except PoolTimeout as error:
        raise Temporary("the database is busy: no connection has become free", remedy="Try again.") from error
    except SQLAlchemyError as error:
        raise Temporary(f"the connection to the database is not usable: {error}") from error


def _of_database(error: DBAPIError) -> DureError:
    said = str(error.orig)
    if any(word in said for word in _DAMAGE):
        return Permanent(f"the database is damaged: {said}", remedy=_RESTORE)
    for word, meaning, remedy in _DISK:
        if word in said:
            return Temporary(f"{meaning}: {said}; nothing was written, nothing accepted is lost", remedy=remedy)
    if isinstance(error, OperationalError):
        return Temporary(f"the database does not take it now: {said}")
    if error.connection_invalidated:
        return Temporary(f"the database has ended the connection: {said}")
    return Permanent(f"the database refused: {said}")
