"""The documents that newcomers read first: their links exist, their commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dure.cli.registry import ALIASES, COMMANDS
from handbook.hook import MADE

ROOT = Path(__file__).resolve().parents[2]
# Pages of the site that are made when it is built; only pages of the site may link to them.
BUILT = {ROOT / "docs" / path for path in MADE}
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("designs/*.md"), *ROOT.glob("examples/*.md")]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    there = {link: page.parent / link for link in links if "://" not in link}
    built = BUILT if page.is_relative_to(ROOT / "docs") else set()
    missing = [link for link, path in there.items() if not path.exists() and path.resolve() not in built]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_code_block_exists(page: Path) -> None:
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    called = {word for block in blocks for word in re.findall(r"^\$? ?dure ([a-z]+)", block, re.MULTILINE)}
    assert called <= {*COMMANDS, *ALIASES}


def test_the_loop_of_the_plane_stays_under_a_hundred_lines() -> None:
    assert len((ROOT / "src/dure/plane/loop.py").read_text(encoding="utf-8").splitlines()) < 100
