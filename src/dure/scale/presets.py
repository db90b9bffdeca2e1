"""Threshold presets by kind of workload, and the cautious start of the tuning guide.

Read by `tune`, by the benchmark and by whoever writes autoscalers. Figures are per cent of the signal's target range:
scale out above `up_at`, in below `down_at`, hold for `window_s`.
"""

from __future__ import annotations

import msgspec


class Preset(msgspec.Struct, frozen=True):
    """One row of the guide."""

    up_at: int
    down_at: int
    window_s: int


PRESETS = {
    "real-time": Preset(70, 30, 60),
    "batch": Preset(85, 40, 300),
    "interactive": Preset(60, 25, 30),
}
CAUTIOUS = Preset(80, 20, 300)
