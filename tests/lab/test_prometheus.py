"""The lab's Prometheus scrapes, answers, and its promtool judges rules."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.prometheus import Prometheus, promtool

pytestmark = pytest.mark.lab

RULE = """
groups:
- name: load
  rules:
  - record: job:load:sum
    expr: sum by (job) (load)
"""


class Exporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        raw = b'# TYPE load gauge\nload{part="a"} 2\nload{part="b"} 5\n'
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def exporter() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_real_prometheus_scrapes_and_evaluates(tmp_path: Path, exporter: str) -> None:
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "test", "static_configs": [{"targets": [exporter]}]}],
    }
    with Prometheus(tmp_path / "prometheus", config, rules={"load.yml": RULE}) as prometheus:
        (total,) = prometheus.until("job:load:sum", lambda found: bool(found), what="the recorded sum")
        assert total["metric"] == {"__name__": "job:load:sum", "job": "test"}
        assert float(total["value"][1]) == 7
        with pytest.raises(LabError, match="parse error"):
            prometheus.query("sum(")


def test_promtool_tells_a_good_rule_from_a_bad_one(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yml", tmp_path / "bad.yml"
    good.write_text(RULE)
    bad.write_text(RULE.replace("sum by (job) (load)", "sum by (job) (load"))
    assert "1 rules found" in promtool("check", "rules", str(good))
    with pytest.raises(LabError, match="could not parse expression"):
        promtool("check", "rules", str(bad))
