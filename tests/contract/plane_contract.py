"""What every `PlanePort` must do, said once: in the plane's own process, over HTTP and over gRPC."""

from __future__ import annotations

from typing import Protocol

import msgspec
import pytest
from msgspec.structs import replace

from dure.model.defrag import DefragAnswer, DefragState, KeptTurn, WantedRoom
from dure.model.errors import Temporary
from dure.model.fleet import Fleet
from dure.model.report import Report
from dure.model.spell import NodeSpell, PoolSpells
from dure.model.workload import Phase, WorkloadRecord, WorkloadStatus
from dure.plane import defrag, turns
from dure.ports import Change, PlanePort, StorePort
from tests.fixtures.small_world import cluster, desired, pool, training


class PlaneHarness(Protocol):
    """The store behind the port, and a way to take the plane away."""

    @property
    def store(self) -> StorePort: ...

    @property
    def port(self) -> PlanePort: ...

    def go_away(self) -> None: ...


def place(store: StorePort, name: str, cluster: str = "test", generation: int = 1) -> WorkloadRecord:
    wanted = desired(training(name), generation=generation)
    placement = replace(wanted.placement, cluster=cluster)
    status = WorkloadStatus(phase=Phase.PLACED, placement=placement, generation=generation)
    return store.create_workload(WorkloadRecord(wanted.uid, wanted.spec, status))


def report(at_s: float, version: str = "1") -> Report:
    return Report("test", at_s, version, (), ())


class PlaneContract:
    """Inherit as `TestX(PlaneContract)` with a fixture `harness`."""

    def test_nothing_is_wanted_of_a_cluster_without_placements(self, harness: PlaneHarness) -> None:
        assert harness.port.fetch_desired("test") == ()

    def test_only_the_placements_of_the_cluster_are_wanted(self, harness: PlaneHarness) -> None:
        place(harness.store, "mine")
        place(harness.store, "other", cluster="elsewhere")
        assert [one.spec.name for one in harness.port.fetch_desired("test")] == ["mine"]

    def test_asking_again_answers_the_same(self, harness: PlaneHarness) -> None:
        place(harness.store, "mine")
        assert harness.port.fetch_desired("test") == harness.port.fetch_desired("test")

    def test_a_placement_that_leaves_is_no_longer_wanted(self, harness: PlaneHarness) -> None:
        record = place(harness.store, "mine")
        assert len(harness.port.fetch_desired("test")) == 1
        leaving = WorkloadStatus(phase=Phase.PLACED, placement=record.status.placement, generation=1, leaving_s=5.0)
        harness.store.commit([Change(record.uid, record.version, leaving)])
        assert harness.port.fetch_desired("test") == ()

    def test_a_report_arrives_whole_and_an_older_one_changes_nothing(self, harness: PlaneHarness) -> None:
        harness.port.write_report(report(20.0, "new"))
        harness.port.write_report(report(10.0, "old"))
        harness.port.write_report(report(20.0, "new"))
        assert [one.version for one in harness.store.list_reports()] == ["new"]

    def test_what_was_seen_of_spot_pools_arrives_and_an_agent_that_says_nothing_of_it_is_heard(
        self, harness: PlaneHarness
    ) -> None:
        seen = PoolSpells("test", "big", 1.0, (NodeSpell("a", 2.0, 9.5, lost=True), NodeSpell("b", 12.0)), asks=True)
        harness.port.write_report(replace(report(20.0), spells=(seen,)))
        assert [one.spells for one in harness.store.list_reports()] == [(seen,)]
        harness.port.write_report(report(30.0))
        assert [one.spells for one in harness.store.list_reports()] == [()]

    def test_a_wish_stands_until_it_is_answered_for_good(self, harness: PlaneHarness) -> None:
        assert harness.port.fetch_wish("test") is None
        fleet = Fleet("test", (cluster(pool("big", "big")),))
        (asked,) = defrag.ask(harness.store, fleet, 10.0, "test", apply=True)
        wish = harness.port.fetch_wish("test")
        assert wish is not None
        assert (wish.id, wish.apply, wish.asked_s) == (asked.wish, True, 10.0)
        planned = DefragAnswer("test", wish.id, 11.0, DefragState.PLANNED, apply=True)
        harness.port.write_report(replace(report(11.0), defrag=planned))
        assert harness.port.fetch_wish("test") == wish
        harness.port.write_report(replace(report(12.0), defrag=replace(planned, at_s=12.0, state=DefragState.MOVED)))
        assert harness.port.fetch_wish("test") is None

    def test_whose_turn_it_is_in_torn_pools_is_heard_with_a_wish_and_without_one(self, harness: PlaneHarness) -> None:
        mine, whole = WantedRoom("gang", 8, ("big",), "big", nodes=2), WantedRoom("other", 4, ("big",), "small")
        kept = [
            KeptTurn("test", mine, torn=True),
            KeptTurn("test", whole, torn=False),
            KeptTurn("far", whole, torn=True),
        ]
        harness.store.write_setting(turns.KEY, msgspec.json.encode(kept).decode())
        alone = harness.port.fetch_wish("test")
        assert alone is not None
        assert (alone.id, alone.keeps) == ("", (mine,))
        (asked,) = defrag.ask(harness.store, Fleet("test", (cluster(pool("big", "big")),)), 10.0, "test", apply=False)
        both = harness.port.fetch_wish("test")
        assert both is not None
        assert (both.id, both.keeps) == (asked.wish, (mine,))

    def test_a_plane_that_is_away_is_a_temporary_failure(self, harness: PlaneHarness) -> None:
        harness.go_away()
        with pytest.raises(Temporary):
            harness.port.fetch_desired("test")
        with pytest.raises(Temporary):
            harness.port.fetch_wish("test")
        with pytest.raises(Temporary):
            harness.port.write_report(report(1.0))
