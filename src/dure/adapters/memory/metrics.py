"""Samples kept in memory, a bounded ring for each series: the `MetricsPort` of an embedded plane."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from dure.model.sample import Sample
from dure.model.units import Instant

_Labels = tuple[tuple[str, str], ...]


class MemoryMetrics:
    """`keep` samples of each series; older ones fall out. A sample not newer than its series' last one is dropped."""

    def __init__(self, *, keep: int = 2880) -> None:
        self._keep = keep
        self._series: dict[str, dict[_Labels, deque[Sample]]] = {}
        self._lock = threading.Lock()

    def fetch_samples(self, name: str, since_s: Instant, until_s: Instant) -> tuple[Sample, ...]:
        """Samples with `since_s <= at_s <= until_s`."""
        with self._lock:
            series = self._series.get(name, {})
            return tuple(
                sample for labels in sorted(series) for sample in series[labels] if since_s <= sample.at_s <= until_s
            )

    def write_samples(self, samples: Iterable[Sample]) -> None:
        with self._lock:
            for sample in samples:
                labels = tuple(sorted(sample.labels.items()))
                by_labels = self._series.setdefault(sample.name, {})
                ring = by_labels.setdefault(labels, deque(maxlen=self._keep))
                if not ring or ring[-1].at_s < sample.at_s:
                    ring.append(sample)
