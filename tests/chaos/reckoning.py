"""Reads a run's database once all is over, and puts it beside what clients and clusters have seen."""

from __future__ import annotations

from collections.abc import Iterator

from dure.adapters.store import SqlStore, open_store
from dure.model.audit import Mark
from dure.model.decision import Bind, JournalEntry, Place
from dure.model.posting import Account
from dure.plane.books import MARK
from dure.watch.books import imbalances
from tests.chaos.history import Answer, Books, Decided, Final, History, PodSeen
from tests.chaos.waiting import until_done

PAGE = 1000
FOR_EVER = 10**7
# Every posting rounds to whole milliseconds of a device, in thousandths.
ROUNDING = 1000


class Reckoning:
    """Made when the fleet is ready and before anybody is killed: from then on every device's time must be posted."""

    def __init__(self, url: str, *, clusters: int, steady: bool = True) -> None:
        """So many clusters have to be heard of first. `steady`: no device comes or goes meanwhile."""
        self._url, self._steady = url, steady
        store = open_store(url)
        try:
            until_done(lambda: _check_reports(store, clusters), "a report of every cluster")
            self._since, self._posted = _mark(store), _posted(store)
        finally:
            store.close()

    def history(
        self, answers: tuple[Answer, ...], pods: tuple[PodSeen, ...] | None, marks: tuple[Mark, ...]
    ) -> History:
        store: SqlStore = until_done(lambda: open_store(self._url), "the database")
        try:
            return History(
                answers=answers,
                pods=pods,
                finals=tuple(
                    Final(
                        one.name,
                        one.uid,
                        one.version,
                        one.status.phase.value,
                        one.status.generation,
                        one.status.spent_micros,
                    )
                    for one in store.list_workloads()
                ),
                journal=tuple(_decided(store)),
                books=self._books(store),
                audit=tuple(f"{one.where}: {one.sentence}" for one in store.verify_audit(marks)[1]),
            )
        finally:
            store.close()

    def _books(self, store: SqlStore) -> Books:
        ledger = store.list_ledger(0, FOR_EVER)
        passed_s = _mark(store) - self._since
        devices = sum(pool.devices for report in store.list_reports() for pool in report.pools)
        postings = sum(one.account is Account.PAID for one in ledger)
        return Books(
            charged_micros=sum(one.micros for one in store.list_charges(0, FOR_EVER)),
            unbalanced=tuple(f"{key}: {sides}" for key, sides in sorted(imbalances(ledger).items())),
            posted_ms=(_posted(store) - self._posted) // 1000 if self._steady else 0,
            due_ms=round(passed_s * 1000) * devices if self._steady else 0,
            tolerance_ms=ROUNDING * (postings + 1),
        )


def _check_reports(store: SqlStore, clusters: int) -> None:
    if len(store.list_reports()) < clusters:
        raise ValueError("somebody has not reported")


def _mark(store: SqlStore) -> float:
    return float(store.fetch_setting(MARK) or 0.0)


def _posted(store: SqlStore) -> int:
    return sum(one.device_ms for one in store.list_ledger(0, FOR_EVER) if one.account is Account.PAID)


def _decided(store: SqlStore) -> Iterator[Decided]:
    for entry in _journal(store):
        match entry.decision:
            case Place(workload=name, placement=placement):
                yield Decided(entry.seq, "place", name, placement.generation, placement.cluster)
            case Bind(pod=pod, workload=name):
                yield Decided(entry.seq, "bind", name, cluster=entry.cluster, pod=pod)
            case _:
                continue


def _journal(store: SqlStore) -> Iterator[JournalEntry]:
    after = 0
    while page := store.list_journal(after=after, limit=PAGE):
        yield from page
        after = page[-1].seq
