"""Worker clusters by money and carbon, one more whenever patience runs out."""

from __future__ import annotations

from dure.route.dispatch import Settings, Worker, nominated

WORKERS = (Worker("dear", 3.0, 10.0), Worker("cheap", 1.0, 500.0), Worker("away", 0.1, active=False))


def test_the_cheapest_is_asked_first_and_one_more_each_time_patience_runs_out() -> None:
    assert nominated(WORKERS, 0.0) == ("cheap",)
    assert nominated(WORKERS, 29.0, Settings(patience_s=30.0)) == ("cheap",)
    assert nominated(WORKERS, 31.0, Settings(patience_s=30.0)) == ("cheap", "dear")
    assert nominated(WORKERS, 1e6) == ("cheap", "dear")


def test_carbon_at_its_price_turns_the_order() -> None:
    assert nominated(WORKERS, 0.0, Settings(per_gram=0.01)) == ("dear",)


def test_no_active_worker_means_nobody_is_asked() -> None:
    assert nominated(WORKERS[2:], 0.0) == ()
    assert len(nominated([Worker(f"w{n}") for n in range(40)], 1e9)) == 20


def test_a_clock_that_was_set_back_asks_the_cheapest() -> None:
    assert nominated(WORKERS, -100.0, Settings(patience_s=1.0)) == ("cheap",)


def test_equal_workers_are_asked_in_the_order_of_their_names() -> None:
    assert nominated([Worker("b"), Worker("a")], 0.0) == ("a",)
