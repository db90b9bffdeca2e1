"""What an embedded cluster is made of and how rough its world is. Constant for the cluster's life."""

from __future__ import annotations

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.fleet import ClusterSpec, PoolSpec
from dure.model.units import HOUR_S, Seconds


class Hazards(msgspec.Struct, frozen=True):
    """How often things go wrong, and by how much an estimate misses the truth.

    One device failure in 20,000 device-hours is about twice what large training fleets publish: a demo of a few dozen
    devices should still see one now and then.
    """

    duration_sigma: float = 0.2
    doomed: float = 0.008
    crash_per_h: float = 0.004
    restarts: int = 3
    device_mtbf_h: float = 20_000.0
    repair_s: Seconds = 6 * HOUR_S
    reclaim: bool = True
    notice_s: Seconds = 120.0
    spot_back_s: Seconds = 900.0


DEMO = Hazards()
CALM = Hazards(duration_sigma=0.0, doomed=0.0, crash_per_h=0.0, device_mtbf_h=0.0, reclaim=False)


class Laws(msgspec.Struct, frozen=True):
    spec: ClusterSpec
    catalogue: Catalogue
    hazards: Hazards = Hazards()
    provision: bool = True

    def pool(self, name: str) -> PoolSpec | None:
        return next((pool for pool in self.spec.pools if pool.name == name), None)
