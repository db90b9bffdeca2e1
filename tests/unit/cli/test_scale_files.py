"""Files of `dure scale pool` and `dure scale nodes`: what they mean, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from dure.cli.scale_nodes import read_pools, read_rules
from dure.cli.scale_pool import read_pool
from dure.model.errors import InvalidInput
from dure.scale.nodes.lifecycle import Schedule

NODES = """
pools:
  - name: gpu
    types: [g5.xlarge]
    zones: [a, b]
    spot: 0.5
    overhead: {cpu: 500m, memory: 1Gi}
    budgets: [{nodes: "0", schedule: "0 9 * * 1-5", hours: 8, timezone: Asia/Seoul}]
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "file.yaml"
    file.write_text(text)
    return file


def test_spot_is_a_part_of_the_price_in_every_zone(tmp_path: Path) -> None:
    (pool,) = read_pools(written(tmp_path, NODES))
    assert [(offer.capacity, offer.zone) for offer in pool.offers] == [
        ("on-demand", "a"),
        ("spot", "a"),
        ("on-demand", "b"),
        ("spot", "b"),
    ]
    assert pool.offers[1].price * 2 == pool.offers[0].price
    assert pool.overhead == (0, 500, 1024)


def test_a_budget_keeps_its_schedule_and_zone(tmp_path: Path) -> None:
    (budget,) = read_rules(written(tmp_path, NODES))["gpu"].budgets
    assert (budget.schedule, budget.duration_s, budget.timezone) == ("0 9 * * 1-5", 28_800.0, "Asia/Seoul")


def test_template_and_hours_are_read(tmp_path: Path) -> None:
    hours = "off_hours: [{schedule: 0 20 * * *, hours: 11, nodes: 1, timezone: Asia/Seoul}]"
    rules = read_rules(written(tmp_path, f"pools: [{{name: gpu, types: [g5.xlarge], template: v2, {hours}}}]"))["gpu"]
    assert rules.template == "v2"
    assert rules.schedules == (Schedule("0 20 * * *", 39_600.0, 1, "Asia/Seoul"),)
    for wrong in ("schedule: 0 20 * * *, hours: 11, nodes: -1", "schedule: '', hours: 0", "schedule: now, hours: 1"):
        with pytest.raises(InvalidInput):
            read_rules(written(tmp_path, f"pools: [{{name: gpu, types: [g5.xlarge], off_hours: [{{{wrong}}}]}}]"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pools: [{name: gpu, types: [g5.tiny]}]", "no instance type 'g5.tiny'"),
        ("pools: [{name: gpu, types: [g5.xlarge], colour: red}]", "colour"),
        ("pools: {", "not node pools"),
    ],
)
def test_wrong_node_pools_are_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as error:
        read_pools(written(tmp_path, text))
    assert "file.yaml" in str(error.value)


def test_a_schedule_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cron"):
        read_rules(written(tmp_path, NODES.replace("0 9 * * 1-5", "every day")))


def test_a_pool_file_says_who_shares(tmp_path: Path) -> None:
    text = "{name: chat, elastic: 2, services: {a: {primary: 3, min: 2}, b: {primary: 4, priority: 1}}}"
    pool = read_pool(written(tmp_path, text))
    assert pool.group.primary == {"a": 3, "b": 4}
    assert (pool.services["a"].replicas.min, pool.services["b"].replicas.max) == (2, 100)
    with pytest.raises(InvalidInput, match="elastic"):
        read_pool(written(tmp_path, "{name: chat, services: {}}"))
