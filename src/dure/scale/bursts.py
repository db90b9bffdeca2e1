"""What a Policy of verb `scale` may set: when a serving is granted replicas, and when it gives them back.

Read by `plane.bursting` in every cycle, and checked by `files` and by the plane before it is kept. Servings in real
clusters are scaled only where `realClusters: true` asks for it: whoever has another autoscaler there would see the
two fight.
"""

from __future__ import annotations

import msgspec

from dure.model.errors import InvalidInput
from dure.model.policy import Policy
from dure.model.settings import settings_as
from dure.model.units import Seconds


class Bursts(msgspec.Struct, frozen=True):
    """A point of the trend is at least `sample_s` and `least_requests`; fewer say little about a share.

    Granted is when the points of `window_s`, `least_samples` of them, say that too many will be late in `horizon_s`,
    or when the load that is foreseen for then would make them late (`foresee`); given back after `calm_s`. The trend
    is not asked again until a granted replica is ready, or has had `warm_s` for it.
    """

    sample_s: Seconds = 60.0
    least_requests: int = 50
    least_samples: int = 4
    window_s: Seconds = 600.0
    horizon_s: Seconds = 300.0
    calm_s: Seconds = 900.0
    warm_s: Seconds = 600.0
    most_at_once: int = 4
    foresee: bool = True
    real_clusters: bool = False

    @property
    def quiet_s(self) -> Seconds:
        """After this long too few requests are a point too, as nobody is late where nobody asks: enough of them to
        make a trend fit into the window."""
        return max(self.sample_s, self.window_s / (self.least_samples + 1))


def bursts_of(policy: Policy) -> Bursts:
    """The policy's settings, checked."""
    if policy.algorithm != "default":
        raise InvalidInput(
            f"policy {policy.name}: no way of scaling '{policy.algorithm}'", remedy="Leave spec.algorithm out."
        )
    made = settings_as(policy, Bursts)
    for name in ("sample_s", "least_requests", "window_s", "horizon_s", "calm_s", "warm_s", "most_at_once"):
        if not 0 < getattr(made, name) < float("inf"):
            raise InvalidInput(f"policy {policy.name}: {name.replace('_', ' ')} must be more than 0")
    if made.least_samples < 2 or made.window_s < made.least_samples * made.sample_s:
        raise InvalidInput(
            f"policy {policy.name}: {made.least_samples} samples of {made.sample_s:g} s do not fit into a window of "
            f"{made.window_s:g} s, or are no trend",
            remedy="At least two samples; make windowS longer or sampleS shorter.",
        )
    return made
