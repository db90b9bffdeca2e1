"""What the interpreter's collector may cost a process that lives long or makes many small values."""

from __future__ import annotations

import gc

# Records are read and let go by the thousand and hardly ever refer to one another: looking for circles after every
# 700 objects, and in all that lives each time a quarter more has come, would stop everybody for most of the time.
_SELDOM = (50_000, 20, 50)


def collect_seldom(thresholds: tuple[int, int, int] = _SELDOM) -> None:
    """What is there now stays: it is not searched again, and what comes is searched seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)
