"""Known holes of the locked dependencies, from the page that a package registry has for each package.

`make audit-deps` asks pip-audit, whose service wants a page for each release. A mirror often has one for each package
only, and that one tells the holes of its newest release; so locked releases that are the newest can be judged by it.
The others are named: nothing is known about them here. Run by `make audit-newest`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9_.-]*)==([^\s;\\]+)", re.MULTILINE)
_AT_ONCE = 4
_PATIENCE_S = 60.0
Page = Callable[[str], Mapping[str, Any] | None]


class Verdict(NamedTuple):
    """`holes` is None where the registry has nothing to say about the locked release."""

    name: str
    locked: str
    newest: str
    holes: tuple[str, ...] | None


def pinned(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Every name with its version; one package may be locked to several, for several interpreters."""
    return sorted({pair for text in texts for pair in _PINNED.findall(text)})


def judge(name: str, locked: str, page: Page) -> Verdict:
    """The page of the release if there is one, else that of the package."""
    found = page(f"{name}/{locked}/json") or page(f"{name}/json")
    newest = str(found["info"]["version"]) if found else ""
    if found is None or newest != locked:
        return Verdict(name, locked, newest, None)
    told = (one for one in found["vulnerabilities"] if not one.get("withdrawn"))
    return Verdict(name, locked, newest, tuple(str(one["id"]) for one in told))


def fetch(registry: str, path: str) -> Mapping[str, Any] | None:
    try:
        with urllib.request.urlopen(f"{registry.rstrip('/')}/{path}", timeout=_PATIENCE_S) as answer:
            found: Mapping[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="locked requirements")
    parser.add_argument("--registry", required=True, help="address below which NAME/json is the page of a package")
    asked = parser.parse_args()
    locked = pinned(path.read_text("utf-8") for path in asked.files)
    page = partial(fetch, asked.registry)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        verdicts = list(pool.map(lambda each: judge(each[0], each[1], page), locked))
    unknown = [one for one in verdicts if one.holes is None]
    holed = [one for one in verdicts if one.holes]
    for one in holed:
        print(f"{one.name} {one.locked}: {', '.join(one.holes or ())}")
    for one in unknown:
        print(f"{one.name} {one.locked}: not judged, the newest is {one.newest or 'not known here'}")
    print(f"{len(verdicts)} releases: {len(holed)} with known holes, {len(unknown)} not judged")
    sys.exit(bool(holed))


if __name__ == "__main__":
    main()
