"""The HPA rules against tables of cases kept as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dure.scale.hpa import engine, normalize, observe, proposal, spec

TABLES = Path(__file__).parents[2] / "scenario" / "hpa"
NOW = 1000.0


def table(name: str, key: str = "cases") -> list[Any]:
    """The cases of one file, each as a named pytest parameter."""
    cases = json.loads((TABLES / f"{name}.json").read_text())[key]
    return [pytest.param(case, id=case["name"]) for case in cases]


def limits(raw: list[int] | None, default: tuple[spec.Policy, ...], select: str) -> spec.Limits:
    """[pods, period, percent, period] as rules; zero leaves a policy out."""
    if raw is None:
        return spec.Limits(0, "Max", default)
    pods, pods_s, percent, percent_s = raw
    policies = []
    if pods:
        policies.append(spec.Policy("Pods", pods, pods_s))
    if percent:
        policies.append(spec.Policy("Percent", percent, percent_s))
    return spec.Limits(0, select, tuple(policies))  # type: ignore[arg-type]  # data file holds the literal


def events(raw: list[list[int]]) -> tuple[normalize.ScaleEvent, ...]:
    """[[change, seconds ago]] as events."""
    return tuple(normalize.ScaleEvent(change, NOW - ago) for change, ago in raw)


@pytest.mark.parametrize("case", table("rates"))
def test_rate_limits_follow_policies_and_history(case: dict[str, Any]) -> None:
    state = normalize.HpaState((), events(case.get("ups", [])), events(case.get("downs", [])))
    select = case.get("select", "Max")
    up = limits(case.get("up"), spec.UP_POLICIES, select)
    down = limits(case.get("down"), spec.DOWN_POLICIES, select)
    least, most = case["range"]
    got = normalize.bound_with(state, case["current"], case["desired"], least, most, NOW, up, down)
    assert [got.replicas, got.reason] == case["want"]


@pytest.mark.parametrize("case", table("plain", "convert"))
def test_without_behavior_growth_is_bounded(case: dict[str, Any]) -> None:
    got = normalize.bound(*case["in"])
    assert [got.replicas, got.reason] == case["want"]


@pytest.mark.parametrize("case", table("plain", "stabilize"))
def test_without_behavior_the_highest_recent_wish_counts(case: dict[str, Any]) -> None:
    records = tuple(normalize.Recommendation(count, NOW - ago) for count, ago in case["records"])
    replicas, state = normalize.stabilize(normalize.HpaState(records), case["desired"], NOW, 300)
    assert [replicas, len(state.recommendations or ())] == case["want"]


@pytest.mark.parametrize("case", table("windows"))
def test_windows_hold_back_both_directions(case: dict[str, Any]) -> None:
    records = tuple(normalize.Recommendation(count, NOW - ago) for count, ago in case["records"])
    up, down = (spec.Limits(window, "Max", ()) for window in case["windows"])
    got, state = normalize.stabilize_with(
        normalize.HpaState(records), case["current"], case["desired"], NOW, up, down
    )
    assert got.replicas == case["want"]
    assert [record.replicas for record in state.recommendations or ()] == case["kept"]


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("case", table("events"))
def test_written_changes_are_stored_over_outdated_ones(case: dict[str, Any], direction: str) -> None:
    before = events(case["events"])
    assert sum(event.change for event in before if event.at_s > NOW - 60) == case["in_60s"]
    state = normalize.HpaState((), before if direction == "up" else (), before if direction == "down" else ())
    if case["policies"] is not None:
        rules = spec.Limits(0, "Max", tuple(spec.Policy(*policy) for policy in case["policies"]))
        after = 15 if direction == "up" else 5
        state = normalize.record_change(state, 10, after, NOW, rules, rules)
    kept = state.ups if direction == "up" else state.downs
    assert [[event.change, event.outdated] for event in kept] == case["kept"]


@pytest.mark.parametrize("case", table("groups"))
def test_pods_are_grouped_by_what_their_sample_is_worth(case: dict[str, Any]) -> None:
    pods = tuple(
        observe.Pod(
            name=name,
            phase=raw.get("phase", "Running"),
            ready=raw.get("ready", True),
            ready_since_s=raw.get("since", 0.0),
            started_s=raw.get("started", 0.0),
            deleting=raw.get("deleting", False),
        )
        for name, raw in case["pods"].items()
    )
    samples = {
        name: observe.Sample(1, raw.get("at", 0.0), raw.get("window", 0.0)) for name, raw in case["samples"].items()
    }
    flags = spec.Flags(cpu_initialization_s=120, readiness_delay_s=10)
    got = msgspec.to_builtins(proposal.group(pods, samples, case["cpu"], NOW, flags))
    want = {"unready": [], "missing": [], "ignored": []} | case["want"]
    assert {key: list(value) if key != "ready" else value for key, value in got.items()} == want


def pods_of(letters: str, requests: list[int | None]) -> tuple[observe.Pod, ...]:
    """One pod for each letter of the table's shorthand."""
    phases = {"p": "Pending", "f": "Failed"}
    return tuple(
        observe.Pod(
            name=f"pod-{index}",
            phase=phases.get(letter, "Running"),  # type: ignore[arg-type]  # shorthand table
            ready=letter in "rh",
            started_s=NOW - 30 if letter == "h" else 0.0,
            ready_since_s=NOW - 30 if letter == "h" else 0.0,
            deleting=letter == "d",
            request=requests[index] if index < len(requests) else 1000,
        )
        for index, letter in enumerate(letters)
    )


