"""What mkdocs calls while it builds: pages made from the code join those of `docs`, links beyond `docs` are led on.

Named in `mkdocs.yml`. Nothing generated is kept in the checkout, so nothing can be out of date. Design pages, the
walk through the code and the examples are carried into the site; a link to a source file becomes its name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from handbook import commands, configuration, decisions, endpoints, figures, reasons

ROOT = Path(__file__).resolve().parents[1]
MADE: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/endpoints.md": endpoints.page,
    "reference/configuration.md": configuration.page,
    "reference/figures.md": figures.page,
    "reference/reasons.md": reasons.page,
    "designs/index.md": decisions.page,
}
# Where a file of the checkout, outside of `docs`, is found in the site.
PAGES = {"ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
FOLDERS = ("designs", "examples")
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, make in MADE.items():
        files.append(File.generated(config, path, content=make()))
    for source, path in carried().items():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links are written as they are right in the checkout; in the site some places are elsewhere."""
    here = page.file.src_uri
    source = {path: name for name, path in carried().items()}.get(here, f"docs/{here}")
    if here in MADE:
        return markdown
    return _LINK.sub(lambda found: _led(found, source, here), markdown)


def carried() -> dict[str, str]:
    """Files of the checkout that are part of the site, and where they are there."""
    return PAGES | {path: path for folder in FOLDERS for path in _below(folder)}


def _below(folder: str) -> Iterator[str]:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.is_file() and path.suffix in (".md", ".yaml", ".py", ".toml") and "__pycache__" not in path.parts:
            yield path.relative_to(ROOT).as_posix()


def _led(found: re.Match[str], source: str, here: str) -> str:
    target = found["target"]
    if "://" in target or target.startswith("mailto:"):
        return found[0]
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    there = _place(wanted)
    if there is None:
        # Source files are not part of the site.
        return f"`{wanted}`" if wanted.endswith(found["text"].strip("`")) else f"{found['text']} (`{wanted}`)"
    led = posixpath.relpath(there, posixpath.dirname(here) or ".")
    return f"[{found['text']}]({led}{found['anchor'] or ''})"


def _place(wanted: str) -> str | None:
    """Where a path of the checkout is in the site, if it is there."""
    if wanted in ("docs", "README.md"):
        return "index.md"
    if wanted.startswith("docs/"):
        inside = wanted.removeprefix("docs/")
        return f"{inside}/index.md" if (ROOT / wanted).is_dir() else inside
    if wanted == "designs":
        return "designs/index.md"
    if (ROOT / wanted).is_dir():
        return f"{wanted}/README.md" if f"{wanted}/README.md" in carried() else None
    return carried().get(wanted)
