"""Exporters for a real Prometheus: pages of metrics on loopback, and who is to be scraped, as monitors say it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from lab.loopback import Loopback, Quiet
from lab.rest import Json


class Pages(Loopback):
    """Serves `texts` by path while the block lasts; a path nobody shows is not found."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        super().__init__(_handler(self.texts), "pages")

    def target(self, path: str, labels: Mapping[str, str]) -> Json:
        """One page as a target of Prometheus' file discovery."""
        return {"targets": [self.address], "labels": {"__metrics_path__": path, **labels}}


def write_targets(path: Path, targets: list[Json]) -> None:
    """In one step: Prometheus reads the file whenever it changes."""
    text = json.dumps(targets)
    if path.exists() and path.read_text() == text:
        return
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def scraped_by(file: Path, *, job: str, honor_labels: bool = False) -> Json:
    """A scrape configuration that finds its targets in a file."""
    return {
        "job_name": job,
        "honor_labels": honor_labels,
        "scrape_interval": "2s",
        "scrape_timeout": "2s",
        "file_sd_configs": [{"files": [str(file)], "refresh_interval": "1s"}],
    }


def _handler(texts: Mapping[str, str]) -> type[Quiet]:
    class Handler(Quiet):
        def get(self) -> None:
            text = texts.get(self.path)
            # Prometheus hangs up when it has waited too long; it comes again.
            with contextlib.suppress(ConnectionError):
                self.reply(404 if text is None else 200, (text or "").encode(), "text/plain; version=0.0.4")

    return Handler
