"""What the plane keeps of spot pools: told twice counts once, and a restart of anybody forgets nothing."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.adapters.memory.store import MemoryStore
from dure.model.report import Report
from dure.model.spell import NodeSpell, PoolSpells
from dure.plane.adapting import Learned
from dure.plane.spells import KEPT_S, SETTING, Spells, merge, merged

NOW_S = 1_767_571_200.0


def told(*spells: NodeSpell, since_s: float = 0.0) -> PoolSpells:
    return PoolSpells("c", "p", since_s, spells)


def report(*pools: PoolSpells) -> Report:
    return Report("c", NOW_S, "1", (), (), spells=pools)


def test_an_end_that_is_told_later_closes_the_spell_and_what_is_told_again_counts_once() -> None:
    known = merge(None, told(NodeSpell("a", 5.0)), 0.0)
    later = told(NodeSpell("a", 5.0, 9.0, lost=True), NodeSpell("b", 12.0))
    for _ in range(2):
        known = merge(known, later, 0.0)
        assert known.spells == later.spells


def test_an_agent_that_was_restarted_goes_on_with_the_nodes_that_are_there() -> None:
    known = told(NodeSpell("a", 5.0), NodeSpell("b", 6.0))
    again = merge(known, told(NodeSpell("a", 100.0), since_s=100.0), 0.0)
    assert again.since_s == 0.0
    assert again.spells == (NodeSpell("a", 5.0), NodeSpell("b", 6.0, 100.0)), "nobody saw b go: it is no loss"
    lost = merge(again, told(NodeSpell("a", 100.0, 130.0, lost=True), since_s=100.0), 0.0)
    assert lost.spells[0] == NodeSpell("a", 5.0, 130.0, lost=True)


def test_what_a_plane_that_was_away_has_missed_is_in_the_next_report() -> None:
    known = told(NodeSpell("a", 5.0))
    missed = told(NodeSpell("a", 5.0, 9.0, lost=True), NodeSpell("b", 12.0, 20.0, lost=True), NodeSpell("c", 30.0))
    assert merge(known, missed, 0.0).spells == missed.spells


def test_what_ended_long_ago_is_forgotten_and_the_watch_begins_later() -> None:
    known = told(NodeSpell("a", 5.0, 9.0, lost=True), NodeSpell("b", 12.0))
    kept = merge(known, told(NodeSpell("b", 12.0)), 10.0)
    assert kept == told(NodeSpell("b", 12.0), since_s=10.0)


def test_the_store_has_it_and_a_new_plane_goes_on_with_it() -> None:
    store = MemoryStore()
    spells = Spells(store)
    first = told(NodeSpell("a", NOW_S - 50, NOW_S - 20, lost=True), NodeSpell("b", NOW_S), since_s=NOW_S - 60)
    assert spells.of([report(first)], NOW_S) == (first,)
    learned = spells.told(Learned(settings={"other": "kept"}), [report(first)], NOW_S)
    assert set(learned.settings) == {"other", SETTING}
    store.commit([], settings=learned.settings)
    assert spells.told(Learned(), [report(first)], NOW_S + 5) == Learned(), "nothing is new"
    anew = told(NodeSpell("b", NOW_S + 300), since_s=NOW_S + 300)
    [known] = Spells(store).of([report(anew)], NOW_S + 300)
    assert known == first


def test_a_pool_that_its_cluster_no_longer_has_is_forgotten_and_a_cluster_that_is_silent_is_not() -> None:
    def pool(cluster: str, name: str) -> PoolSpells:
        return PoolSpells(cluster, name, NOW_S, (NodeSpell("a", NOW_S),))

    kept = msgspec.json.encode((pool("c", "old"), pool("c", "p"), pool("silent", "p"))).decode()
    assert merged(kept, [pool("c", "p")], 0.0) == (pool("c", "p"), pool("silent", "p"))


def test_an_agent_that_tells_nothing_leaves_nothing_to_learn_from() -> None:
    spells = Spells(MemoryStore())
    assert spells.of([Report("c", NOW_S, "1", (), ())], NOW_S) == ()
    assert spells.told(Learned(), [Report("c", NOW_S, "1", (), ())], NOW_S) == Learned()


def test_a_report_of_an_older_agent_is_read_and_an_older_plane_reads_one_of_ours() -> None:
    theirs = b'{"cluster":"c","at_s":1.0,"version":"1","pools":[],"observed":[]}'
    assert msgspec.json.decode(theirs, type=Report).spells == ()
    assert b"spells" not in msgspec.json.encode(Report("c", 1.0, "1", (), ()))

    class Older(msgspec.Struct):
        cluster: str

    ours = msgspec.json.encode(report(told(NodeSpell("a", 1.0))))
    assert msgspec.json.decode(ours, type=Older).cluster == "c"


def test_another_leader_that_has_written_meanwhile_is_not_written_over_by_what_was_known() -> None:
    store = MemoryStore()
    spells, seen = Spells(store), told(NodeSpell("b", NOW_S), since_s=NOW_S)
    spells.of([report(seen)], NOW_S)
    older = told(NodeSpell("a", NOW_S - 90, NOW_S - 80, lost=True), since_s=NOW_S - KEPT_S / 2)
    other = Spells(store).told(Learned(), [report(older)], NOW_S)
    store.commit([], settings=other.settings)
    [known] = spells.of([report(seen)], NOW_S)
    assert [one.node for one in known.spells] == ["a", "b"]


spell_lists = st.lists(st.tuples(st.sampled_from("abcd"), st.floats(1, 50), st.booleans()), max_size=8)


@given(spell_lists, st.integers(0, 8))
def test_however_often_an_agent_tells_and_is_restarted_no_loss_it_saw_is_lost(
    lived: list[tuple[str, float, bool]], restart: int
) -> None:
    """One node after the other; the agent tells after each, and forgets all at one point."""
    at, since = 0.0, 0.0
    known: PoolSpells | None = None
    mine: list[NodeSpell] = []
    for number, (name, length, lost) in enumerate(lived):
        if number == restart:
            mine, since = [], at
        name = f"{name}{number}"
        for end in (None, at + length):
            now = NodeSpell(name, at, end, lost and end is not None)
            known = merge(known, replace(told(*mine, now), since_s=since), -1.0)
        mine.append(now)
        at += length + 1.0
    spells = known.spells if known is not None else ()
    assert sum(one.lost for one in spells) == sum(lost for *_, lost in lived)
    assert all(one.end_s is not None for one in spells)
