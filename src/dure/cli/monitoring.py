"""Options of `dure up` for metrics: where samples are kept, and whom to scrape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from dure.embedded.live import LiveFleet
    from dure.ports import MetricsPort

Command = TypeVar("Command", bound=Callable[..., Any])


class Wanted(NamedTuple):
    """What the command line says of metrics."""

    prometheus: str
    scrape: tuple[str, ...]


def monitoring_options(command: Command) -> Command:
    prometheus = click.option(
        "--prometheus", default="", envvar="DURE_PROMETHEUS", metavar="URL",
        help="Keep samples in this Prometheus instead of the state folder; needs --speed 1.",
    )  # fmt: skip
    scrape = click.option(
        "--scrape", multiple=True, metavar="URL", help="Read an exporter's metrics every 15 s; may be repeated."
    )
    return prometheus(scrape(command))


@contextmanager
def opened(wanted: Wanted, live: LiveFleet) -> Iterator[MetricsPort]:
    """Where samples are kept, while the block lasts; scrapers run beside it."""
    from dure.adapters.metrics.prometheus import PrometheusMetrics
    from dure.adapters.metrics.scrape import Scraper

    if wanted.prometheus and live.clock.speed != 1.0:
        raise click.UsageError("--prometheus needs --speed 1: it refuses samples of the future.")
    server = PrometheusMetrics(wanted.prometheus) if wanted.prometheus else None
    kept: MetricsPort = server or live.samples
    scraper = Scraper(wanted.scrape, kept, live.clock.now, time.monotonic) if wanted.scrape else None
    try:
        if scraper is not None:
            scraper.start()
        yield kept
    finally:
        if scraper is not None:
            scraper.stop()
        if server is not None:
            server.close()
