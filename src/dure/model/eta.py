"""When a workload is expected to start and to end, with how sure that is."""

from __future__ import annotations

import msgspec

from dure.model.units import Instant


class Range(msgspec.Struct, frozen=True, order=True):
    """Half of all cases lie between `low_s` and `high_s`, nine of ten between `lowest_s` and `highest_s`."""

    lowest_s: Instant
    low_s: Instant
    middle_s: Instant
    high_s: Instant
    highest_s: Instant

    def holds_half(self, at_s: Instant) -> bool:
        return self.low_s <= at_s <= self.high_s

    def holds(self, at_s: Instant) -> bool:
        return self.lowest_s <= at_s <= self.highest_s


class Eta(msgspec.Struct, frozen=True):
    """Of one workload; a running one has started already."""

    start: Range
    finish: Range
