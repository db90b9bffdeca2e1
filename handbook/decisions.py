"""The list of design pages: decisions that were hard, each with what else was possible."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAD = """\
# Decisions

One page for each decision that was hard: context, choice, alternatives, consequences.
"""


def page() -> str:
    lines = [f"- [{_title(path)}]({path.name})" for path in sorted((ROOT / "designs").glob("[0-9]*.md"))]
    return HEAD + "\n" + "\n".join(lines) + "\n"


def _title(path: Path) -> str:
    """The number of the file and the words of its first line, which may have the number too."""
    words = re.sub(r"^#\s*\d*[.:]?\s*", "", path.read_text("utf-8").splitlines()[0])
    return f"{path.name[:4]} {words}"
