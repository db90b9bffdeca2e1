"""The runbook in the docs says what the alerts say."""

from __future__ import annotations

from pathlib import Path

import pytest

from dure.cli.registry import ALIASES, COMMANDS
from dure.manifest.render.alerts import DEVICES, DURE, NODES, PROMISES, SERVING, Alert

ALL = (*PROMISES, *SERVING, *DEVICES, *NODES, *DURE)
PAGE = (Path(__file__).parents[3] / "docs" / "runbook.md").read_text()


@pytest.mark.parametrize("alert", ALL, ids=lambda alert: alert.name)
def test_the_page_has_cause_check_and_remedy_of_every_alert(alert: Alert) -> None:
    section = PAGE.split(f"### {alert.name}\n")[1].split("\n#")[0]
    for text in (alert.summary, alert.cause, alert.check, alert.remedy):
        assert text in section


def test_the_page_has_no_alert_that_is_gone() -> None:
    assert PAGE.count("### ") == len(ALL)


def test_every_command_of_ours_in_a_runbook_exists() -> None:
    known = {*COMMANDS, *ALIASES}
    for alert in ALL:
        for text in (alert.check, alert.remedy):
            for after in text.split("dure ")[1:]:
                assert after.split()[0].rstrip(";,.") in known, text
