"""Dure's autoscaler decides what the real controller decides; `make agree` plays the same for a thousand ticks."""

from __future__ import annotations

import pytest

from lab.fixtures import LabFactory
from tests.kube.hpa_agreement import LAB_FLAGS, play
from tests.kube.hpa_traces import traces

pytestmark = [pytest.mark.lab, pytest.mark.slow]

TICKS = 5


def test_every_decision_of_ten_real_autoscalers_is_foreseen(lab_factory: LabFactory) -> None:
    lab = lab_factory(["test"], off={"test": {"kube-scheduler", "kwok"}}, flags={"test": LAB_FLAGS})
    ticks = play(lab["test"], traces(), TICKS)
    assert len(ticks) == len(traces()) * TICKS
    assert any(tick.real[0] != tick.before for tick in ticks)
    assert [tick for tick in ticks if tick.sure and (tick.differs or tick.told_otherwise)] == []
