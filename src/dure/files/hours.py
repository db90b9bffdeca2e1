"""Prices that follow the clock: one value, or a shape over the hours of the week in the cluster's time zone.

    electricity:
      default: 110/kWh
      daily: {22-8: 80/kWh}                 # every day, 22:00-24:00 and 00:00-08:00
      weekdays: {10-12: 190/kWh, 13-17: 190/kWh}
      sunday: 75/kWh

The more particular key wins: a day's name over `weekdays` and `weekend`, those over `daily`, that over `default`.
The model wants UTC hours of the week; `to_utc` shifts whole hours by the zone's standard time, so a summer hour
is not followed, and `to_local` is its exact inverse.
"""

from __future__ import annotations

import datetime
import functools
import re
from typing import Any
from zoneinfo import ZoneInfo

from dure.files.problem import nearest_of, shown
from dure.files.reading import BROKEN, Reading
from dure.files.shapes import Quantity, Schema, Shape, Text
from dure.files.yaml import Value
from dure.model.tariff import Weekly
from dure.model.units import WEEK_H

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SETS: dict[str, tuple[int, ...]] = {
    "daily": tuple(range(7)),
    "weekdays": (0, 1, 2, 3, 4),
    "weekend": (5, 6),
    **{day: (index,) for index, day in enumerate(DAYS)},
}
_RANGE = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")


class Hourly(Shape):
    """Reads to a `Weekly` of local hours; one value where all hours are equal."""

    def __init__(self, price: Quantity) -> None:
        self.price = price
        self.kind = f"{price.kind} or a mapping of hours"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        if not isinstance(value.data, dict):
            single = self.price.read(value, path, into)
            return single if single is BROKEN else Weekly((single,))
        before = len(into.problems)
        hours: list[int | None] = [None] * WEEK_H
        for key in (key for key in value.data if key not in ("default", *_SETS)):
            at = Value(None, *value.keys.get(key, (value.line, value.column)))
            allowed = ", ".join(("default", *_SETS))
            into.wrong(at, path, f"unknown key {shown(key)}; allowed: {allowed}", nearest_of(key, _SETS))
        if default := value.data.get("default"):
            hours = [self.price.read(default, f"{path}.default", into)] * WEEK_H
        for name, days in _SETS.items():
            if name in value.data:
                self._fill(hours, days, value.data[name], f"{path}.{name}", into)
        return self._weekly(hours, value, path, into) if len(into.problems) == before else BROKEN

    def _fill(self, hours: list[int | None], days: tuple[int, ...], value: Value, path: str, into: Reading) -> None:
        if not isinstance(value.data, dict):
            price = self.price.read(value, path, into)
            spans = [(tuple(range(24)), price)]
        else:
            spans = [
                (_span(key, value, path, into), self.price.read(item, f"{path}.{key}", into))
                for key, item in value.data.items()
            ]
        for span, price in spans:
            for day in days:
                for hour in span:
                    hours[day * 24 + hour] = price

    def _weekly(self, hours: list[int | None], value: Value, path: str, into: Reading) -> Any:
        if None in hours:
            missing = hours.index(None)
            day, hour = DAYS[missing // 24], missing % 24
            return into.wrong(value, path, f"no price for {day} {hour}:00", "Add the key 'default'.")
        prices = tuple(hour for hour in hours if hour is not None)
        return Weekly(prices if len(set(prices)) > 1 else prices[:1])

    def schema(self) -> Schema:
        price = self.price.schema()
        spans = {"type": "object", "propertyNames": {"pattern": f"^{_RANGE.pattern}$"}, "additionalProperties": price}
        days = {name: {"anyOf": [price, spans]} for name in _SETS}
        table = {"type": "object", "properties": {"default": price, **days}, "additionalProperties": False}
        return {"anyOf": [price, table]}

    def write(self, value: Weekly) -> Any:
        if len(value.values) == 1:
            return self.price.write(value.values[0])
        days = [value.values[day * 24 : day * 24 + 24] for day in range(7)]
        if len(set(days)) == 1:
            return {"daily": self._written(days[0])}
        table: dict[str, Any] = {}
        if len(set(days[:5])) == 1:
            table["weekdays"] = self._written(days[0])
        if days[5] == days[6]:
            table["weekend"] = self._written(days[5])
        for index, name in enumerate(DAYS):
            if ("weekdays" if index < 5 else "weekend") not in table:
                table[name] = self._written(days[index])
        return table

    def _written(self, day: tuple[int, ...]) -> Any:
        """The price of a whole day, or its runs of equal hours."""
        starts = [hour for hour in range(24) if hour == 0 or day[hour] != day[hour - 1]]
        if len(starts) == 1:
            return self.price.write(day[0])
        return {f"{a}-{b}": self.price.write(day[a]) for a, b in zip(starts, [*starts[1:], 24], strict=True)}


def _span(key: str, value: Value, path: str, into: Reading) -> tuple[int, ...]:
    """`9-18` is 09:00 to 18:00; `22-8` goes through midnight, of the same day's hours."""
    match = _RANGE.fullmatch(key)
    start, end = (int(match[1]), int(match[2])) if match else (0, 0)
    if not match or start > 23 or end > 24 or start == end:
        at = Value(None, *value.keys.get(key, (value.line, value.column)))
        into.wrong(at, path, f"{shown(key)} is not a span of hours; write 9-18 or 22-8")
        return ()
    return tuple(range(start, end)) if start < end else (*range(start, 24), *range(end))


class TimeZone(Text):
    """A name of the time-zone database."""

    kind = "a time zone like Asia/Seoul"

    def read(self, value: Value, path: str, into: Reading) -> Any:
        name = super().read(value, path, into)
        if name is BROKEN:
            return name
        try:
            standard_hours(name)
        except (KeyError, ValueError, OSError):
            import zoneinfo

            hint = nearest_of(name, zoneinfo.available_timezones())
            return into.wrong(value, path, f"{shown(name)} is not {self.kind}", hint)
        return name


@functools.cache
def standard_hours(timezone: str) -> int:
    """Whole hours that the zone's standard time is ahead of UTC, rounded down."""
    if timezone == "UTC":
        return 0
    moment = datetime.datetime(2026, 1, 15, tzinfo=ZoneInfo(timezone))
    offset = (moment.utcoffset() or datetime.timedelta()) - (moment.dst() or datetime.timedelta())
    return int(offset // datetime.timedelta(hours=1))


def to_utc(local: Weekly, timezone: str) -> Weekly:
    return _shifted(local, standard_hours(timezone))


def to_local(utc: Weekly, timezone: str) -> Weekly:
    return _shifted(utc, -standard_hours(timezone))


def _shifted(weekly: Weekly, hours: int) -> Weekly:
    """Hour `h` of the result is hour `h + hours` of `weekly`."""
    if len(weekly.values) == 1:
        return weekly
    start = hours % WEEK_H
    return Weekly(weekly.values[start:] + weekly.values[:start])
