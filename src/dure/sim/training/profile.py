"""What one application does on one accelerator type: seconds per step by nodes, replicas and local batch size.

Rows come from measured tables; what lies between them is interpolated, what lies outside is unknown (NaN).
Statistical efficiency follows Pollux: progress per step grows with the batch as far as the gradient noise allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from dure.place.instance import Floats

_MOST_ACCUMULATION = 8


class Step(msgspec.Struct, frozen=True):
    """One measured row; `sync_s` is the part of `step_s` in which replicas exchange gradients."""

    nodes: int
    replicas: int
    batch: int
    step_s: float
    sync_s: float


class Epochs(msgspec.Struct, frozen=True):
    """Of a run with one batch size: progress at the end of each epoch, and the gradient's square and variance."""

    progress: tuple[float, ...]
    square: tuple[float, ...]
    variance: tuple[float, ...]


class Steps:
    """Step and sync time of one application on one type."""

    def __init__(self, rows: Iterable[Step]) -> None:
        grouped: dict[tuple[int, int], dict[int, list[tuple[float, float]]]] = {}
        for row in rows:
            by_batch = grouped.setdefault((row.nodes, row.replicas), {})
            by_batch.setdefault(row.batch, []).append((row.step_s, row.sync_s))
        self._known = {key: _curve(by_batch) for key, by_batch in grouped.items()}

    def batches(self, nodes: int, replicas: int) -> tuple[int, int]:
        """Smallest and largest local batch size that fits this shape."""
        batch, _ = self._near(nodes, replicas)
        return int(batch[0]), int(batch[-1])

    def at(self, nodes: int, replicas: int, batch: float) -> tuple[float, float]:
        sizes, times = self._near(nodes, replicas)
        if not sizes[0] <= batch <= sizes[-1]:
            return math.nan, math.nan
        return float(np.interp(batch, sizes, times[:, 0])), float(np.interp(batch, sizes, times[:, 1]))

    def _near(self, nodes: int, replicas: int) -> tuple[Floats, Floats]:
        """The measured shape, or the one between its neighbours in replicas with the same or nearest nodes."""
        key = (nodes, replicas)
        if key not in self._known:
            self._known[key] = self._between(nodes, replicas)
        return self._known[key]

    def _between(self, nodes: int, replicas: int) -> tuple[Floats, Floats]:
        apart = min(abs(known[0] - nodes) for known in self._known)
        row = {known[1]: curve for known, curve in self._known.items() if abs(known[0] - nodes) == apart}
        below = max((size for size in row if size <= replicas), default=min(row))
        above = min((size for size in row if size >= replicas), default=max(row))
        (low_b, low_t), (high_b, high_t) = row[below], row[above]
        part = (replicas - below) / (above - below) if above > below else 0.0
        sizes = np.array([size for size in low_b if high_b[0] <= size <= high_b[-1]])
        if len(sizes) == 0:
            return low_b, low_t
        columns = [
            (1 - part) * np.interp(sizes, low_b, low_t[:, own]) + part * np.interp(sizes, high_b, high_t[:, own])
            for own in (0, 1)
        ]
        return sizes, np.stack(columns, axis=1)


class Application:
    """An application: steps by type, epochs by batch size, and how long a restart takes.

    `slower` is how much slower its real runs were than the profile says.
    """

    def __init__(
        self, steps: Mapping[str, Steps], epochs: Mapping[int, Epochs], *, count: int, restart_s: float, slower: float
    ) -> None:
        self.steps, self.restart_s, self._slower = dict(steps), restart_s, slower
        self.sizes = sorted(epochs)
        self.epochs = min(count, min(len(one.progress) for one in epochs.values()))
        ends = [min(one.progress[index] for one in epochs.values()) for index in range(self.epochs)]
        #: Progress at which each epoch ends; the last one ends the job.
        self.ends: Floats = np.array(ends)
        self._square = np.array([epochs[size].square[: self.epochs] for size in self.sizes])
        self._variance = np.array([epochs[size].variance[: self.epochs] for size in self.sizes])

    @property
    def first_batch(self) -> int:
        return self.sizes[0]

    @property
    def largest_batch(self) -> int:
        return self.sizes[-1]

    def gain(self, batch: float) -> Floats:
        """Progress per step in each epoch, relative to a step of the first batch size."""
        square, variance = (
            np.array([np.interp(batch, self.sizes, column) for column in table.T])
            for table in (self._square, self._variance)
        )
        scale = batch / self.first_batch
        return np.asarray((variance + square) / (variance / scale + square))

    def pace(self, kind: str, nodes: int, replicas: int, batch: float) -> Floats | None:
        """Progress per second in each epoch with this global batch; nothing where it does not fit."""
        smallest, largest = self.steps[kind].batches(nodes, replicas)
        local = math.ceil(batch / replicas - 1e-8)
        more = math.ceil(local / largest - 1e-8) - 1
        if replicas == 1 and batch > self.first_batch:
            more = max(1, more)
        atomic = max(smallest, math.ceil(local / (more + 1) - 1e-8))
        if more > _MOST_ACCUMULATION or atomic * (more + 1) * replicas > 1.05 * self.largest_batch:
            return None
        step_s, sync_s = self.steps[kind].at(nodes, replicas, atomic)
        if math.isnan(step_s):
            return None
        total_s = step_s + more * (step_s - sync_s)
        real = min(float(atomic * (more + 1) * replicas), float(self.largest_batch))
        return np.asarray(self.gain(max(real, self.first_batch)) / total_s / self._slower)

    def best_pace(self, kind: str, nodes: int, replicas: int) -> Floats | None:
        """The best of all batch sizes, epoch by epoch."""
        paces = [
            pace
            for batch in _grid(self.first_batch, self.largest_batch)
            if (pace := self.pace(kind, nodes, replicas, batch)) is not None
        ]
        return np.max(paces, axis=0) if paces else None


def _curve(by_batch: Mapping[int, Sequence[tuple[float, float]]]) -> tuple[Floats, Floats]:
    sizes = sorted(by_batch)
    return np.array(sizes, np.float64), np.array([np.mean(by_batch[size], axis=0) for size in sizes])


def _grid(low: int, high: int) -> list[int]:
    count = max(2, math.ceil(math.log2(high / low) * 4) + 1)
    return sorted({round(value) for value in np.geomspace(low, high, count)})
