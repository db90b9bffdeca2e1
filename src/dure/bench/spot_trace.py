"""Recorded spot markets: when a zone had a node to give, run-length coded, one series per zone and collection.

A value above zero means available: the series that count nodes use the same sign. `--zero-is-up` turns it round.
"""

from __future__ import annotations

import gzip
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import numpy as np

from dure.bench.spot_replay import Bools, Zones
from dure.model.errors import InvalidInput, NotFound
from dure.model.units import Seconds
from dure.place.spot_market import PAST_S

FILE = "spot-traces/runs.json"
DEFAULT_ZONES = "*aws-02-15-2023/*v100_1*"


class _Series(msgspec.Struct, frozen=True):
    gap_seconds: float
    runs: tuple[tuple[int, int], ...]


class Zone(msgspec.Struct, frozen=True):
    """`group` names the collection: zones of one group were watched at the same time."""

    name: str
    group: str
    gap_s: Seconds
    up: Bools

    def starts(self, length_s: Seconds, count: int, seed: int) -> list[int]:
        """Ticks at which a job may start so that its deadline lies inside the record, drawn evenly in strata."""
        room = len(self.up) - int(np.ceil(length_s / self.gap_s)) - 1
        if room < 1:
            return []
        drawn = np.random.default_rng([seed, 0x5907]).random(count)
        return sorted({int((index + part) / count * room) for index, part in enumerate(drawn.tolist())})


def read_zones(path: Path, pattern: str, *, zero_is_up: bool = False) -> list[Zone]:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        known = msgspec.json.decode(raw, type=dict[str, _Series])
    except (OSError, EOFError, msgspec.DecodeError) as error:
        raise InvalidInput(f"not a file of run-length coded series: {error}", where=str(path)) from error
    wanted = [part.strip() for part in pattern.split(",")]
    found = [name for name in sorted(known) if any(fnmatchcase(name, f"*{part}*") for part in wanted)]
    if not found:
        raise NotFound(f"no zone matches '{pattern}'", where=str(path), remedy=f"Known: {', '.join(sorted(known))}")
    return [_zone(name, known[name], zero_is_up) for name in found]


def _zone(name: str, series: _Series, zero_is_up: bool) -> Zone:
    values = np.repeat([value for value, _ in series.runs], [ticks for _, ticks in series.runs])
    group, _, own = name.rpartition("/")
    return Zone(own.removesuffix(".json"), group, series.gap_seconds, (values == 0) if zero_is_up else (values > 0))


def market_at(zones: list[Zone], start: int, length_s: Seconds) -> Zones:
    """The zones from this tick on, with what was seen of them before."""
    gap_s = zones[0].gap_s
    shortest = min(len(zone.up) for zone in zones)
    ticks = int(np.ceil(length_s / gap_s)) + 1
    stacked = np.stack([zone.up[:shortest] for zone in zones])
    past = stacked[:, max(0, start - int(PAST_S / gap_s)) : start]
    return Zones(stacked[:, start : start + ticks], gap_s, past)
