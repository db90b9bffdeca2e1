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
    "device": Entry("dure.bench.device", "Squads of real ONNX segments against threads and turns."),
    "interference": Entry("dure.bench.interference", "Equation 1 on measured pairs that it has not seen."),
    "share": Entry("dure.bench.share", "One GPU shared by many: latency against every published system."),
    "route": Entry("dure.bench.route", "Queue choice against a fixed queue, the published rule and the optimum."),
}
