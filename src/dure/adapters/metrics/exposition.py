"""Reads what exporters show: the Prometheus text format and OpenMetrics, as samples.

Collectors call it for every scrape. The client library's parser is exact and builds an object for each family,
which at a million samples a minute would take more than a processor; this one does a look-up for each line, since a
series is written the same way in every scrape. A test holds it to the library's answers. One line that cannot be
read refuses the scrape, as Prometheus does; an OpenMetrics page without its end was cut off.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from dure.model.errors import InvalidInput
from dure.model.sample import Sample
from dure.model.units import Instant

OPEN_METRICS = "application/openmetrics-text"
ACCEPT = f"{OPEN_METRICS};version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
# A target that makes up new series for ever must not fill the memory.
MOST_SERIES = 2_000_000

_SERIES = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(\{(?:[^"{}]|"(?:\\.|[^"\\])*")*\})?(?=[ \t])')
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:\\.|[^"\\])*)"[ \t]*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


class Series(NamedTuple):
    """`name` is empty for a series that nobody wants."""

    name: str
    labels: dict[str, str]
    factor: float = 1.0


Rename = Callable[[str, dict[str, str]], tuple[str, dict[str, str], float] | None]


class Reader:
    """Remembers how series are written. One for each thread that scrapes.

    `rename` is asked once for each series: its other name, labels and factor, or None to leave it out.
    """

    def __init__(self, rename: Rename | None = None) -> None:
        self._rename = rename
        self._series: dict[str, Series] = {}

    def read(self, text: str, at_s: Instant, content_type: str = "") -> list[Sample]:
        """The samples of one page; those without a time of their own get `at_s`."""
        is_open = content_type.startswith(OPEN_METRICS)
        found: list[Sample] = []
        ended = False
        known = self._series
        for number, line in enumerate(text.split("\n"), 1):
            if not line or line[0] == "#":
                ended = ended or line.rstrip() == "# EOF"
                continue
            end = line.find("} ") + 1 or line.find(" ")
            series = known.get(line[:end])
            rest = line[end:]
            if series is None:
                if not line.strip():
                    continue
                series, rest = self._learn(line, number)
            elif is_open and "#" in rest:
                rest = rest[: rest.index("#")]
            if not series.name:
                continue
            parts = rest.split()
            try:
                if "_" in parts[0]:  # Python reads 1_000, Prometheus does not
                    raise ValueError
                value = float(parts[0])
                when_s = at_s if len(parts) == 1 else _time(parts, is_open)
            except (ValueError, IndexError, OverflowError):
                raise _unreadable(number, line) from None
            if series.factor != 1.0:
                value *= series.factor
            found.append(Sample(series.name, series.labels, when_s, value))
        if is_open and not ended:
            raise InvalidInput("the page ends without '# EOF': it was cut off", remedy="Scrape it again.")
        return found

    def _learn(self, line: str, number: int) -> tuple[Series, str]:
        matched = _SERIES.match(line.lstrip())
        if matched is None:
            raise _unreadable(number, line)
        labels = _labels(matched[2], number, line) if matched[2] else {}
        series = Series(matched[1], labels)
        if self._rename is not None:
            renamed = self._rename(*series[:2])
            series = Series(*renamed) if renamed else Series("", {})
        if len(self._series) >= MOST_SERIES:
            self._series.clear()
        self._series[matched[0]] = series
        rest = line.lstrip()[matched.end() :]
        # An exemplar, in OpenMetrics: what follows the sign is not ours.
        return series, rest.split("#", 1)[0]


def _labels(braced: str, number: int, line: str) -> dict[str, str]:
    body, at, labels = braced[1:-1].strip(), 0, {}
    while at < len(body):
        matched = _LABEL.match(body, at)
        if matched is None:
            raise _unreadable(number, line)
        value = matched[2]
        labels[matched[1]] = _ESCAPED.sub(_unescaped, value) if "\\" in value else value
        at = matched.end()
    return labels


def _unescaped(matched: re.Match[str]) -> str:
    return _ESCAPES.get(matched[1], matched[0])


def _time(parts: list[str], is_open: bool) -> Instant:
    if len(parts) > 2:
        raise ValueError
    # Milliseconds in the text format, seconds in OpenMetrics.
    at_s = float(parts[1]) if is_open else float(int(parts[1])) / 1000
    if not math.isfinite(at_s):
        raise ValueError
    return at_s


def _unreadable(number: int, line: str) -> InvalidInput:
    return InvalidInput(
        f"line {number} is no sample: '{line[:120]}'", remedy="The target does not speak the format of Prometheus."
    )
