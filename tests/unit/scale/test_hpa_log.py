"""What the comparison with the real autoscaler reads out of its log."""

from __future__ import annotations

import datetime
from pathlib import Path

from dure.scale.hpa.normalize import HpaState, ScaleEvent
from tests.kube.hpa_log import Decision, SharedLog, decisions, remembered

LOG = """\
I1116 10:22:01.000100 77 horizontal.go:907] "Proposing desired replicas" desiredReplicas=10 metric="x" scaleTarget="D"
I1116 10:22:01.200000 77 horizontal.go:981] "Successfully rescaled" HPA="n/h" currentReplicas=4 desiredReplicas=8
I1116 10:22:02.000000 77 garbagecollector.go:9] "Decided not to scale" desiredReplicas=1
I1116 10:22:03.000000 77 horizontal.go:907] "Proposing desired replicas" desiredReplicas=5 metric="x"
I1116 10:22:04.000000 77 horizontal.go:907] "Proposing desired replicas" desiredReplicas=6 metric="x"
I1116 10:22:04.000500 77 horizontal.go:1008] "Decided not to scale" scaleTarget="D" desiredReplicas=8 lastScaleTime=""
"""


def _at(second: float) -> float:
    begin = datetime.datetime(2026, 11, 16, 10, 22).timestamp()  # noqa: DTZ001 -- the log has local time
    return begin + second


def test_a_decision_has_the_moment_of_its_proposal_and_that_of_its_end() -> None:
    first, _ = decisions(LOG, 2026)
    assert (first.proposed, first.replicas) == (10, 8)
    assert (round(first.begin_s - _at(0), 6), round(first.end_s - _at(0), 6)) == (1.0001, 1.2)


def test_a_proposal_whose_write_failed_and_lines_of_others_are_no_decisions() -> None:
    assert decisions(LOG, 2026)[1:] == [Decision(6, 8, _at(4.0), _at(4.0005))]


def test_a_proposal_from_zero_is_one_too() -> None:
    text = LOG.replace(
        '"Proposing desired replicas" desiredReplicas=10', '"Proposing desired replicas from zero" desiredReplicas=10'
    )
    assert decisions(text, 2026) == decisions(LOG, 2026)


MANY = """\
I1116 10:22:01.000100 77 horizontal.go:907] "Proposing desired replicas" desiredReplicas=9 scaleTarget="D/n/a"
I1116 10:22:01.000200 77 horizontal.go:907] "Proposing desired replicas" desiredReplicas=3 scaleTarget="D/n/b"
I1116 10:22:01.200000 77 horizontal.go:981] "Successfully rescaled" HPA="n/a" currentReplicas=4 desiredReplicas=8
"""
REST = """\
I1116 10:22:02.000000 77 horizontal.go:1008] "Decided not to scale" scaleTarget="D/n/b" desiredReplicas=3
"""


def test_of_many_autoscalers_each_gets_its_own_decisions_also_one_that_another_asked_in_the_middle_of(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_text("")
    log = SharedLog(path)
    path.write_text(MANY)
    assert [(one.proposed, one.replicas) for one in log.take("a")] == [(9, 8)]
    with path.open("a") as file:
        file.write(REST)
    assert [(one.proposed, one.replicas) for one in log.take("b")] == [(3, 3)]
    assert log.take("a") == log.take("b") == []


def test_a_change_is_remembered_from_the_moment_of_its_write() -> None:
    before = HpaState(ups=(ScaleEvent(2, 5.0), ScaleEvent(1, 9.0)))
    assert remembered(before, 9.0, 9.4).ups == (ScaleEvent(2, 5.0), ScaleEvent(1, 9.4))
