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
    "slices": Entry("dure.bench.slices", "A slice of a node against running directly, and beside a greedy tenant."),
    "interference": Entry("dure.bench.interference", "Equation 1 on measured pairs that it has not seen."),
    "share": Entry("dure.bench.share", "One GPU shared by many: latency against every published system."),
    "route": Entry("dure.bench.route", "Queue choice against a fixed queue, the published rule and the optimum."),
    "gateway": Entry("dure.bench.gateway", "What the Kueue gateway adds to a submission, and its rate."),
    "pack": Entry("dure.bench.pack", "How full a cluster gets: packing against FGD, best fit and random."),
    "pack-speed": Entry("dure.bench.pack_speed", "Packing decisions per second at 1.2k, 10k and 50k nodes."),
    "scale": Entry("dure.bench.scale", "Replicas: misses and GPU-hours against HPA and KEDA on LLM traces."),
    "consolidate": Entry("dure.bench.consolidate", "A 1,000-node consolidation plan against Karpenter's rules."),
    "nodes": Entry("dure.bench.nodes", "Provisioning price against first-fit and the integer programme."),
    "spot": Entry("dure.bench.spot", "Spot under deadlines: saving at zero misses against Uniform Progress."),
    "jct": Entry("dure.bench.jct", "Completion times of training jobs against FIFO, SRTF, Tiresias and Gavel."),
    "eta": Entry("dure.bench.eta", "Calibration of expected start and finish on recorded jobs."),
    "failure": Entry("dure.bench.failure", "The plane stopped, a site lost: jobs lost, recovery, extra cost."),
    "foresee": Entry("dure.bench.foresee", "Promises kept and money spent, with and without foresight."),
    "surge": Entry("dure.bench.surge", "Services that surge, as an elastic group and each alone."),
    "samples": Entry("dure.bench.samples", "Samples a minute: read, kept, downsampled, found again."),
    "gap": Entry("dure.bench.gap", "Distance of the placement solvers to the proven optimum."),
    "watch": Entry(
        "dure.bench.watch", "Labelled faults against static thresholds; forecasts against seasonal-naive."
    ),
    "dashboard": Entry("dure.bench.dashboard", "First paint and update rate of the dashboard, by devices."),
    "place": Entry("dure.bench.place", "Money, CO2 and misses over real regions against six baselines."),
}
