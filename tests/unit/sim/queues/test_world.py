"""The played Kueue: the published table, the optimum, and never worse than a fixed queue."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dure.bench.route import command
from dure.bench.route_sim import play as play_named
from dure.bench.route_sim import published_rows
from dure.model.errors import InvalidInput, NotFound
from dure.route import earliest_finish, reroute, static
from dure.sim.queues import optimum as optimum_module
from dure.sim.queues.mix import Mix, MixJob, MixQueue, parse
from dure.sim.queues.mixes import burst, random_mix, uniform
from dure.sim.queues.optimum import optimum
from dure.sim.queues.world import Laws, Run, World


def play(mix: Mix, *, dynamic: bool, laws: Laws | None = None) -> Run:
    chosen = earliest_finish.choose if dynamic else static.choose
    return World(mix, chosen, reroute.plan if dynamic else None, laws or Laws(), lambda _job, _queue: 1.0).play()


def test_the_published_table_is_reproduced_within_five_percent() -> None:
    rows = published_rows()
    assert len(rows) == 4
    assert all(abs(float(row["off"] or 1)) < 0.05 for row in rows)
    assert {row["moved"] for row in rows if row["policy"] == "seed"} == {3}


@pytest.mark.parametrize(("mix", "best"), [(burst(), 172.2), (burst(60), 146.0), (uniform(), 174.0)])
def test_earliest_finish_is_within_three_percent_of_the_optimum(mix: Mix, best: float) -> None:
    reached = play(mix, dynamic=True).makespan_s
    found = optimum(mix, reached)
    assert found.proven
    assert found.makespan_s == pytest.approx(best)
    assert reached <= 1.03 * found.makespan_s


@pytest.mark.parametrize("turnaround_s", [0.0, 2.3, 4.0, 4.5])
def test_no_rule_that_is_never_behind_staying_ends_uniform_sooner(turnaround_s: float) -> None:
    # Before second 12 a job on the CPU would end after everybody who is known had ended at home. From then on either
    # a slot of the CPU serves two, or the GPUs serve 24, three of them four long jobs and two short ones.
    twice = 12.0 + 2 * (90.0 + turnaround_s)
    once = 2.0 + 4 * (30.0 + turnaround_s) + 2 * (26.0 + turnaround_s)
    reached = play(uniform(), dynamic=True, laws=Laws(turnaround_s=turnaround_s))
    assert min(stay.started_s for stay in reached.stays if stay.queue == "cpu") == pytest.approx(12.0)
    assert reached.makespan_s == pytest.approx(min(twice, once))


@pytest.mark.parametrize("slowdown", [1.0, 1.6])
def test_random_mixes_are_never_worse_than_a_fixed_queue(slowdown: float) -> None:
    for seed in range(12):
        mix = random_mix(seed, slowdown)
        assert play(mix, dynamic=True).makespan_s <= 1.02 * play(mix, dynamic=False).makespan_s


# Mixes in which another order once ended up to 5 % after a fixed queue: more arrived than the plan knew of.
@pytest.mark.parametrize(
    ("seed", "slowdown"),
    [(7141, 1.0), (10057, 1.0), (10192, 1.0), (10368, 1.0), (10725, 1.0), (2031, 1.5), (50479, 1.5)],
)
def test_another_order_is_not_regretted_when_more_arrives(seed: int, slowdown: float) -> None:
    mix = random_mix(seed, slowdown)
    assert play(mix, dynamic=True).makespan_s <= 1.02 * play(mix, dynamic=False).makespan_s


def test_guests_do_not_take_a_queue_from_those_who_can_run_nowhere_else() -> None:
    own = tuple(MixJob(f"own-{n:02d}", 8.0 * n, "light", {"cpu": 30.0}) for n in range(20))
    light = tuple(MixJob(f"light-{n:02d}", 6.0 * n, "light", {"gpu": 26.0, "cpu": 60.0}) for n in range(30))
    mix = Mix("shared", {"gpu": MixQueue(2), "cpu": MixQueue(4)}, own + light)
    assert play(mix, dynamic=True).makespan_s <= 1.02 * play(mix, dynamic=False).makespan_s


def test_the_published_rule_sees_counters_only_when_they_are_written() -> None:
    late = Laws(written_s={"gpu": (3.5,), "cpu": (3.5,)})
    assert published("burst", Laws()).moved == 3
    assert published("burst", late).moved == 0
    between = Laws(written_s={"gpu": (2.05,), "cpu": (2.05,)})
    assert published("burst", between).moved == 9


def published(name: str, laws: Laws) -> Run:
    return play_named({"burst": burst(), "uniform": uniform()}[name], "seed", 0, 0.0, laws)


def test_the_optimum_equals_that_of_trying_everything() -> None:
    for seed in range(6):
        full = random_mix(seed)
        mix = Mix("small", {"gpu": MixQueue(2), "cpu": MixQueue(1)}, full.jobs[:6])
        assert optimum(mix, play(mix, dynamic=False).makespan_s).makespan_s == pytest.approx(_tried(mix), abs=2e-3)


def test_an_end_that_was_not_settled_in_time_proves_nothing_about_those_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mix = burst()
    reached, settle = play(mix, dynamic=False).makespan_s, optimum_module._reachable
    least = optimum(mix, reached).makespan_s
    asked: list[float] = []

    def first_out_of_time(*args: Any) -> bool | None:
        asked.append(args[4])
        return None if args[4] and asked.count(1.0) == 1 else settle(*args)

    monkeypatch.setattr(optimum_module, "_reachable", first_out_of_time)
    found = optimum(mix, reached)
    assert found.bound_s <= least <= found.makespan_s
    assert not found.proven


def test_times_that_are_all_different_are_given_up_in_good_time_and_told_as_not_proven() -> None:
    runs = [3600.0 + 1.377 * number**2 for number in range(40)]
    jobs = tuple(MixJob(f"j{n}", 60.0 * n, "light", {"gpu": run, "cpu": 2.7 * run}) for n, run in enumerate(runs))
    mix = Mix("hours", {"gpu": MixQueue(4), "cpu": MixQueue(6)}, jobs)
    reached = play(mix, dynamic=True).makespan_s
    found = optimum(mix, reached)
    assert not found.proven
    assert found.bound_s < found.makespan_s == reached


def _tried(mix: Mix) -> float:
    slots = [("gpu", 0), ("gpu", 1), ("cpu", 0)]
    jobs = sorted(mix.jobs, key=lambda job: job.arrival_s)
    best = float("inf")
    for ways in itertools.product(range(3), repeat=len(jobs)):
        ends = [0.0, 0.0, 0.0]
        if any(slots[way][0] not in job.run_s for way, job in zip(ways, jobs, strict=True)):
            continue
        for way, job in zip(ways, jobs, strict=True):
            ends[way] = max(ends[way], job.arrival_s) + job.run_s[slots[way][0]]
        best = min(best, max(ends))
    return best - jobs[0].arrival_s


def test_neighbours_on_a_node_slow_each_other() -> None:
    run = {"cpu": 10.0}
    jobs = (MixJob("a", 0.0, "light", run), MixJob("b", 0.0, "light", run))
    shared = Mix("m", {"cpu": MixQueue(2, nodes=1, slowdown=1.5)}, jobs)
    assert play(shared, dynamic=False).makespan_s == pytest.approx(15.0)
    apart = Mix("m", {"cpu": MixQueue(2)}, jobs)
    assert play(apart, dynamic=False).makespan_s == pytest.approx(10.0)


def test_the_same_seed_gives_the_same_run() -> None:
    assert play(random_mix(3), dynamic=True) == play(random_mix(3), dynamic=True)


def test_every_job_runs_once_and_no_queue_is_overfull() -> None:
    mix = random_mix(7)
    run = play(mix, dynamic=True)
    assert sorted(stay.job for stay in run.stays) == sorted(job.name for job in mix.jobs)
    for stay in run.stays:
        at = stay.started_s
        beside = [one for one in run.stays if one.queue == stay.queue and one.started_s <= at < one.ended_s]
        assert len(beside) <= mix.queues[stay.queue].slots
        assert stay.started_s >= stay.arrived_s


GOOD = {
    "name": "mine",
    "queues": {"gpu": {"slots": 1}, "cpu": {"slots": 2}},
    "jobs": [{"name": f"j{n}", "arrival_s": n, "kind": "light", "run_s": {"gpu": 10, "cpu": 25}} for n in range(4)],
}


def test_a_scenario_file_gives_rows_of_the_stated_form(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(GOOD))
    done = CliRunner().invoke(command, ["--sim", "--scenario", str(file), "--json"], catch_exceptions=False)
    answer = json.loads(done.stdout)
    assert answer["bench"] == "route"
    assert [row["policy"] for row in answer["rows"]] == ["static", "seed", "earliest-finish"]
    for row in answer["rows"]:
        assert list(row) == ["scenario", "policy", "makespan_s", "mean_wait_s", "optimum_s", "moved"]
    assert answer["rows"][0]["makespan_s"] == 40.0
    assert answer["rows"][2]["optimum_s"] <= answer["rows"][2]["makespan_s"] < 40.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queues": {}}, "at least one queue"),
        ({"queues": {"gpu": {"slots": 0}}}, "slots must be"),
        ({"jobs": [{"name": "a", "arrival_s": -1, "kind": "gpu", "run_s": {"gpu": 1}}]}, "arrival_s"),
        ({"jobs": [{"name": "a", "arrival_s": 0, "kind": "tpu", "run_s": {"gpu": 1}}]}, "neither gpu nor light"),
        ({"jobs": [{"name": "a", "arrival_s": 0, "kind": "gpu", "run_s": {"tpu": 1}}]}, "names queue 'tpu'"),
        ({"jobs": [{"name": "a", "arrival_s": 0, "kind": "gpu", "run_s": {"gpu": 0}}]}, "must be positive"),
        ({"jobs": [{"name": "a", "arrival_s": 0, "kind": "gpu", "run_s": {}}]}, "names no queue"),
        ({"jobs": GOOD["jobs"] + GOOD["jobs"]}, "two jobs are called"),  # type: ignore[operator]
        ({"extra": 1}, "unknown field"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_place(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse(json.dumps({**GOOD, **change}), "mine.json")


def test_broken_and_missing_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not JSON"):
        parse("{", "mine.json")
    with pytest.raises(NotFound, match="no such file"):
        CliRunner().invoke(command, ["--sim", "--scenario", str(tmp_path / "none.json")], catch_exceptions=False)
