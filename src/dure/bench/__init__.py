"""Benchmarks: one module each with a click command named `command`; `result` is what they all print.

Every figure is a ratio to an opponent measured in the same run; public data comes from `DURE_DATA`.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    module: str
    help: str


BENCHES: dict[str, Entry] = {
    "scale": Entry("dure.bench.scale", "Replicas: misses and GPU-hours against HPA and KEDA on LLM traces."),
    "consolidate": Entry("dure.bench.consolidate", "A 1,000-node consolidation plan against Karpenter's rules."),
    "nodes": Entry("dure.bench.nodes", "Provisioning price against first-fit and the integer programme."),
}
