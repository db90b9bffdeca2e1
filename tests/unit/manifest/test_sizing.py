"""Right-sizing by arithmetic: memory decides what fits, rooflines what it does, prices what is first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.cli.advise import LADDER, _matching
from dure.files.builtin import catalogue, instances
from dure.manifest.sizing import USABLE_MEMORY, Ask, advise
from dure.model.offer import InstanceOffer

CLASSES = catalogue().classes
LADDER_OFFERS = _matching(instances(), LADDER)


def ask(billions: float, rate: float = 3.0, weight_bytes: float = 2.0, context: int = 8192) -> Ask:
    return Ask(billions * 1e9, weight_bytes, context, rate)


@pytest.mark.parametrize(
    ("billions", "family"),
    [(1.5, "g5"), (3, "g5"), (7, "g5"), (13, "p4d"), (30, "p4d"), (40, "p4d"), (70, "p5"), (72, "p5"), (180, "p5")],
)
def test_the_usual_ladder_comes_out_of_the_arithmetic(billions: float, family: str) -> None:
    first = advise(ask(billions), LADDER_OFFERS, CLASSES)[0]
    assert first.instance.partition(".")[0] == family


def test_shapes_of_models_are_near_the_published_ones() -> None:
    assert [ask(size).layers for size in (7, 13, 70)] == pytest.approx([32, 40, 80], rel=0.15)
    assert ask(7).cache_gib == pytest.approx(1.0, rel=0.1), "128 KiB a token with 8 key-value heads of 128"


def test_quantised_weights_fit_where_full_ones_do_not() -> None:
    small = [offer for offer in instances() if offer.name == "g5.xlarge"]
    assert advise(ask(13), small, CLASSES) == []
    assert advise(ask(13, weight_bytes=1), small, CLASSES) != []


@given(
    billions=st.floats(0.5, 400),
    rate=st.floats(0.1, 50),
    weight_bytes=st.sampled_from([0.5, 1.0, 2.0]),
    context=st.sampled_from([1024, 8192, 32768]),
)
def test_advice_keeps_within_memory_and_meets_the_rate(
    billions: float, rate: float, weight_bytes: float, context: int
) -> None:
    found = advise(ask(billions, rate, weight_bytes, context), instances(), CLASSES)
    assert found == sorted(found, key=lambda each: each.usd_per_million)
    for each in found:
        assert each.used_gib <= each.device_gib * USABLE_MEMORY + 1e-6
        assert each.instances * each.requests_per_s >= rate * (1 - 1e-6)
        assert each.step_s <= 0.1


def test_a_faster_link_never_makes_it_dearer() -> None:
    [slow] = [offer for offer in instances() if offer.name == "g5.48xlarge"]
    fast = InstanceOffer(**{**{name: getattr(slow, name) for name in slow.__struct_fields__}, "link_gbs": 300.0})
    assert advise(ask(70), [fast], CLASSES)[0].usd_per_h <= advise(ask(70), [slow], CLASSES)[0].usd_per_h
