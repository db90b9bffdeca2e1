"""The plane's cycle: observe -> decide -> act -> journal. Under 100 lines on purpose.

Level-triggered: it may be killed between any two lines and started again. All it writes goes into one fenced
transaction, record by record only where nobody changed the record meanwhile; what is left out is decided anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from dure.model.decision import Decision
from dure.model.errors import Conflict
from dure.model.snapshot import Snapshot, digest
from dure.plane.adapting import Adapting
from dure.plane.apply import Draft, Folding, decided
from dure.plane.billing import billed
from dure.plane.books import Books
from dure.plane.bursting import Bursting
from dure.plane.deciding import Deciding
from dure.plane.later import later_of
from dure.plane.observe import AWAY_S, Observer
from dure.plane.outlook import Outlook, calls_for_decision, outlook
from dure.plane.pooling import Pooling
from dure.plane.shadow import Beside
from dure.ports import Clock, Teller

LEASE_S = 30.0

Decide = Callable[[Snapshot], Sequence[Decision]]


class Plane:
    """`decide` is a pure function of the snapshot; everything else here is I/O around it."""

    def __init__(self, observer: Observer, decide: Decide, clock: Clock, holder: str, lease_clock: Teller) -> None:
        self.observer = observer
        self.store = observer.store
        self.decide = Deciding(decide, self.store)
        self.clock, self.holder = clock, holder
        self.lease_clock, self.lease_s = lease_clock, LEASE_S
        self.folding, self.adapting, self.beside = Folding(), Adapting(self.store), Beside(self.store, decide)
        self.bursting, self.pooling, self.books = Bursting(observer), Pooling(observer), Books(observer)
        self.later = later_of(observer)
        self.touched: set[str] = set()
        self._seen: Outlook | None = None

    def cycle(self) -> int:
        """One turn; answers how many records were changed. Does nothing while another plane leads.

        `touched` then names the clusters that have something new to do.
        """
        self.touched = set()
        token = self.store.acquire_lease(self.holder, self.lease_clock.now(), self.lease_s)
        if token is None:
            return 0
        now_s = self.clock.now()
        reports = self.store.list_reports()
        drafts = [Draft(record) for record in self.store.list_workloads(ended=False)]
        self.folding.fold(drafts, reports, now_s)
        records = tuple(draft.record for draft in drafts if not draft.rests(now_s))
        seen = outlook(records, reports, self.observer.rules(), now_s, AWAY_S)
        wanted = calls_for_decision(self._seen, seen)
        if wanted or any(draft.due(now_s) for draft in drafts):
            snapshot = self.observer.snapshot(now_s, records, reports)
            billed(drafts, snapshot)
            if wanted:
                decisions = self.decide(snapshot)
                self.beside.compare(snapshot, decisions)
                decided(drafts, decisions, partial(digest, snapshot), now_s)
        _, policies, _ = seen.rules
        self.bursting.act(self.pooling.act(drafts, reports, now_s), reports, policies, now_s)
        for each in self.later:
            each.act(drafts, reports, now_s)
        touched = [draft for draft in drafts if draft.touched]
        self.adapting.look(touched, reports, now_s)
        learned = self.pooling.told(self.bursting.told(self.adapting.close(now_s)))
        learned = self.observer.spells.told(self.books.told(learned, drafts, reports, now_s), reports, now_s)
        changed = [draft for draft in touched if draft.changed]
        changes = [draft.change(now_s, self.observer.fleet.currency) for draft in changed]
        try:
            lost = self.store.commit(changes, **learned._asdict(), token=token) if changes or any(learned) else ()
        except Conflict:
            return 0
        # A record that moved on under us is looked at again in the next turn.
        self._seen = None if lost else seen.after(self._seen, wanted)
        self.touched = {home for draft in changed for home in draft.homes_to_tell()}
        return len(changes) - len(lost)

    def close_books(self) -> None:
        """Bill everything that runs up to this moment, for those who want to sum up now."""
        token = self.store.acquire_lease(self.holder, self.lease_clock.now(), self.lease_s)
        if token is None:
            return
        now_s, reports = self.clock.now(), self.store.list_reports()
        drafts = [Draft(record) for record in self.store.list_workloads(ended=False)]
        billed(drafts, self.observer.snapshot(now_s, [draft.record for draft in drafts], reports), every_s=0.0)
        changes = [draft.change(now_s, self.observer.fleet.currency) for draft in drafts if draft.changed]
        self.store.commit(changes, **self.books.close(drafts, reports, now_s)._asdict(), token=token)
