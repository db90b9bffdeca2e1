"""The files of the dashboard, read once, each with its media type and its digest.

Only what is listed here is ever served, so no path of a request reaches the disk.
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib import resources
from typing import NamedTuple

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asset(NamedTuple):
    body: bytes
    media_type: str
    digest: str


@functools.cache
def assets() -> dict[str, Asset]:
    """By file name."""
    folder = resources.files("dure.web") / "static"
    return {
        entry.name: _asset(entry.read_bytes(), entry.name)
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.rpartition(".")[2] in _TYPES
    }


@functools.cache
def plotly_script() -> Asset:
    """Five megabytes, hence read only when a browser asks for the page."""
    script = resources.files("plotly") / "package_data" / "plotly.min.js"
    return _asset(script.read_bytes(), "plotly.min.js")


@functools.cache
def plotly_style_markers() -> tuple[str, ...]:
    """Ids under which Plotly looks for a style of its map charts before it writes one into the page.

    The content policy would refuse that style with an error in the console; an element with the id keeps it quiet.
    """
    found = re.findall(rb'getElementById\("([0-9a-f]{64})"\)', plotly_script().body)
    return tuple(sorted({marker.decode() for marker in found}))


def _asset(body: bytes, name: str) -> Asset:
    digest = hashlib.blake2b(body, digest_size=9).hexdigest()
    return Asset(body, _TYPES[name.rpartition(".")[2]], digest)
