"""The tutorial is run: every command of it, in order, against a real `dure up`, and its output compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.conftest import Up
from tests.site.conftest import ROOT

TUTORIAL = ROOT / "docs/tutorial.md"
FENCE = re.compile(r"^```(?P<kind>sh|text)(?P<title>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
# Commands that only ask may be asked again until the fleet has got there.
ASKS = re.compile(r"^(dure (status|get|why|bill|logs|audit) ?[^|]*\n)+$")
MOST_TRIES = 200
# How long something took; a faster machine has seconds where a slower one has minutes.
SPAN = re.compile(r"\d+(?:\.\d+)?[smhd]")


class Block(NamedTuple):
    """Commands, and the lines that they are said to print."""

    commands: str
    lines: tuple[str, ...]
    apart: bool


def blocks(text: str) -> Iterator[Block]:
    found = list(FENCE.finditer(text))
    for fence, after in zip(found, [*found[1:], None], strict=True):
        if fence["kind"] == "sh":
            shown = after["body"] if after is not None and after["kind"] == "text" else ""
            yield Block(
                fence["body"], tuple(line for line in shown.splitlines() if line), "terminal" in fence["title"]
            )


def pattern(line: str) -> re.Pattern[str]:
    """A printed line with any numbers in the place of its numbers, and any span of time in the place of one."""
    return re.compile(r"\s+".join(SPAN.pattern if SPAN.fullmatch(word) else _numbers(word) for word in line.split()))


def _numbers(word: str) -> str:
    found = re.sub(r"\d[\d,.:]*", r"[\\d,.:-]+", re.escape(word).replace(r"\:", ":"))
    return re.sub(r"\\([,.:])", r"\1", found)


def lacking(block: Block, printed: str) -> list[str]:
    return [line for line in block.lines if not pattern(line).search(printed)]


@pytest.mark.xdist_group("up")
def test_every_command_of_the_tutorial_does_what_the_page_says(tmp_path: Path) -> None:
    steps = list(blocks(TUTORIAL.read_text("utf-8")))
    assert len(steps) >= 10
    server: Up | None = None
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "DURE_STATE": str(tmp_path / "state"),
    }
    try:
        for step in steps:
            if step.apart:
                words = shlex.split(step.commands)
                assert words[:2] == ["dure", "up"]
                given = [str(tmp_path / word) if word.endswith(".yaml") else word for word in words[2:]]
                server = Up(tmp_path / "state", "--port", "0", "--speed", "60", *given)
                assert server.url
                continue
            tries = MOST_TRIES if ASKS.match(step.commands) else 1
            _run(step, tmp_path, environment, tries)
    finally:
        if server is not None:
            server.stop()
    assert server is not None


def _run(step: Block, folder: Path, environment: dict[str, str], tries: int) -> None:
    for _ in range(tries):
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step.commands],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{step.commands}\n{done.stdout}{done.stderr}"
        if not (missing := lacking(step, done.stdout + done.stderr)):
            return
    pytest.fail(f"{step.commands}\nnot printed: {missing}\n{done.stdout}{done.stderr}")


def test_numbers_of_a_line_may_differ_and_words_may_not() -> None:
    block = Block("", ("oregon/l4   chosen: 28,858 KRW in all",), apart=False)
    assert lacking(block, "  oregon/l4  chosen: 1,234.5 KRW in all (price 1)") == []
    assert lacking(block, "  oregon/l4  chosen: 1,234.5 USD in all")
    waited = Block("", ("train-1  running  3.1m",), apart=False)
    assert lacking(waited, "train-1 running 54s  0") == []
    assert lacking(waited, "train-1 running long")
