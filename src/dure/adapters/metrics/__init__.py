"""`MetricsPort` that survives a restart: a small time-series store in SQLite. `memory` has the one without a file."""

from dure.adapters.metrics.sqlite import SqliteMetrics

__all__ = ["SqliteMetrics"]
