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


class Spread(msgspec.Struct, frozen=True):
    """The 5, 50 and 95 % points of a forecast before what came of earlier ones has widened it."""

    low_s: Instant
    middle_s: Instant
    high_s: Instant


class Eta(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one workload; a running one has started already, a serving never ends."""

    start: Range
    finish: Range | None = None


class Foretold(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was said of a workload at `asked_s`, kept so that the outcome can be held against it."""

    asked_s: Instant
    start: Spread | None = None
    finish: Spread | None = None
