"""The documents that newcomers read first: their links exist, their commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dure.cli.registry import ALIASES, COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("designs/*.md"), *ROOT.glob("examples/*.md")]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_code_block_exists(page: Path) -> None:
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    called = {word for block in blocks for word in re.findall(r"^\$? ?dure ([a-z]+)", block, re.MULTILINE)}
    assert called <= {*COMMANDS, *ALIASES}


def test_the_loop_of_the_plane_stays_under_a_hundred_lines() -> None:
    assert len((ROOT / "src/dure/plane/loop.py").read_text(encoding="utf-8").splitlines()) < 100
