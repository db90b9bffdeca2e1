"""The plane's meter: every five minutes what was paid for every pool goes into the ledger, both sides at once.

Called by the loop in every cycle. The time between two readings is posted with the earlier one. Until when the books
are written is kept in the store in the same transaction, so no minute is posted twice; after a restart the time that
nobody watched is posted with what is found then, so none is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from dure.model.posting import Posting
from dure.model.report import Report
from dure.model.units import Instant
from dure.plane.adapting import Learned
from dure.plane.apply import Draft
from dure.plane.observe import Observer
from dure.watch.books import PoolMeter, Reading, merged, post, readings_of
from dure.watch.ledger import Meter

METER_S = 300.0
MARK = "ledger-until"


class Books:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._reading: tuple[Reading, ...] | None = None
        self._until_s: Instant | None = None

    def told(self, other: Learned, drafts: Sequence[Draft], reports: Sequence[Report], now_s: Instant) -> Learned:
        """What the loop has to write anyway, and the postings when it is time for them."""
        if self._until_s is not None and now_s - self._until_s < METER_S:
            return other
        posted = self.close(drafts, reports, now_s)
        return other._replace(settings={**other.settings, **posted.settings}, postings=posted.postings)

    def close(self, drafts: Sequence[Draft], reports: Sequence[Report], now_s: Instant) -> Learned:
        """Post everything up to this moment."""
        present = readings_of(reports, (draft.record for draft in drafts))
        since_s, reading = self._since(), self._reading if self._reading is not None else present
        self._reading, self._until_s = present, now_s
        made = () if since_s is None else self._post(reading, since_s, now_s)
        return Learned(settings={MARK: repr(now_s)}, postings=made)

    def _since(self) -> Instant | None:
        """Another leader may have written meanwhile: what the store says counts."""
        kept = self._observer.store.fetch_setting(MARK)
        return float(kept) if kept else None

    def _post(self, readings: Sequence[Reading], since_s: Instant, now_s: Instant) -> tuple[Posting, ...]:
        meters = self._meters(now_s)
        return merged(
            posting
            for reading in readings
            for posting in post(reading, meters.get((reading.pool.cluster, reading.pool.name)), since_s, now_s)
        )

    def _meters(self, now_s: Instant) -> dict[tuple[str, str], PoolMeter]:
        """By cluster and pool, for those that have a tariff and a class we know."""
        observer = self._observer
        grids = {one.grid: one for one in observer.carbon_around(now_s)}
        sites = {one.info.name: one.info for one in observer.fleet.clusters}
        found = {}
        for tariff in observer.prices.fetch_tariffs(now_s):
            site, profile = sites.get(tariff.cluster), observer.catalogue.classes.get(tariff.class_name)
            if site is not None and profile is not None:
                power = Meter(tariff, profile.peak_w, site.pue, grids.get(site.grid), observer.fleet.rates)
                found[tariff.cluster, tariff.pool] = PoolMeter(power, profile.idle_w)
        return found
