"""Options of `dure up` for metrics and notices: where samples are kept, whom to scrape, whom to tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from dure.files.params import FiniteRange

if TYPE_CHECKING:
    from dure.embedded.live import LiveFleet
    from dure.model.answer import FleetStatus
    from dure.ports import MetricsPort
    from dure.watch.notices import Notice

Command = TypeVar("Command", bound=Callable[..., Any])


class Wanted(NamedTuple):
    """What the command line says of metrics."""

    prometheus: str
    scrape: tuple[str, ...]
    notify: tuple[str, ...] = ()


class Slowness:
    """How much slower each workload's devices are, by what was scraped in the last minutes; read once a minute."""

    WINDOW_S, FRESH_S = 300.0, 60.0

    def __init__(self, samples: MetricsPort, now: Callable[[], float]) -> None:
        self._samples, self._now = samples, now
        self._read_s = -self.FRESH_S
        self._found: dict[str, float] = {}

    def __call__(self, workload: str) -> float:
        from dure.model.errors import Temporary
        from dure.watch.layers import NAMES, joined, slowness

        now_s = self._now()
        if now_s - self._read_s >= self.FRESH_S:
            self._read_s = now_s
            since_s = now_s - self.WINDOW_S
            # Without figures devices count as fast: the loop must not wait for a metrics server.
            self._found = {}
            with suppress(Temporary):
                found = [one for name in NAMES for one in self._samples.fetch_samples(name, since_s, now_s)]
                self._found = slowness(joined(found, {}))
        return self._found.get(workload, 1.0)


def counters_option(command: Command) -> Command:
    """Also of `dure agent`: how soon a surge is seen is a matter of seconds, and so is what asking costs."""
    option = click.option(
        "--counters", type=FiniteRange(0.5, 600.0), default=15.0, show_default=True,
        help="Seconds between two looks at the requests and checkpoints that pods of real clusters show.",
    )  # fmt: skip
    return option(command)


def monitoring_options(command: Command) -> Command:
    prometheus = click.option(
        "--prometheus", default="", envvar="DURE_PROMETHEUS", metavar="URL",
        help="Keep samples in this Prometheus instead of the state folder; needs --speed 1.",
    )  # fmt: skip
    scrape = click.option(
        "--scrape", multiple=True, metavar="URL", help="Read an exporter's metrics every 15 s; may be repeated."
    )
    notify = click.option(
        "--notify", multiple=True, metavar="ADDRESS",
        help="Tell troubles to https://..., slack+https://... or smtp://HOST/READER; may be repeated.",
    )  # fmt: skip
    return prometheus(scrape(notify(command)))


@contextmanager
def telling(wanted: Wanted, live: LiveFleet, status: Callable[[], FleetStatus], state: Path) -> Iterator[None]:
    """Notices go out while the block lasts, if somebody wants them."""
    if not wanted.notify:
        yield
        return
    from dure.adapters.notify.channels import channel_of
    from dure.adapters.notify.notifier import Notifier
    from dure.adapters.notify.outbox import Outbox
    from dure.cli.notify import FILE
    from dure.plane.bursting import risks_of
    from dure.watch.notices import Risky, notices_of

    def look() -> tuple[Notice, ...]:
        risks = [Risky(one.tenant, one.workload, one.late, one.risk) for one in risks_of(live.store)]
        return notices_of(status(), risks)

    channels = [channel_of(address) for address in wanted.notify]
    notifier = Notifier(live.fleet.name, Outbox(state / FILE), channels, look, time.time)
    notifier.start()
    try:
        yield
    finally:
        notifier.stop()


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
            live.world.plane.bursting.slowness = Slowness(kept, live.clock.now)
        yield kept
    finally:
        if scraper is not None:
            scraper.stop()
        if server is not None:
            server.close()
