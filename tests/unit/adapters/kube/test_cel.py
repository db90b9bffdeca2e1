"""Device selectors: what is understood means what CEL says; what is not is refused, never guessed."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dure.adapters.kube.cel import Unsupported, Version, compile_selector, matches

DEVICE = {
    "driver": "gpu.example.com",
    "attributes": {
        "gpu.example.com": {"model": "A100", "index": 3, "healthy": True, "firmware": Version("1.2.3")},
        "vendor.example.com": {"uuid": "GPU-1"},
    },
    "capacity": {"gpu.example.com": {"memory": Decimal(80 * 2**30)}},
}
GPU = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('device.driver == "gpu.example.com"', True),
        ("device.driver == 'other'", False),
        (f'{GPU}.model == "A100"', True),
        (f'{GPU}.model != "A100"', False),
        (f'{GPU}.model in ["H100", "A100"]', True),
        (f'{GPU}.model.startsWith("A1") && {GPU}.index >= 3', True),
        (f'{GPU}.model.lowerAscii() == "a100"', True),
        (f'{GPU}.model.endsWith("00") && {GPU}.model.contains("10")', True),
        (f"{GPU}.healthy", True),
        (f"!{GPU}.healthy", False),
        (f"{GPU}.index > -1 && ({GPU}.index < 3 || {GPU}.index == 3)", True),
        (f'{MEMORY}.compareTo(quantity("40Gi")) >= 0', True),
        (f'{MEMORY}.isGreaterThan(quantity("80Gi"))', False),
        (f'{MEMORY}.isLessThan(quantity("81Gi"))', True),
        (f'{MEMORY} == quantity("80Gi")', True),
        (f'"model" in {GPU}', True),
        ('"gpu.example.com" in device.attributes', True),
        (f"has({GPU}.model) && !has({GPU}.colour)", True),
        ('device.attributes["vendor.example.com"].uuid == "GPU-1"', True),
        ('"a \\"quoted\\" text" == "other"', False),
    ],
)
def test_what_is_understood_means_what_cel_says(text: str, wanted: bool) -> None:
    assert matches(compile_selector(text), DEVICE) is wanted


@pytest.mark.parametrize(
    "text",
    [
        f'{GPU}.colour == "red"',
        f'!({GPU}.colour == "red")',
        'device.attributes["unknown"].model == "A100"',
        f'{GPU}.index == "3"',
        f'{GPU}.firmware == "1.2.3"',
        f'{GPU}.model == "A100" && {GPU}.colour == "red"',
        f"{GPU}.index",
        f'{MEMORY}.compareTo(quantity("much")) >= 0',
    ],
)
def test_a_value_that_is_missing_or_of_another_kind_does_not_match(text: str) -> None:
    assert not matches(compile_selector(text), DEVICE)


def test_a_side_that_decides_makes_up_for_one_without_a_value() -> None:
    assert matches(compile_selector(f'{GPU}.colour == "red" || {GPU}.healthy'), DEVICE)
    assert matches(compile_selector(f'!({GPU}.colour == "red" && false)'), DEVICE)


@pytest.mark.parametrize(
    "text",
    [
        f'{GPU}.model.matches("A.*")',
        'semver("1.2.3") == semver("1.2.3")',
        f"{GPU}.index + 1 == 4",
        f"{GPU}.healthy ? true : false",
        f"cel.bind(x, {GPU}.index, x == 3)",
        "node.name == 'a'",
        "device.driver ==",
        "(true",
        "true true",
        f"{GPU}.model.startsWith()",
        '"line\\nbreak" == "x"',
        "1.5 > 1",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compile_selector(text)
