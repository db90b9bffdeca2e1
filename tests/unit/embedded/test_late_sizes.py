"""Sizes of elastic gangs where reports come late, as from agents of real clusters."""

from __future__ import annotations

from msgspec.structs import replace

from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import ScaleReplicas
from dure.model.report import Report
from dure.model.units import HOUR_S
from dure.model.workload import Phase, SpeedUp
from dure.plane.apply import Draft
from dure.plane.stretching import STUCK_S, Stretching
from tests.unit.embedded.test_moves import TWINS, job
from tests.unit.embedded.test_world import Turner

SPEEDS = (SpeedUp(2, 1.0), SpeedUp(4, 1.8), SpeedUp(6, 2.4))


class Elsewhere:
    """A gang of two with two devices each that runs on a cluster of sixteen; reports are what the test says."""

    def __init__(self, known: Catalogue) -> None:
        fleet = read_text(TWINS, "twins").fleets[0]
        self.turner = Turner(replace(fleet, clusters=fleet.clusters[:1]), known)
        self.turner.world.submit([job("grow", gang=2, speedups=SPEEDS, duration_s=20 * HOUR_S)])
        self.turner.run(600.0, step_s=60.0)
        self.record = self.turner.store.fetch_workload("grow")
        assert self.record.status.phase is Phase.RUNNING
        (self.report,) = self.turner.store.list_reports()
        self.now_s = self.turner.clock.now()
        self.stretching = Stretching(self.turner.world.plane.observer)

    def told(self, *free: int, **seen: int) -> Report:
        """The report with so many devices free on each node and this of the gang."""
        (pool,) = self.report.pools
        (one,) = self.report.observed
        return replace(self.report, pools=(replace(pool, free_whole=free),), observed=(replace(one, **seen),))

    def checkpoint(self, report: Report, *others: Draft) -> Draft:
        draft = Draft(self.record)
        draft.status = replace(draft.status, done_s=draft.status.done_s + 1200.0)
        self.stretching.act([draft, *others], [report], self.now_s)
        return draft


def size(draft: Draft) -> int:
    assert draft.status.placement is not None
    return draft.status.placement.replicas


def test_a_gang_grows_only_into_what_is_free_at_its_checkpoint(known: Catalogue) -> None:
    world = Elsewhere(known)
    assert size(world.checkpoint(world.told(4, 4, 4))) == 6
    assert size(world.checkpoint(world.told(4))) == 4
    # One device on each of four nodes takes no member that needs two.
    assert size(world.checkpoint(world.told(1, 1, 1, 1))) == 2
    assert size(world.checkpoint(world.told())) == 2


def test_a_gang_does_not_grow_into_what_was_just_promised_to_another(known: Catalogue) -> None:
    world = Elsewhere(known)
    home = world.record.status.placement
    assert home is not None
    placed = replace(world.record.status, phase=Phase.PLACED, placement=replace(home, replicas=4), started_s=None)
    other = Draft(replace(world.record, uid="other", spec=replace(world.record.spec, name="other"), status=placed))
    assert size(world.checkpoint(world.told(4, 4, 4), other)) == 4


def test_another_size_is_a_new_generation_that_its_cluster_has_time_for(known: Catalogue) -> None:
    world = Elsewhere(known)
    draft = world.checkpoint(world.told(4, 4, 4))
    status = draft.status
    assert status.placement is not None
    assert status.generation == status.placement.generation == world.record.status.generation + 1
    assert (status.phase, status.ready, status.placement.decided_s) == (Phase.STARTING, 0, world.now_s)
    [entry] = draft.entries
    assert isinstance(entry.decision, ScaleReplicas)


def test_a_gang_that_finds_its_room_taken_goes_on_with_what_there_is(known: Catalogue) -> None:
    world = Elsewhere(known)
    grown = world.checkpoint(world.told(4, 4, 4)).record
    shown = {"generation": grown.status.generation, "bound": 0, "pods": 6}
    for free, wait_s, after in (((4, 4), STUCK_S, 4), ((4,), STUCK_S, 2), ((), STUCK_S, 2), ((4, 4), STUCK_S / 2, 6)):
        draft = Draft(grown)
        world.stretching.act([draft], [world.told(*free, **shown)], world.now_s + wait_s)
        assert size(draft) == after
        assert draft.status.done_s == grown.status.done_s


def test_a_gang_whose_cluster_has_not_heard_of_its_new_size_is_left_alone(known: Catalogue) -> None:
    world = Elsewhere(known)
    grown = world.checkpoint(world.told(4, 4, 4)).record
    draft = Draft(grown)
    world.stretching.act([draft], [world.told(4, 4)], world.now_s + 10 * STUCK_S)
    assert size(draft) == 6
