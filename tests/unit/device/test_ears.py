"""What wakes the executor: rings and lanes, each heard, none twice."""

from __future__ import annotations

import multiprocessing
import threading

from dure.device.ears import Ears

PATIENCE_S = 60.0


def test_many_rings_are_heard_as_one() -> None:
    ears = Ears()
    for _ in range(100_000):
        ears.ring()
    assert ears.listen(PATIENCE_S) == []
    ears.ring()
    assert ears.listen(PATIENCE_S) == []


def test_a_ring_from_another_thread_ends_the_waiting() -> None:
    ears = Ears()
    threading.Timer(0.01, ears.ring).start()
    assert ears.listen(PATIENCE_S) == []


def test_a_lane_is_heard_until_it_is_forgotten_and_so_is_its_successor() -> None:
    ears = Ears()
    for word in ("first", "second"):
        ours, theirs = multiprocessing.Pipe()
        ears.follow("a", ours)
        theirs.send(word)
        assert ears.listen(PATIENCE_S) == ["a"]
        assert ours.recv() == word
        ears.forget(ours)
        # The next pipe gets the same number.
        ours.close()
        theirs.close()
