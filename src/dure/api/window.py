"""From when until when a question about the past goes: two moments, or words as OpenCost's window has them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from litestar.params import QueryParameter

from dure.api.service import Service
from dure.model.errors import InvalidInput
from dure.model.units import DAY_S, HOUR_S, Instant

WEEK_S = 7.0 * DAY_S
# The most hours that one question may span: a year.
MOST_HOURS = 366 * 24

Since = Annotated[float | None, QueryParameter(description="Seconds since 1970; a week before `until_s` without it.")]
Until = Annotated[float | None, QueryParameter(description="Seconds since 1970; now without it.")]


def window_of(text: str, now_s: Instant) -> tuple[Instant, Instant]:
    """`7d`, `today`, `yesterday`, `week`, `month`, `lastweek`, `lastmonth`, or two moments with a comma between."""
    today = datetime.fromtimestamp(now_s, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday, first = today - timedelta(days=today.weekday()), today.replace(day=1)
    named = {
        "today": (today.timestamp(), now_s),
        "yesterday": ((today - timedelta(days=1)).timestamp(), today.timestamp()),
        "week": (monday.timestamp(), now_s),
        "lastweek": ((monday - timedelta(days=7)).timestamp(), monday.timestamp()),
        "month": (first.timestamp(), now_s),
        "lastmonth": ((first - timedelta(days=1)).replace(day=1).timestamp(), first.timestamp()),
    }
    if text in named:
        return named[text]
    if "," in text:
        begin, _, end = text.partition(",")
        return bounded(_moment(begin), _moment(end))
    # Whole hours, since that is what the ledger has; the one under way is part of it.
    return bounded((now_s - duration_s(text)) // HOUR_S * HOUR_S, now_s)


def _moment(text: str) -> Instant:
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"'{text[:40]}' is no moment", remedy="Write it as 2026-11-16T00:00:00Z.") from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def duration_s(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if found is None or int(found[1]) == 0:
        raise InvalidInput(f"'{text[:40]}' is no length of time", remedy="Write it as 30m, 12h, 7d or 4w.")
    return max(float(HOUR_S), int(found[1]) * {"m": 60.0, "h": 3600.0, "d": DAY_S, "w": WEEK_S}[found[2]])


def window(service: Service, since_s: float | None, until_s: float | None) -> tuple[Instant, Instant]:
    end_s = until_s if until_s is not None else service.backend.now()
    return bounded(since_s if since_s is not None else end_s - WEEK_S, end_s)


def bounded(begin_s: Instant, end_s: Instant) -> tuple[Instant, Instant]:
    if not (0 <= begin_s <= end_s < 1e11):
        raise InvalidInput("the window ends before it begins", remedy="Give since_s below until_s.")
    if end_s - begin_s > MOST_HOURS * HOUR_S:
        raise InvalidInput("the window is longer than a year", remedy="Ask for less at once.")
    return begin_s, end_s
