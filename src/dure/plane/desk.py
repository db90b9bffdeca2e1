"""Where people and programs come with wishes and questions: submit, cancel, plan, why, status.

The REST API and the command line call it; it writes only through the store and never decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from dure.adapters.acting import act
from dure.adapters.podspec import check_template
from dure.model.answer import FleetStatus, Plan, Why
from dure.model.catalogue import Catalogue
from dure.model.errors import Conflict, DureError, NotFound
from dure.model.eta import Eta
from dure.model.event import Event
from dure.model.fleet import Fleet
from dure.model.snapshot import Snapshot
from dure.model.units import DAY_S, Instant
from dure.model.workload import Phase, Workload, WorkloadRecord, WorkloadStatus
from dure.plane.answers import plan_of, why_of
from dure.plane.apply import Draft
from dure.plane.billing import billed
from dure.plane.doorway import Doorway
from dure.plane.etas import LEARNED_FROM, etas_of, upcoming
from dure.plane.observe import Observer
from dure.plane.status import Past, Spent, status_of
from dure.plane.steering import steered_of
from dure.ports import Change, Clock, New, StorePort, Wish

_ATTEMPTS = 8
# What was worked out for one who asks serves all who ask within a minute of the fleet's clock, or ten real seconds.
_STANDS_S = 60.0
_STANDS_REAL_S = 10.0
_UPCOMING = 5
# Of how many that have ended the status counts whether promises were kept.
_JUDGED = 2_000


class Desk:
    def __init__(self, observer: Observer, clock: Clock, speed: float = 1.0) -> None:
        self.observer = observer
        self.doorway = Doorway(observer.store, None)
        self.clock = clock
        self.speed = speed
        self._etas: tuple[Instant, dict[str, Eta]] | None = None

    @property
    def store(self) -> StorePort:
        return self.observer.store

    def fleet(self) -> Fleet:
        return self.observer.fleet

    def catalogue(self) -> Catalogue:
        return self.observer.catalogue

    def now(self) -> Instant:
        return self.clock.now()

    def ready(self) -> bool:
        """Whether the store answers and somebody has told of the fleet, if somebody here is to.

        Agents that join from elsewhere come through a balancer that sends nobody to who is not ready.
        """
        heard = len(self.store.list_reports()) > 0
        return heard or all(spec.connect.agent for spec in self.fleet().clusters)

    def submit(self, workload: Workload, key: str = "") -> WorkloadRecord:
        (made,) = self.submit_all([Wish(workload, key, *act())])
        if isinstance(made, DureError):
            raise made
        return made

    def submit_all(self, wishes: Sequence[Wish]) -> list[WorkloadRecord | DureError]:
        """What came of each; they are kept by one transaction, and none suffers from another."""
        tenants, now_s = {tenant.name for tenant in self.store.list_tenants()}, self.now()
        answers: list[WorkloadRecord | DureError] = []
        wanted: list[tuple[int, New]] = []
        for place, wish in enumerate(wishes):
            try:
                new = _new(wish, tenants, now_s)
            except DureError as error:
                answers.append(error)
                continue
            wanted.append((place, new))
            answers.append(new.record)
        wanted = self._let_in(wishes, wanted, answers)
        made = self.store.create_workloads([new for _, new in wanted]) if wanted else []
        for (place, _), answer in zip(wanted, made, strict=True):
            answers[place] = answer
        return answers

    def _let_in(
        self, wishes: Sequence[Wish], wanted: list[tuple[int, New]], answers: list[WorkloadRecord | DureError]
    ) -> list[tuple[int, New]]:
        """Those for whom there is room in the queue. The others are told so, but for who was let in earlier and asks
        again under the same key."""
        refusals = self.doorway.refusals([new.record.spec.tenant for _, new in wanted])
        crowded = {place: told for (place, _), told in zip(wanted, refusals, strict=True) if told is not None}
        if not crowded:
            return wanted
        known = self.store.list_created([wishes[place].key for place in crowded])
        for place, told in crowded.items():
            answers[place] = known.get(wishes[place].key, told)
        return [one for one in wanted if one[0] not in crowded]

    def cancel(self, name: str) -> WorkloadRecord:
        """It is charged up to now and its agent removes what runs; a record that changes meanwhile is read again."""
        for _ in range(_ATTEMPTS):
            record = self.store.fetch_workload(name)
            if record.status.phase.ended:
                raise Conflict(f"workload '{name}' is already {record.status.phase}")
            draft = Draft(record)
            if draft.due(self.now(), 0.0):
                billed([draft], self.snapshot(), 0.0)
            now_s = self.now()
            status = msgspec.structs.replace(
                draft.status,
                phase=Phase.CANCELLED,
                finished_s=now_s,
                ready=0,
                held=(),
                message="cancelled by its owner",
            )
            told = Event(now_s, "Cancelled", f"{name} was cancelled", tenant=record.spec.tenant, workload=name)
            change = Change(record.uid, record.version, status, events=(told,), charges=draft.charges)
            if not self.store.commit([change]):
                return msgspec.structs.replace(record, status=status, version=record.version + 1)
        raise Conflict(f"workload '{name}' changes too fast to be cancelled", remedy="Try again.")

    def plan(self, workload: Workload) -> Plan:
        check_template(workload.template)
        return plan_of(workload, self.snapshot(), self.observer.fleet.currency)

    def why(self, name: str) -> Why:
        record = self.store.fetch_workload(name)
        journal = self.store.list_journal(workload=name, limit=50, newest=True)
        snapshot = self.snapshot()
        found = why_of(record, journal, snapshot, self.observer.fleet.currency)
        if record.status.phase.ended:
            return found
        steered = steered_of(self.store).get(name)
        said = steered.sentence if steered is not None and record.status.phase is Phase.RUNNING else ""
        return msgspec.structs.replace(found, eta=self.etas(snapshot).get(name), scaling=said)

    def etas(self, snapshot: Snapshot | None = None) -> dict[str, Eta]:
        """Expected start and finish of everything that waits or runs, by name."""
        kept = self._kept_etas()
        if snapshot is None and kept is not None:
            return kept
        seen = snapshot or self.snapshot()
        found = etas_of(
            seen, self.store.list_workloads(ended=True, since_s=seen.now_s - 7 * DAY_S, most=LEARNED_FROM)
        )
        self._etas = (seen.now_s, found)
        return found

    def _kept_etas(self) -> dict[str, Eta] | None:
        """Those of a little while ago; None when it is time to look again."""
        stands_s = max(_STANDS_S, _STANDS_REAL_S * self.speed)
        fresh = self._etas is not None and 0 <= self.now() - self._etas[0] < stands_s
        return self._etas[1] if fresh and self._etas is not None else None

    def with_kept_eta(self, record: WorkloadRecord) -> WorkloadRecord | None:
        """The record as `with_eta` answers it if that takes no look at the fleet: for who must not wait."""
        if record.status.phase.ended:
            return record
        kept = self._kept_etas()
        return None if kept is None else msgspec.structs.replace(record, eta=kept.get(record.name))

    def with_eta(self, records: Sequence[WorkloadRecord]) -> tuple[WorkloadRecord, ...]:
        """The same records, those that wait or run with when they should start and end."""
        if all(record.status.phase.ended for record in records):
            return tuple(records)
        found = self.etas()
        return tuple(
            record if record.status.phase.ended else msgspec.structs.replace(record, eta=found.get(record.name))
            for record in records
        )

    def status(self) -> FleetStatus:
        """Costs the same however long the fleet has run: promises are counted over the last day, and of a busy one
        over those that ended last."""
        now_s = self.now()
        recent = self.store.list_workloads(ended=True, since_s=now_s - DAY_S, most=_JUDGED)
        charges = self.store.list_charges(0, int(now_s // DAY_S) + 1)
        spent = Spent(sum(one.micros for one in charges), sum(one.carbon_mg for one in charges) / 1000)
        past = Past(self.store.count_workloads(), recent, spent)
        snapshot = self.snapshot()
        found = status_of(snapshot, self.observer.fleet, self.speed, past)
        return msgspec.structs.replace(found, upcoming=upcoming(snapshot.records, self.etas(), _UPCOMING))

    def snapshot(self) -> Snapshot:
        """The world as it is now; nothing is decided and nothing written."""
        return self.observer.snapshot(self.now(), self.store.list_workloads(ended=False), self.store.list_reports())

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self.store.subscribe(listener)


def _new(wish: Wish, tenants: set[str], now_s: Instant) -> New:
    workload = wish.workload
    check_template(workload.template)
    if tenants and workload.tenant not in tenants:
        raise NotFound(f"no tenant '{workload.tenant}'", remedy=f"Known tenants: {', '.join(sorted(tenants))}")
    uid = hashlib.blake2b(f"{workload.name}\0{now_s!r}".encode(), digest_size=16).hexdigest()
    record = WorkloadRecord(uid, workload, WorkloadStatus(submitted_s=now_s))
    return New(record, wish.key, wish.who, wish.doing)
