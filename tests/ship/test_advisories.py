"""What is said of locked releases when a registry has a page for each package only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.advisories import Verdict, judge, pinned

ROOT = Path(__file__).resolve().parents[2]
HOLE = {"id": "PYSEC-2026-1", "withdrawn": None}


def page(version: str, *holes: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"info": {"version": version}, "vulnerabilities": list(holes)}


def test_every_locked_release_is_found_with_its_version() -> None:
    found = pinned([(ROOT / "requirements/run.txt").read_text("utf-8")])
    assert "msgspec" in dict(found)
    assert all(version[0].isdigit() for _, version in found)
    text = "a==1.0 ; python_version < '3.12' \\\n    --hash=sha256:0\na==2 ; python_version >= '3.12'\nb-c==2\n"
    assert pinned([text, "b-c==2"]) == [("a", "1.0"), ("a", "2"), ("b-c", "2")]


def test_the_page_of_a_release_goes_before_that_of_its_package() -> None:
    pages = {"a/1/json": page("1", HOLE), "a/json": page("2")}
    assert judge("a", "1", pages.get) == Verdict("a", "1", "1", ("PYSEC-2026-1",))


def test_the_newest_release_is_judged_by_its_packages_page() -> None:
    pages = {"a/json": page("2", HOLE, {"id": "PYSEC-2026-2", "withdrawn": "2026-02-01"})}
    assert judge("a", "2", pages.get).holes == ("PYSEC-2026-1",)
    assert judge("b", "2", {"b/json": page("2")}.get).holes == ()


def test_nothing_is_claimed_of_an_older_release_or_an_unknown_package() -> None:
    assert judge("a", "1", {"a/json": page("2")}.get) == Verdict("a", "1", "2", None)
    assert judge("a", "1", lambda _: None) == Verdict("a", "1", "", None)
