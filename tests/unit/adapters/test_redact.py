"""Secrets never reach a log, whatever form they come in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from dure.adapters.redact import BLOT, guard_logs, know, redact
from dure.adapters.store import open_store
from dure.model.errors import InvalidInput

SECRET = "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1"


@pytest.fixture
def guarded() -> Iterator[None]:
    before = structlog.get_config()["processors"]
    guard_logs()
    guard_logs()
    yield
    structlog.configure(processors=before)


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"dure_0123456789ab_{SECRET}",
        f"GET /login?code={SECRET}&next=/",
        f"postgresql://dure:{SECRET}@db.internal:5432/dure",
        f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\n-----END EC PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_blotted_out(text: str) -> None:
    assert SECRET not in redact(text)
    assert BLOT in redact(text)


@pytest.mark.parametrize("text", ["seoul/h100 has 3 free", "http://127.0.0.1:7420/v1/status", "train-1 at 10:20:30"])
def test_plain_words_stay(text: str) -> None:
    assert redact(text) == text


def test_a_log_line_and_its_traceback_hold_no_secret(guarded: None, capsys: pytest.CaptureFixture[str]) -> None:
    know("a-token-without-any-form")
    log = structlog.get_logger("test")
    try:
        raise ValueError(f"cannot use a-token-without-any-form at http://u:{SECRET}@h")
    except ValueError:
        log.exception("failed", header=f"Bearer {SECRET}", also="a-token-without-any-form")
    told = capsys.readouterr()
    assert "failed" in told.out + told.err
    assert SECRET not in told.out + told.err
    assert "a-token-without-any-form" not in told.out + told.err


def test_a_traceback_tells_where_but_not_what_the_variables_held(
    guarded: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(environment: dict[str, str]) -> None:
        raise KeyError("no such place")

    held = {"DATABASE_PASSWORD": "-".join(["correct", "horse"])}
    try:
        fail(held)
    except KeyError as error:
        structlog.get_logger("test").error("turn failed", exc_info=error)
    told = capsys.readouterr().out
    assert "no such place" in told
    assert "in fail" in told
    assert held["DATABASE_PASSWORD"] not in told


def test_a_database_that_cannot_be_opened_does_not_tell_its_password() -> None:
    with pytest.raises(InvalidInput) as caught:
        open_store(f"oracle://dure:{SECRET}@db/x")
    assert SECRET not in str(caught.value)
