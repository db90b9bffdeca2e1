"""Which metrics and series the sample store knows, and how far each goes; kept in memory while the file is open.

The store asks it for every sample, so it does one dictionary look-up for each. A sample is taken when it is newer
than its series' last one and than what has been rolled up of its metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dure.adapters.metrics.columns import Columns
from dure.model.sample import Sample
from dure.model.units import Instant

Labels = tuple[tuple[str, str], ...]


@dataclass
class Metric:
    """`closed_s`: until when it has been rolled up."""

    number: int
    name: str
    ids: dict[Labels, int] = field(default_factory=dict)
    closed_s: Instant = 0.0

    def by_rank(self) -> list[tuple[int, Labels]]:
        return [(number, labels) for labels, number in sorted(self.ids.items())]


class Fresh(NamedTuple):
    """What the file does not have yet: (id, name) of metrics and (id, metric, labels) of series."""

    metrics: list[tuple[int, str]]
    series: list[tuple[int, int, Labels]]


class Known:
    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        self._next_metric = self._next_series = 1
        self._fresh = Fresh([], [])
        self.newest_s: Instant = 0.0
        self._last: dict[int, Instant] = {}

    def add(self, metric: int, name: str, number: int, labels: Labels) -> Metric:
        found = self.metrics.setdefault(name, Metric(metric, name))
        found.ids[labels] = number
        self._next_metric = max(self._next_metric, metric + 1)
        self._next_series = max(self._next_series, number + 1)
        return found

    def fresh(self) -> Fresh:
        """What was met for the first time since it was asked last."""
        found, self._fresh = self._fresh, Fresh([], [])
        return found

    def _meet(self, name: str, labels: Labels) -> tuple[Metric, int]:
        number = self._next_series
        known = self.metrics.get(name)
        metric = self.add(known.number if known else self._next_metric, name, number, labels)
        if known is None:
            self._fresh.metrics.append((metric.number, name))
        self._fresh.series.append((number, metric.number, labels))
        return metric, number

    def remember(self, part: Columns) -> None:
        """Samples that were written before; the newest of a series comes last."""
        self._last.update(zip(part.series.tolist(), part.at_s.tolist(), strict=True))

    def take(self, samples: Iterable[Sample]) -> list[tuple[Metric, Columns]]:
        """The samples that are news, by metric."""
        taken: dict[str, tuple[Metric, list[int], list[Instant], list[float]]] = {}
        last = self._last
        for sample in samples:
            name, at_s = sample.name, sample.at_s
            labels = tuple(sorted(sample.labels.items()))
            metric = self.metrics.get(name)
            number = metric.ids.get(labels) if metric is not None else None
            if metric is None or number is None:
                metric, number = self._meet(name, labels)
            if at_s <= last.get(number, -math.inf) or at_s < metric.closed_s:
                continue
            last[number] = at_s
            part = taken.get(name)
            if part is None:
                part = taken[name] = (metric, [], [], [])
            part[1].append(number)
            part[2].append(at_s)
            part[3].append(sample.value)
        found = [
            (metric, Columns(np.array(series, np.int32), np.array(at_s, np.float64), np.array(value, np.float64)))
            for metric, series, at_s, value in taken.values()
        ]
        self.newest_s = max([self.newest_s, *(float(part.at_s.max()) for _, part in found)])
        return found
