"""Pytest fixtures on real clusters, for the tests of every package.

A plugin: `tests/conftest.py` names it in `pytest_plugins`. One lab with a hub and two members is shared by the whole
session (`hub`, `members`); `lab_factory` starts others for tests that kill things. Tests that use these carry the
marker `lab`; without Go, or with `DURE_LAB=0`, they are skipped with one line that says why. Those that need more
than `make test` builds say so with `parts("prometheus", ...)` and are skipped where that is not built yet; those with
the marker `full` take many minutes and run in `make test-full` alone (`DURE_FULL=1`), which builds everything.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from lab.build import go_problem, lacking
from lab.cluster import Cluster
from lab.lab import Lab
from lab.node import why_no_real_node

LabFactory = Callable[..., Lab]


# First, because pytest-xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a lab run on one worker; where there can be none they are skipped."""
    chosen = [item for item in items if item.get_closest_marker("lab")]
    if not chosen:
        return
    reason = why_no_lab()
    absent = set() if reason or everything() else _absent(chosen)
    for item in chosen:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item)))
        if why := reason or _why_later(item, absent):
            item.add_marker(pytest.mark.skip(reason=why))


def _group(item: pytest.Item) -> str:
    """The shared lab is one for the session; other labs live no longer than the module that starts them."""
    shared = "shared_lab" in getattr(item, "fixturenames", ())
    return "lab" if shared else item.nodeid.partition("::")[0]


def everything() -> bool:
    """Whether this is `make test-full`."""
    return os.environ.get("DURE_FULL") == "1"


_no_real_node = functools.cache(why_no_real_node)


def _absent(items: list[pytest.Item]) -> set[str]:
    """What some test wants and `make test` does not build."""
    return set(lacking({part for item in items for part in _parts(item)}))


def _parts(item: pytest.Item) -> tuple[str, ...]:
    marker = item.get_closest_marker("parts")
    return marker.args if marker else ()


def _why_later(item: pytest.Item, absent: set[str]) -> str | None:
    if item.get_closest_marker("real_node") and (problem := _no_real_node()):
        return f"tests on real nodes are left out: {problem}"
    if item.get_closest_marker("full") and not everything():
        return "takes many minutes: only in `make test-full`"
    missing = sorted(absent & set(_parts(item)))
    return f"not built yet, `make test-full` does it: {', '.join(missing)}" if missing else None


def why_no_lab() -> str | None:
    """The one line that tells what is skipped and why; None when the lab is there."""
    if os.environ.get("DURE_LAB") == "0":
        return "tests on real clusters are left out: LAB=0"
    problem = go_problem()
    return f"tests on real clusters are left out: {problem}" if problem else None


# Labs that a session or a test started, so that a failure can keep their logs.
_LABS = pytest.StashKey[list[Lab]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """After a failure the logs of every lab the test could see are worth keeping."""
    report = yield
    if report.failed and item.get_closest_marker("lab"):
        for lab in (*item.stash.get(_LABS, ()), *item.session.stash.get(_LABS, ())):
            lab.keep = True
    return report


@pytest.fixture(scope="session")
def shared_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A hub and two members, for tests that leave them as they found them."""
    with Lab(["hub", "a", "b"]) as lab:
        request.session.stash[_LABS] = [lab]
        yield lab


@pytest.fixture(scope="session")
def hub(shared_lab: Lab) -> Cluster:
    return shared_lab["hub"]


@pytest.fixture(scope="session")
def members(shared_lab: Lab) -> list[Cluster]:
    return [shared_lab["a"], shared_lab["b"]]


@pytest.fixture
def lab_factory(request: pytest.FixtureRequest) -> Iterator[LabFactory]:
    """Start labs of one's own; they end with the test."""
    labs: list[Lab] = request.node.stash.setdefault(_LABS, [])
    with contextlib.ExitStack() as stack:

        def start(*args: Any, **kwargs: Any) -> Lab:
            lab = stack.enter_context(Lab(*args, **kwargs))
            labs.append(lab)
            return lab

        yield start
