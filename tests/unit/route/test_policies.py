"""Which queue each policy takes, and the rule it names."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from dure.model.errors import InvalidInput
from dure.route import chain, earliest_finish, seed, static
from dure.route.policies import NAMES, policy
from dure.route.situation import Alternative, Candidate, Figures, Lane, Order, Situation, Waiting
from tests.unit.route.situations import CPU, FOUR_CPU, GPU, heavy, light, situation


def test_static_never_leaves_home() -> None:
    assert static.choose(light(), situation(gpu_waiting=50)).index == 0


@pytest.mark.parametrize(
    ("seen", "rule", "index"),
    [
        (situation(gpu_running=3), "seed-gpu-free", 0),
        (situation(gpu_waiting=9), "seed-short-queue", 0),
        (situation(gpu_waiting=10, cpu_running=3), "seed-cap", 0),
        (situation(gpu_waiting=10, cpu_running=2), "seed-all-four", 1),
    ],
)
def test_the_published_rule_checks_four_things_in_order(seen: Situation, rule: str, index: int) -> None:
    choice = seed.choose(light(), seen)
    assert (choice.rule, choice.index) == (rule, index)


def test_the_published_rule_wants_room_for_the_cpu_request() -> None:
    seen = situation(gpu_waiting=10)
    full = Figures("cpu", {CPU: 3999}, 0, 0)
    choice = seed.choose(light(), replace(seen, figures={**seen.figures, "cpu": full}))
    assert (choice.rule, choice.because) == ("seed-no-room", "3.999 cpu free, 4 asked")


def test_the_published_rule_leaves_heavy_jobs_alone() -> None:
    assert seed.choose(heavy(), situation(gpu_waiting=50)).rule == "seed-not-light"


def test_earliest_finish_stays_while_the_gpu_is_sooner() -> None:
    choice = earliest_finish.choose(light(), situation(gpu_waiting=2))
    assert (choice.index, choice.rule) == (0, "home-is-first")
    assert choice.eta_s is not None
    assert choice.eta_s < 100 + 90
    assert choice.because.endswith(f"ends in {choice.eta_s - 100:.0f} s in user-gpu")


def test_earliest_finish_leaves_a_long_queue_and_says_by_how_much() -> None:
    choice = earliest_finish.choose(light(), situation(gpu_waiting=20))
    assert (choice.index, choice.rule, choice.eta_s) == (1, "ends-first", 190.0)
    assert "before home" in choice.because
    assert [offer.queue for offer in choice.offers] == ["user-gpu", "user-cpu"]


def test_earliest_finish_does_not_leave_for_a_gain_that_is_too_small() -> None:
    seen = situation(gpu_waiting=20)
    home = earliest_finish.choose(light(), seen).offers[0].finish_s
    assert home is not None
    assert earliest_finish.choose(light(run_cpu=home - 100 - 0.1), seen).rule == "gain-too-small"


def test_a_job_that_slows_its_neighbours_is_reckoned_to_end_with_the_last_of_them() -> None:
    seen = situation(gpu_waiting=20, cpu_running=2)
    calm = earliest_finish.offer(light(), light().alternatives[1], seen)
    quiet_for_two = replace(seen.lanes["cpu"], quiet=2, slowdown=2.0)
    slowed = earliest_finish.offer(
        light(run_cpu=10.0), light(run_cpu=10.0).alternatives[1], replace(seen, lanes={"cpu": quiet_for_two})
    )
    assert calm.finish_s == 190.0
    assert slowed.finish_s == 100 + 2 * (150 - 100)


def test_a_job_that_ends_late_at_home_leaves_only_for_a_share_of_that() -> None:
    seen = situation(gpu_waiting=20)
    home = earliest_finish.choose(light(), seen).offers[0].finish_s
    assert home is not None
    half = light(run_cpu=(home - 100) * 0.6)
    assert earliest_finish.choose(half, seen, earliest_finish.Settings(gain=0.5)).rule == "gain-too-small"
    assert earliest_finish.choose(half, seen, earliest_finish.Settings(gain=0.3)).rule == "ends-first"


def test_earliest_finish_skips_a_stopped_queue_and_tells_why() -> None:
    seen = situation(gpu_waiting=20)
    stopped = Figures("cpu", {CPU: 24_000}, active=False, why_not="Stopped: held by its owner")
    choice = earliest_finish.choose(light(), replace(seen, figures={**seen.figures, "cpu": stopped}))
    assert choice.index == 0
    assert choice.offers[1].refused == "Stopped: held by its owner"


def test_a_job_larger_than_every_quota_waits_at_home_and_is_told() -> None:
    huge = Candidate("huge", "n", "k", (Alternative("t4", "user-gpu", "gpu", {GPU: 64_000}, 10.0),), 100.0)
    assert earliest_finish.choose(huge, situation()).rule == "nowhere-fits"


def chained(*names: str) -> tuple[Candidate, Situation]:
    ways = tuple(Alternative(name, name, name, FOUR_CPU, 60.0 * (place + 1)) for place, name in enumerate(names))
    lanes = {name: Lane(name, {CPU: 8000}) for name in names}
    figures = {name: Figures(name, {CPU: 8000}) for name in names}
    return Candidate("j", "n", "k", ways, 0.0), Situation(0.0, lanes, figures)


def test_the_chain_takes_the_best_class_while_it_is_quick_enough() -> None:
    job, seen = chained("t4", "h100-80gb", "cpu")
    choice = chain.choose(job, seen, chain.Settings(patience_s=90.0))
    assert job.alternatives[choice.index].class_name == "h100-80gb"
    assert chain.choose(job, seen, chain.Settings(patience_s=10.0)).index == 0


def test_the_chain_leaves_a_job_at_home_that_nobody_can_take() -> None:
    job, seen = chained("t4", "cpu")
    stopped = {name: replace(one, active=False) for name, one in seen.figures.items()}
    choice = chain.choose(job, replace(seen, figures=stopped))
    assert (choice.index, choice.rule, len(choice.offers)) == (0, "nowhere-fits", 2)


def test_the_chain_weighs_money_and_carbon_on_request() -> None:
    job, seen = chained("h100", "cpu")
    dear = {"h100": 3600.0, "cpu": 36.0}
    assert chain.choose(job, seen).index == 0
    assert chain.choose(job, seen, chain.Settings(per_cost=2.0, price_per_hour=dear)).index == 1
    hungry = {"h100": 700.0, "cpu": 100.0}
    assert chain.choose(job, seen, chain.Settings(per_carbon=60.0, watts=hungry)).index == 1


def test_every_policy_has_a_name_and_others_are_refused() -> None:
    for name in NAMES:
        assert policy(name)(heavy(), situation()).index == 0
    with pytest.raises(InvalidInput, match="no routing policy 'fastest'"):
        policy("fastest")


def test_the_score_is_time_money_and_carbon_at_their_weights() -> None:
    """An hour on the second class: 2 of money, 0.5 kWh at 400 g; the first has neither price nor watts."""
    job, seen = chained("h100", "cpu")
    job = replace(job, alternatives=tuple(replace(one, run_s=3600.0) for one in job.alternatives))
    seen = replace(seen, now_s=50.0)
    rule = chain.Settings(
        per_cost=10.0, per_carbon=3.0, price_per_hour={"cpu": 2.0}, watts={"cpu": 500.0}, grams_per_kwh=400.0
    )
    plain, dear = (chain.scored(job, one, seen, rule) for one in job.alternatives)
    assert (plain.finish_s, plain.score) == (3650.0, 3600.0)
    assert dear.score == 3600.0 + 2 * 10 + 200 * 3
    choice = chain.choose(job, seen, rule)
    assert (choice.index, choice.rule, choice.eta_s) == (0, "cheapest-in-all", 3650.0)
    assert choice.because == "least of time, money and carbon: 3600 s worth"


def test_a_refused_offer_has_no_score_and_is_not_chosen_for_being_cheap() -> None:
    job, seen = chained("h100", "cpu")
    stopped = {**seen.figures, "h100": replace(seen.figures["h100"], active=False)}
    seen = replace(seen, figures=stopped)
    rule = chain.Settings(per_cost=1.0, price_per_hour={"cpu": 9e9})
    assert chain.scored(job, job.alternatives[0], seen, rule).score is None
    assert chain.choose(job, seen, rule).index == 1
    assert chain.choose(job, seen).index == 1


def test_equal_scores_and_ranks_are_decided_by_the_order_of_the_job() -> None:
    job, seen = chained("cpu", "cpu-b")
    job = replace(job, alternatives=tuple(replace(one, run_s=60.0) for one in job.alternatives))
    assert chain.choose(job, seen).index == 0
    assert chain.choose(job, seen, chain.Settings(per_cost=1.0)).index == 0


def test_patience_may_be_used_up_and_a_class_that_nobody_ranks_comes_last() -> None:
    job, seen = chained("t4", "h100", "mystery")
    choice = chain.choose(job, seen, chain.Settings(patience_s=60.0))
    assert (choice.index, choice.rule, choice.eta_s) == (1, "down-the-chain", 120.0)
    assert choice.because == "first of the chain that ends within 60 s of the earliest"
    assert chain.choose(job, seen, chain.Settings(patience_s=59.0)).index == 0
    strange, seen = chained("mystery", "cpu")
    assert chain.choose(strange, seen, chain.Settings(patience_s=60.0)).index == 1


def test_the_published_rule_counts_what_is_not_told_as_nothing_and_says_what_it_saw() -> None:
    seen = situation(gpu_waiting=10)
    bare = Situation(100.0, seen.lanes, {"gpu": Figures("gpu", {}, 10, 4), "cpu": Figures("cpu", {}, 0, 0)})
    choice = seed.choose(light(), bare)
    assert (choice.rule, choice.because) == ("seed-no-room", "0 cpu free, 4 asked")
    assert choice.saw == {"gpu_available": 0, "gpu_pending": 10, "cpu_available": 0, "cpu_reserving": 0}
    modest = replace(light(), alternatives=(light().home, replace(light().alternatives[1], demand={})))
    assert seed.choose(modest, bare).rule == "seed-all-four"
    assert seed.choose(light(), Situation(100.0, {}, {"gpu": seen.figures["gpu"]})).rule == "seed-no-figures"


def test_a_queue_that_may_be_sorted_offers_the_better_of_both_places() -> None:
    """Two short ones wait before it; with the longest first it would start at once."""
    short = tuple(Waiting(f"s{n}", FOUR_CPU, 10.0, float(n)) for n in range(2))
    job = Candidate("j", "n", "k", (Alternative("cpu", "cpu", "cpu", FOUR_CPU, 60.0),), 50.0)

    def finish(**lane: object) -> float | None:
        made = msgspec.structs.replace(Lane("cpu", FOUR_CPU, (), short), **lane)
        seen = Situation(100.0, {"cpu": made}, {"cpu": Figures("cpu", FOUR_CPU)})
        return earliest_finish.offer(job, job.home, seen).finish_s

    assert finish() == 180.0
    assert finish(orderable=True) == 160.0
    assert finish(orderable=True, order=Order.LONGEST_FIRST) == 160.0
    late = {"waiting": tuple(msgspec.structs.replace(one, rank=5) for one in short)}
    assert finish(**late) == 180.0, "it came after the queue was put in order"
    assert finish(orderable=True, **late) == 160.0, "but the queue may be sorted again"


def test_earliest_finish_says_when_and_by_how_much_or_that_home_never_would() -> None:
    seen = situation(gpu_waiting=20)
    choice = earliest_finish.choose(light(), seen)
    home = choice.offers[0].finish_s
    assert home is not None
    assert choice.because == f"starts in 0 s and ends in 90 s in user-cpu, {home - 190:.0f} s before home"
    huge = replace(light().home, demand={GPU: 64_000})
    alone = replace(light(), alternatives=(huge, light().alternatives[1]))
    stuck = earliest_finish.choose(alone, seen)
    assert stuck.because == "starts in 0 s and ends in 90 s in user-cpu; never at home"
    assert stuck.offers[0].refused == "it asks for more than the whole quota"
    unknown = earliest_finish.offer(light(), light().home, Situation(0.0, {}, {}))
    assert unknown.refused == "queue gpu is not known"


def test_a_gain_that_is_just_enough_is_taken() -> None:
    seen = situation(gpu_waiting=20)
    home = earliest_finish.choose(light(), seen).offers[0].finish_s
    assert home is not None
    for gain_s, rule in ((8.0, "ends-first"), (8.5, "gain-too-small")):
        told = earliest_finish.Settings(gain_s=gain_s, gain=0.0)
        choice = earliest_finish.choose(light(run_cpu=home - 100 - 8), seen, told)
        assert choice.rule == rule
    assert choice.because == "user-cpu would gain 8.0 s"
    assert choice.eta_s == home
