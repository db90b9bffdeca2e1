"""Benchmarks: one module each with a click command named `command`; `result` is what they all print.

Every figure is a ratio to an opponent measured in the same run; public data comes from `DURE_DATA`.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    module: str
    help: str


BENCHES: dict[str, Entry] = {
    "api": Entry("dure.bench.api", "GET of one workload against a bare Litestar handler."),
}
