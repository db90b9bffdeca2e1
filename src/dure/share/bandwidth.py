"""Memory bandwidth: weighted max-min shares of what the squad's members want.

Nobody gets more than it wants, what one does not want goes to the others in proportion to weight, and the sum is at
most the device's. Water filling, O(K log K).
"""

from __future__ import annotations

from collections.abc import Mapping


def divide(wanted: Mapping[str, float], weights: Mapping[str, float], total: float = 1.0) -> dict[str, float]:
    """Share of each tenant in units of `total`. Weights must be positive."""
    shares = dict.fromkeys(sorted(wanted), 0.0)
    open_ = sorted(wanted, key=lambda name: (wanted[name] / weights[name], name))
    left = total
    weight = sum(weights[name] for name in open_)
    for name in open_:
        fair = left * weights[name] / weight
        shares[name] = min(wanted[name], fair)
        left -= shares[name]
        weight -= weights[name]
    return shares
