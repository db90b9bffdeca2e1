"""`dure report`: one file without a network, figures as the ledger has them, a saving that was measured."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from dure.adapters.memory.stream import standing
from dure.cli.client import Client
from dure.cli.report_data import Found, collect, length_s, replayed_savings
from dure.cli.report_page import write_page
from dure.files.builtin import catalogue, demo_fleet
from dure.model.errors import InvalidInput
from dure.model.workload import Phase, Workload, WorkloadRecord, WorkloadStatus

NOW_S = 1_780_000_000.0
HOSTILE = "<script>alert(1)</script>"


class Answers:
    """A client that answers from memory."""

    def __init__(self, workloads: tuple[WorkloadRecord, ...] = ()) -> None:
        self.workloads = workloads
        where = {"day": "2026-05-28", "cluster": "seoul", "pool": "h100"}

        def row(account: str, micros: int, hours: float) -> dict[str, Any]:
            return {
                "by": {**where, "account": account},
                "micros": micros,
                "carbon_g": micros / 1e6,
                "device_hours": hours,
            }

        budget = {"workload": "chat", "tenant": HOSTILE, "level": "page",
                  "state": {"attained": 0.9, "target": 0.99, "left": -9.0, "burns": []}}  # fmt: skip
        self.known: dict[str, Any] = {
            "/v1/status": {"name": "demo", "now_s": NOW_S, "currency": "KRW", "demo": True},
            "/v1/waste": {"items": [
                {"cluster": "seoul", "pool": "h100", "cause": "idle", "micros": 6_000_000, "carbon_g": 6.0,
                 "device_hours": 6.0, "part": 0.6, "advice": "Fewer nodes"}]},
            "/v1/slo": {"items": [budget]},
            "/v1/drift": {"items": [{"what": "duration", "group": "chat on h100", "pairs": 20, "bias": 0.5,
                                     "error": 0.5, "within_20": 0.1}]},
            "/v1/anomalies": {"items": [{"since_s": NOW_S, "thing": "chat", "evidence": "is off"}]},
            "/v1/ledger": {"paid_micros": 10_000_000, "used_micros": 3_000_000, "idle_micros": 6_000_000,
                           "overhead_micros": 1_000_000,
                           "items": [row("paid", 10_000_000, 10), row("used", 3_000_000, 3),
                                     row("idle", 6_000_000, 6),
                                     row("starting", 1_000_000, 1)]},
        }  # fmt: skip

    def get(self, path: str, **params: object) -> Any:
        found = self.known[path]
        if path == "/v1/ledger" and "tenant" in str(params["by"]):
            return {"items": [{**one, "by": {"tenant": "vision", "account": "used"}} for one in found["items"][1:2]]}
        return found

    def items(self, path: str, **params: object) -> list[Any]:
        return [msgspec.to_builtins(one) for one in self.workloads]

    def text(self, path: str, **params: object) -> str:
        return "day,micros\n"


def gathered(answers: Answers) -> Found:
    return collect(cast(Client, answers), "7d")


def test_the_page_says_it_all_without_a_network(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    write_page(page, gathered(Answers()), None)
    text = page.read_text()
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="?(http|//)', text)
    for words in ("30.0 %", "60.0 %", "10.0 %", "Top waste", "Not replayed", "90.00% in time"):
        assert words in text, words


def test_a_name_that_is_a_script_stays_text(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    write_page(page, gathered(Answers()), None)
    assert HOSTILE not in page.read_text()


def test_advice_comes_with_its_numbers_broken_promises_first() -> None:
    sentences = [one.sentence for one in gathered(Answers()).advice]
    assert sentences[0] == "chat answered 90.00% in time, 99.00% were promised"
    assert any("used to 30%" in one for one in sentences)
    assert any("50% more than predicted" in one for one in sentences)


def test_the_saving_is_of_what_both_worlds_got_done() -> None:
    fleet, known = demo_fleet(), catalogue()
    template = known.templates["embed-corpus"]
    jobs = [
        msgspec.structs.replace(template, name=f"job-{number}", tenant=fleet.tenants[0].name) for number in range(4)
    ]
    records = [_record(one, NOW_S - 3600) for one in (*jobs, *standing(fleet, known)[:1])]
    answers = Answers(tuple(records))
    told: list[float] = []
    found = replayed_savings(cast(Client, answers), gathered(answers), None, 1, told.append)
    assert found is not None
    assert found.workloads == found.compared == 5
    assert found.fixed.cost_micros > 0
    assert found.part == pytest.approx(1 - found.dure.cost_micros / found.fixed.cost_micros)
    assert told == sorted(told)


def test_nothing_submitted_is_nothing_to_replay() -> None:
    answers = Answers()
    assert replayed_savings(cast(Client, answers), gathered(answers), None, 1, lambda _: None) is None


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "9999d", "soon"])
def test_what_is_no_length_of_time_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"length of time|between"):
        length_s(text)


def _record(spec: Workload, at_s: float) -> WorkloadRecord:
    return WorkloadRecord(f"uid-{spec.name}", spec, WorkloadStatus(phase=Phase.RUNNING, submitted_s=at_s))
