"""Quantities as Kubernetes writes them, and nothing else."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dure.manifest.quantity import quantity
from dure.model.errors import InvalidInput
from dure.model.quantity import amount, count, mib, mib_down, milli


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", "8"), ("500m", "0.5"), ("2Gi", str(2**31)), ("1e3", "1000"), ("1E", "1e18"), (".5", "0.5"), ("5.", "5")],
)
def test_every_way_of_writing_one_is_read(text: str, value: str) -> None:
    assert amount(text) == Decimal(value)
    assert quantity(text) == float(Decimal(value))


@pytest.mark.parametrize("text", ["", "Gi", "NaN", "Infinity", "1e999999999", "1 Gi", "0x10", "1KiB"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a Kubernetes quantity"):
        amount(text)
    assert quantity(text) is None


def test_requests_are_rounded_up_and_what_is_there_down() -> None:
    assert (milli("1u"), mib("1"), mib_down("1Mi"), mib_down("1048575")) == (1, 1, 1, 0)
    assert (milli("1"), milli("2500m"), milli("0.0001")) == (1000, 2500, 1)
    assert (mib("2Gi"), mib("1048577"), mib_down("2Gi"), count("7")) == (2048, 2, 2048, 7)
