"""Pytest fixtures on real clusters, for the tests of every package.

A plugin: `tests/conftest.py` names it in `pytest_plugins`. One lab with a hub and two members is shared by the whole
session (`hub`, `members`); `lab_factory` starts others for tests that kill things. Tests that use these carry the
marker `lab`; without Go, or with `DURE_LAB=0`, they are skipped with one line that says why.
"""

import contextlib
import os
from collections.abc import Callable, Generator, Iterator

import pytest

from lab.build import go_problem
from lab.cluster import Cluster
from lab.lab import Lab

LabFactory = Callable[..., Lab]


# First, because pytest-xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lab tests run on one worker, so that they share one lab; where there can be none they are skipped."""
    chosen = [item for item in items if item.get_closest_marker("lab")]
    if not chosen:
        return
    reason = why_no_lab()
    for item in chosen:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("lab"))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def why_no_lab() -> str | None:
    """The one line that tells what is skipped and why; None when the lab is there."""
    if os.environ.get("DURE_LAB") == "0":
        return "tests on real clusters are left out: LAB=0"
    problem = go_problem()
    return f"tests on real clusters are left out: {problem}" if problem else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """After a failure the logs of every lab the test could see are worth keeping."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Lab):
                value.keep = True
        shared = item.session.stash.get(_SHARED, None)
        if shared is not None and item.get_closest_marker("lab"):
            shared.keep = True
    return report


_SHARED = pytest.StashKey[Lab]()


@pytest.fixture(scope="session")
def shared_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A hub and two members, for tests that leave them as they found them."""
    with Lab(["hub", "a", "b"]) as lab:
        request.session.stash[_SHARED] = lab
        yield lab


@pytest.fixture(scope="session")
def hub(shared_lab: Lab) -> Cluster:
    return shared_lab["hub"]


@pytest.fixture(scope="session")
def members(shared_lab: Lab) -> list[Cluster]:
    return [shared_lab["a"], shared_lab["b"]]


@pytest.fixture
def lab_factory() -> Iterator[LabFactory]:
    """Start labs of one's own; they end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(Lab(*args, **kwargs))
