"""Figures of the gateway for Prometheus, `dure_gateway_*`; one registry for each gateway."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        self.chosen = Counter(
            "dure_gateway_jobs_total", "Jobs created, by queue and rule.", ["queue", "rule"], registry=own
        )
        self.moved = Counter(
            "dure_gateway_moves_total", "Jobs moved while waiting.", ["from", "to", "how"], registry=own
        )
        self.ordered = Counter(
            "dure_gateway_orders_total", "Queues put into another order.", ["queue", "order"], registry=own
        )
        self.refused = Counter("dure_gateway_refused_total", "Jobs not created, by reason.", ["reason"], registry=own)
        self.took = Histogram("dure_gateway_submit_seconds", "Time to take a job in.", registry=own)
        self.stale = Gauge("dure_gateway_stale_seconds", "Age of the queues' figures.", registry=own)

    def page(self) -> bytes:
        return generate_latest(self.registry)
