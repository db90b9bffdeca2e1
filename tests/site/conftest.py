"""The documentation, built once for all its tests."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parents[2]


class Site:
    """A built site; `text` is what a reader sees of a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def html(self, page: str) -> str:
        return (self.folder / page / "index.html").read_text("utf-8")

    def text(self, page: str) -> str:
        found = re.search(r"<article.*?</article>", self.html(page), re.DOTALL)
        assert found is not None
        return html.unescape(re.sub(r"<[^>]+>", "", found[0]))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Built as `mkdocs build --strict` does, in this process: what the code was asked once is not asked again."""
    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    build(config)
    return Site(folder)
