"""KEDA's loop, fallback and formulas against tables of cases kept as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dure.model.errors import InvalidInput
from dure.scale.hpa.observe import Missing, Total
from dure.scale.keda import engine, formula, serve, spec

TABLES = Path(__file__).parents[2] / "scenario" / "keda"


def raw_table(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((TABLES / f"{name}.json").read_text())
    return table


def cases(name: str) -> list[Any]:
    """The cases of one file, each as a named pytest parameter."""
    return [pytest.param(case, id=case["name"]) for case in raw_table(name)["cases"]]


@pytest.mark.parametrize("case", cases("loop"))
def test_the_loop_moves_between_zero_idle_and_running(case: dict[str, Any]) -> None:
    trigger = {"name": "queue", "target": 10.0, "activation": float(case.get("activation", 0))}
    scaled = msgspec.convert({"triggers": [trigger], **case["object"]}, spec.ScaledObject)
    value = serve.Failed("timeout") if case["value"] is None else float(case["value"])
    sight = engine.KedaSight(case["now"], case["replicas"], case["replicas"], case["replicas"], (value,))
    move = engine.poll(scaled, engine.KedaState(last_active_s=case["last"]), sight)
    assert [move.replicas, move.reason] == case["want"]


@pytest.mark.parametrize("case", cases("fallback"))
def test_fallback_pretends_a_value_after_enough_failures(case: dict[str, Any]) -> None:
    trigger = spec.Trigger("queue", 10.0, metric_type=case.get("metric_type", "AverageValue"))
    fallback = None if case["fallback"] is None else msgspec.convert(case["fallback"], spec.Fallback)
    scaled = spec.ScaledObject((trigger,), fallback=fallback)
    got = serve.serve(
        scaled, (serve.Failed("timeout"),), {"queue": case["failures"]}, case["replicas"], case.get("ready", 8)
    )
    want = Missing("timeout") if case["want"] is None else Total((case["want"],))
    assert got.readings == (want,)
    assert got.failures == {"queue": case["failures"] + 1}


@pytest.mark.parametrize(("text", "want"), raw_table("formulas")["cases"])
def test_formulas_give_their_number(text: str, want: float) -> None:
    assert formula.evaluate(text, {"a": 4.0, "b": 10.0, "c": None}) == pytest.approx(want)


@pytest.mark.parametrize(("text", "want"), raw_table("formulas")["wrong"])
def test_wrong_formulas_say_what_is_wrong(text: str, want: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        formula.evaluate(text, {"a": 4.0, "b": 10.0, "c": None})
    assert want in str(caught.value)


def test_a_success_resets_the_failure_count() -> None:
    scaled = spec.ScaledObject((spec.Trigger("queue", 10.0),), fallback=spec.Fallback(6, 1))
    assert serve.serve(scaled, (5.0,), {"queue": 9}, 3, 3).failures == {"queue": 0}


def test_modifiers_replace_all_metrics_by_one() -> None:
    scaled = spec.ScaledObject(
        (spec.Trigger("a", 1.0), spec.Trigger("b", 1.0)), modifiers=spec.Modifiers("max(a, b) * 2", target=5.0)
    )
    hpa = spec.generated_hpa(scaled)
    assert [metric.name for metric in hpa.metrics] == ["composite-metric"]
    assert serve.serve(scaled, (3.0, 4.0), {}, 1, 1).readings == (Total((8000,)),)


def test_modifier_fallback_uses_the_formula_with_nil() -> None:
    scaled = spec.ScaledObject(
        (spec.Trigger("a", 1.0), spec.Trigger("b", 1.0)),
        modifiers=spec.Modifiers("(a ?? 7) + b", target=5.0),
        fallback=spec.Fallback(6, 3, "scalingModifiers"),
    )
    got = serve.serve(scaled, (serve.Failed("gone"), 4.0), {}, 1, 1)
    assert got.readings == (Total((11000,)),)
    assert got.fallback


def test_pausing_one_direction_disables_its_policies_in_the_hpa() -> None:
    paused = spec.ScaledObject((spec.Trigger("q", 1.0),), min_replicas=1, pause=spec.Pause(scale_out=True))
    sight = engine.KedaSight(0.0, 3, 3, 3, (99.0,))
    assert engine.tick(paused, engine.KedaState(), sight).replicas == 3


def test_the_loop_acts_only_when_its_interval_has_passed() -> None:
    scaled = spec.ScaledObject((spec.Trigger("q", 1.0),), polling_s=30)
    state = engine.tick(scaled, engine.KedaState(), engine.KedaSight(0.0, 0, 0, 0, (0.0,))).state
    early = engine.tick(scaled, state, engine.KedaSight(15.0, 0, 0, 0, (9.0,)))
    assert early.replicas == 0
    assert engine.tick(scaled, early.state, engine.KedaSight(30.0, 0, 0, 0, (9.0,))).replicas >= 1


def test_an_average_percentage_with_an_average_target_never_passes_two() -> None:
    scaled = spec.ScaledObject((spec.Trigger("utilisation", 70.0),), min_replicas=1, max_replicas=10)
    state, replicas = engine.KedaState(), 1
    for now in range(0, 3600, 15):
        step = engine.tick(scaled, state, engine.KedaSight(float(now), replicas, replicas, replicas, (100.0,)))
        state, replicas = step.state, step.replicas
    assert replicas == 2


@pytest.mark.parametrize(
    ("result", "ignore_null", "want"),
    [((3.5,), True, 3.5), ((), True, 0.0), ((float("nan"),), True, 0.0), ((float("inf"),), True, 0.0)],
)
def test_a_lost_series_reads_as_zero_by_default(result: tuple[float, ...], ignore_null: bool, want: float) -> None:
    assert serve.query_value(result, ignore_null) == want


@pytest.mark.parametrize(
    ("result", "ignore_null", "why"),
    [((1.0, 2.0), True, "more than one"), ((), False, "no usable"), ((float("nan"),), False, "no usable")],
)
def test_several_series_or_forbidden_nulls_are_failures(
    result: tuple[float, ...], ignore_null: bool, why: str
) -> None:
    found = serve.query_value(result, ignore_null)
    assert isinstance(found, serve.Failed)
    assert why in found.error
