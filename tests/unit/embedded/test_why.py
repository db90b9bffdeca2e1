"""`why` on the embedded fleet: for a held workload the nearest miss of each cluster, with the numbers of now."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.files.builtin import demo_fleet
from dure.model.answer import Line
from dure.model.catalogue import Catalogue
from dure.model.fleet import Fleet
from dure.model.reason import Reason
from dure.model.workload import Phase
from dure.plane.answers import safe_of
from dure.plane.etas import book_of
from tests.unit.embedded.test_world import Turner, batch

A100 = "{name: a100-80gb-sxm}"


@pytest.fixture
def turner(small_fleet: Fleet, known: Catalogue) -> Turner:
    return Turner(small_fleet, known)


def nearest(turner: Turner, name: str) -> dict[str, Line]:
    why = turner.world.desk.why(name)
    assert why.phase is Phase.HELD
    marked = [line for line in why.lines if line.nearest]
    assert why.lines[: len(marked)] == tuple(marked), "they come first"
    return {line.where.partition("/")[0]: line for line in marked}


def test_each_cluster_has_one_nearest_miss_with_both_numbers(turner: Turner) -> None:
    turner.world.submit([batch("huge", demand="{devices: 4}", extra="  gang: 3\n")])
    turner.run(120)
    found = nearest(turner, "huge")
    assert found.keys() == {"seoul", "busan"}
    assert found["seoul"].reason is Reason.NO_CAPACITY
    assert found["seoul"].sentence == "needs 3 x 4 whole devices, seoul/a100 has 8 free"
    assert found["busan"].sentence.startswith("needs ")


def test_the_numbers_follow_the_fleet_while_the_reason_stays_the_same(turner: Turner) -> None:
    turner.world.submit([batch("huge", demand="{devices: 4}", extra="  gang: 3\n", classes=A100)])
    turner.run(120)
    turner.world.submit([batch("small", demand="{devices: 2}", duration="9h", classes=A100)])
    turner.run(300)
    assert turner.store.fetch_workload("small").status.phase is Phase.RUNNING
    assert nearest(turner, "huge")["seoul"].sentence == "needs 3 x 4 whole devices, seoul/a100 has 6 free"


def test_a_torn_cluster_says_so_and_names_what_mends_it(turner: Turner) -> None:
    turner.world.submit([batch(f"w{i}", demand="{devices: 3}", duration="9h", classes=A100) for i in range(2)])
    turner.run(300)
    turner.world.submit([batch("pair", demand="{devices: 2}", classes=A100)])
    turner.run(120)
    found = nearest(turner, "pair")["seoul"]
    assert found.reason is Reason.FRAGMENTED
    assert found.sentence == "needs 2 whole devices, 2 are free in seoul/a100 but at most 1 on one node"
    assert "dure defrag" in found.remedy


def test_of_several_pools_the_one_that_only_lacks_room_is_nearer_than_one_of_another_class(known: Catalogue) -> None:
    turner = Turner(demo_fleet(), known)
    wide = "{name: h100-80gb-sxm}, {name: a10g}"
    turner.world.submit([batch("huge", demand="{devices: 8, memory: 60GiB}", extra="  gang: 9\n", classes=wide)])
    turner.run(60)
    found = nearest(turner, "huge")
    assert {cluster: line.reason for cluster, line in found.items()} == {
        "seoul-onprem": Reason.NO_CAPACITY,
        "cloud-us": Reason.NO_CAPACITY,
        "cloud-kr": Reason.MEMORY_TOO_SMALL,
        "gwangju-npu": Reason.CLASS_NOT_ACCEPTED,
    }
    assert found["cloud-us"].where == "cloud-us/h100-spot"
    assert len(turner.world.desk.why("huge").lines) > len(found)


def test_everything_that_waits_or_runs_has_an_expected_start_and_finish(turner: Turner) -> None:
    turner.world.submit([batch("first", demand="{devices: 4}", extra="  gang: 2\n", duration="2h", classes=A100)])
    turner.world.submit([batch("second", demand="{devices: 4}", extra="  gang: 2\n", duration="2h", classes=A100)])
    turner.run(3700, step_s=100)
    desk = turner.world.desk
    by_name = {record.name: record for record in desk.with_eta(turner.store.list_workloads(ended=False))}
    going, waits = by_name["first"].eta, by_name["second"].eta
    assert going is not None
    assert waits is not None
    assert going.finish is not None
    assert waits.finish is not None
    assert waits.start.middle_s > turner.clock.now()
    assert waits.start.lowest_s < waits.start.low_s < waits.start.high_s < waits.start.highest_s
    assert {one.workload for one in desk.status().upcoming} == {"first", "second"}


def test_what_was_foretold_stays_with_the_record_and_is_scored_when_it_ends(turner: Turner) -> None:
    turner.world.submit([batch("only", demand="{devices: 4}", duration="3h", classes=A100)])
    turner.run(5 * 3600, step_s=200)
    record = turner.store.fetch_workload("only")
    assert record.status.phase is Phase.DONE
    assert record.status.foretold[-1].finish is not None
    learned = book_of([record], turner.clock.now()).running
    assert learned.learned == 1


def test_of_running_work_with_checkpoints_it_says_what_is_safe_and_whose_word_that_is(turner: Turner) -> None:
    kept = batch("kept", extra="  checkpoint: 10min\n", duration="9h", classes=A100)
    turner.world.submit([kept, batch("bare", duration="9h")])
    turner.run(2400)

    found = [line for line in turner.world.desk.why("kept").lines if "work safe" in line.sentence]
    record, now_s = turner.store.fetch_workload("kept"), turner.world.desk.why("kept").now_s
    saved_s = record.status.saved_s
    assert saved_s is not None
    assert 0.0 < now_s - saved_s < 700.0, "ten minutes, and one report"
    assert found == list(safe_of(record, "seoul/a100", now_s))
    assert not any("work safe" in line.sentence for line in turner.world.desk.why("bare").lines)
    for said_s, expected in (
        (None, "counted by the clock: its pods do not show when they save"),
        (0.0, "no checkpoint kept here yet by its own word"),
        (now_s - 300.0, "checkpoint kept 5 min ago by its own word"),
    ):
        (line,) = safe_of(replace(record, status=replace(record.status, saved_s=said_s)), "seoul/a100", now_s)
        assert line.sentence == f"30 min of work safe, {expected}"
