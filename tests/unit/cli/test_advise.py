"""`dure advise instance` as people call it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dure.cli.advise import command


def test_advice_for_a_large_model_names_memory_price_and_carbon() -> None:
    answer = CliRunner().invoke(
        command, ["instance", "--params", "70B", "--context", "8k", "--rate", "3/s", "--json"]
    )
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert found["ask"]["weights_gib"] == pytest.approx(130.4, abs=0.1)
    assert found["advice"][0]["instance"] == "p5.48xlarge"
    assert {"usd_per_million", "g_per_million", "tokens_per_s"} <= found["advice"][0].keys()


def test_cheaper_types_outside_of_the_ladder_are_not_hidden() -> None:
    answer = CliRunner().invoke(command, ["instance", "--params", "7B", "--rate", "3/s"])
    assert "Outside of these types" in answer.stdout


@pytest.mark.parametrize(
    "wrong", [["--params", "big"], ["--params", "7B", "--rate", "0/s"], ["--params", "7B", "--context", "x"]]
)
def test_wrong_figures_are_named(wrong: list[str]) -> None:
    answer = CliRunner().invoke(command, ["instance", *wrong])
    assert getattr(answer.exception, "exit_code", None) == 2


def test_a_forgotten_unit_of_parameters_is_asked_about() -> None:
    answer = CliRunner().invoke(command, ["instance", "--params", "70"])
    assert "Did you mean 70B?" in str(answer.exception)


@pytest.mark.parametrize(
    ("wish", "why"),
    [(["7B", "--step", "1"], "ms for a token, 1 ms are asked for"), (["10T"], "GiB, the largest (p5.48xlarge) has")],
)
def test_where_no_type_will_do_it_says_which_numbers_clash(wish: list[str], why: str) -> None:
    answer = CliRunner().invoke(command, ["instance", "--params", *wish])
    assert (answer.exit_code, why in answer.stdout) == (0, True), answer.stdout
