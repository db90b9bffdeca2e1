"""The judge of crash runs: a good history passes, and each kind of lie is found."""

from __future__ import annotations

import msgspec
import pytest

from tests.chaos.history import MISSING, Answer, Books, Decided, Final, History, Judgement, PodSeen, judge
from tests.chaos.holding import Holding, given_twice

GOOD = History(
    answers=(
        Answer("submit", "a", 0.0, 1.0, "u", 1, "pending"),
        Answer("read", "a", 2.0, 3.0, "u", 2, "placed"),
        Answer("read", "a", 2.5, 4.0, "u", 1, "pending"),
        Answer("read", "a", 20.0, 21.0, "u", 5, "done"),
    ),
    pods=(
        PodSeen(3.0, "seoul", "u", 1, 0, "starting", True),
        PodSeen(4.0, "seoul", "u", 1, 0, "gone", False),
        PodSeen(6.0, "busan", "u", 2, 0, "running", True),
        PodSeen(9.0, "busan", "u", 2, 0, "succeeded", False),
    ),
    finals=(Final("a", "u", 5, "done", 2, 70),),
    journal=(
        Decided(1, "place", "a", 1, "seoul"),
        Decided(2, "bind", "a", cluster="seoul", pod="a-1-0"),
        Decided(3, "place", "a", 2, "busan"),
    ),
    books=Books(charged_micros=70),
)


def judged(**changed: object) -> Judgement:
    return judge(msgspec.structs.replace(GOOD, **changed))


def test_a_history_that_some_order_explains_is_fine_also_where_answers_overlap() -> None:
    assert not any(judge(GOOD))


@pytest.mark.parametrize(
    ("finals", "told"),
    [
        ((), "was accepted"),
        ((Final("a", "other", 5, "done", 2, 70),), "was accepted"),
        ((Final("a", "u", 5, "running", 2, 70),), "still running"),
        ((*GOOD.finals, Final("b", "v", 1, "done", 0, 0)), "never accepted"),
    ],
)
def test_what_was_accepted_must_be_there_once_and_end(finals: tuple[Final, ...], told: str) -> None:
    assert told in judged(finals=finals).lost[0]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer("read", "a", 5.0, 6.0, "u", 1, "pending"), "after @2 was known"),
        (Answer("read", "a", 5.0, 6.0, phase=MISSING), "after @2 was known"),
        (Answer("read", "a", 30.0, 31.0, "u", 6, "done"), "only 5 was kept"),
        (Answer("read", "a", 5.0, 6.0, "u", 2, "running"), "both placed and running"),
        (Answer("cancel", "a", 5.0, 6.0, "u", 4, "cancelled"), "had ended as cancelled"),
    ],
)
def test_an_answer_that_no_order_explains_is_found(answer: Answer, told: str) -> None:
    assert told in " ".join(judged(answers=(*GOOD.answers, answer)).order)


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ((*(GOOD.pods or ()), PodSeen(9.5, "busan", "u", 2, 0, "running", True)), "started 2 times"),
        (
            (PodSeen(3.0, "seoul", "u", 1, 0, "running", True), PodSeen(4.0, "busan", "u", 2, 0, "succeeded", True)),
            "2 homes",
        ),
        (
            (PodSeen(3.0, "s", "u", 1, 0, "succeeded", False), PodSeen(4.0, "s", "u", 2, 0, "succeeded", False)),
            "succeeded 2 times",
        ),
        ((), "no cluster has done it"),
    ],
)
def test_a_second_run_and_a_second_home_are_found(pods: tuple[PodSeen, ...], told: str) -> None:
    assert told in " ".join(judged(pods=pods).twice)


def test_the_journal_places_generations_one_by_one_and_binds_each_pod_once() -> None:
    assert "journal placed [1]" in judged(journal=GOOD.journal[:1]).order[0]
    assert "2 binds" in judged(journal=(*GOOD.journal, GOOD.journal[1])).order[0]


def test_money_that_nobody_was_charged_and_time_that_nobody_posted_are_found() -> None:
    assert "charged 60" in judged(books=Books(charged_micros=60)).books[0]
    late = Books(charged_micros=70, posted_ms=1000, due_ms=5000, tolerance_ms=10)
    assert "1000 ms of devices" in judged(books=late).books[0]


def test_a_device_is_held_whole_by_one_or_in_parts_that_do_not_overlap() -> None:
    whole, half, other = (
        Holding("d", "a", "exclusive"),
        Holding("d", "b", "mig", 0, 4),
        Holding("d", "c", "mig", 4, 4),
    )
    assert given_twice([half, other]) == []
    assert given_twice([whole, other])
    assert given_twice([half, Holding("d", "e", "mig", 3, 2)])
