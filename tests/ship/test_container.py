"""The container file, read as a builder reads it. What it makes is started by `tests/lab/test_image.py`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from dure.adapters.kube import rbac

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {"ARG", "FROM", "ENV", "COPY", "RUN", "LABEL", "USER", "WORKDIR", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


class Step(NamedTuple):
    word: str
    rest: str


def steps() -> list[Step]:
    text = (ROOT / "Containerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [Step(*re.split(r"\s+", line.strip(), maxsplit=1)) for line in joined.splitlines() if line.strip()]


def last(word: str) -> str:
    return [step.rest for step in steps() if step.word == word][-1]


def variables() -> dict[str, str]:
    """Of the image itself, which is what comes after the last FROM."""
    found = steps()
    start = max(index for index, step in enumerate(found) if step.word == "FROM")
    return dict(
        pair.split("=", 1)
        for step in found[start:]
        if step.word == "ENV"
        for pair in re.findall(r"\S+=\S+", step.rest)
    )


def test_only_known_instructions_are_used_and_the_base_is_an_argument() -> None:
    assert {step.word for step in steps()} <= KNOWN
    assert steps()[0] == Step("ARG", "BASE=python:3.11-slim")
    assert {step.rest.split()[0] for step in steps() if step.word == "FROM"} == {"${BASE}"}


def test_it_runs_as_nobody_with_the_identity_that_the_manifests_give_it() -> None:
    assert last("USER") == f"{rbac.NOBODY['runAsUser']}:{rbac.NOBODY['runAsGroup']}"
    words = [step.word for step in steps()]
    assert "RUN" not in words[len(words) - words[::-1].index("USER") :], "nothing is done after root is left"


def test_it_writes_only_where_the_manifests_mount_something() -> None:
    found = variables()
    assert found["HOME"] == found["DURE_STATE"] == last("WORKDIR") == rbac.STATE
    assert found["NUMBA_CACHE_DIR"].startswith("/tmp/"), "compiled kernels need a place beside a read-only root"
    assert found["PYTHONDONTWRITEBYTECODE"] == "1"


def test_every_dependency_is_pinned_by_its_digest_and_dure_is_the_published_wheel() -> None:
    installs = [
        each for step in steps() if step.word == "RUN" for each in re.findall(r"pip install ([^&]*)", step.rest)
    ]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "--no-deps --no-index" in installs[1]


def test_whatever_is_copied_is_let_into_the_context() -> None:
    allowed = {
        line[1:] for line in (ROOT / ".containerignore").read_text("utf-8").splitlines() if line.startswith("!")
    }
    copied = {
        source
        for step in steps()
        if step.word == "COPY" and not step.rest.startswith("--from")
        for source in step.rest.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied if "*" not in source)


def test_it_is_called_as_the_command_itself() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["dure"]
    assert json.loads(last("CMD"))[0] == "up"