def metric_of(case: dict[str, Any]) -> tuple[spec.Metric, observe.Reading]:
    """The metric and its reading described by a case."""
    levels, target, kind = case["levels"], case["target"], case["kind"]
    if kind in ("cpu", "pods"):
        names = case.get("names") or [f"pod-{index}" for index in range(len(levels))]
        reading: observe.Reading = observe.PerPod(
            {name: observe.Sample(level, NOW) for name, level in zip(names, levels, strict=True)}
        )
        if kind == "cpu":
            return spec.Resource("cpu", utilization=target), reading
        return spec.PodsMetric("qps", target), reading
    shape = spec.Object if kind == "object" else spec.External
    goal = {"average_value": target} if case.get("per_pod") else {"value": target}
    return shape("qps", **goal), observe.Total(tuple(levels))


@pytest.mark.parametrize("case", table("proposals"))
def test_a_metric_proposes_a_replica_count(case: dict[str, Any]) -> None:
    letters = case.get("pods", "r" * case["current"])
    sight = observe.Sight(
        now_s=NOW,
        spec_replicas=case["current"],
        status_replicas=case["current"],
        pods=pods_of(letters, case.get("requests", [])),
    )
    metric, reading = metric_of(case)
    tolerance = tuple(case.get("tolerance", (0.1, 0.1)))
    flags = spec.Flags(cpu_initialization_s=120, readiness_delay_s=10)
    got = proposal.propose(metric, reading, sight, tolerance, flags)
    if isinstance(case["want"], str):
        assert isinstance(got, proposal.Refusal)
        assert case["want"] in got.error
    else:
        assert got == case["want"]


@pytest.mark.parametrize("case", table("syncs"))
def test_syncs_in_order_decide_and_explain(case: dict[str, Any]) -> None:
    raw = case["spec"]
    rules = {side: msgspec.convert(raw[side], spec.Rules) for side in ("up", "down") if side in raw}
    hpa = spec.HpaSpec(
        max_replicas=raw["max_replicas"],
        min_replicas=raw.get("min_replicas", 1),
        metrics=tuple(spec.External(f"m{i}", average_value=value) for i, value in enumerate(raw["targets"])),
        behavior=spec.Behavior(**rules) if rules else None,
    )
    state, replicas = normalize.HpaState(), case["start"]
    for at_s, totals, want in case["steps"]:
        readings = tuple(observe.Missing("down") if t is None else observe.Total((t,)) for t in totals)
        outcome = engine.sync(hpa, state, observe.Sight(at_s, replicas, replicas, readings))
        reasons = {condition.kind: condition.reason for condition in outcome.conditions}
        got = [outcome.replicas, *(reasons.get(k) for k in ("AbleToScale", "ScalingActive", "ScalingLimited"))]
        assert got == want
        state, replicas = outcome.state, outcome.replicas


def test_an_ambiguous_selector_stops_metric_scaling_but_not_the_range() -> None:
    hpa = spec.HpaSpec(max_replicas=5, metrics=(spec.External("m", average_value=1000),))
    inside = observe.Sight(0.0, 3, 3, (observe.Total((9000,)),), ambiguous=True)
    outcome = engine.sync(hpa, normalize.HpaState(), inside)
    assert (outcome.replicas, outcome.conditions[1].reason) == (3, "AmbiguousSelector")
    outside = observe.Sight(0.0, 7, 7, (observe.Total((9000,)),), ambiguous=True)
    assert engine.sync(hpa, normalize.HpaState(), outside).replicas == 5
