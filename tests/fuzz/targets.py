"""Every way in which foreign bytes become values of ours: what reads them, sound examples, and how they are refused.

A new parser gets a line here. `seeds` are what mutations start from; anything that comes out of `read` other than a
value or one of `refusals` is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dure.adapters.jwt import Jwks, key_id, public_key
from dure.adapters.metrics.exposition import Reader
from dure.adapters.podspec import check_template, rules_of, template_of
from dure.adapters.series import _parsed as parsed_series
from dure.files import parse_workload_json, read_text
from dure.files.manifests import read_source
from dure.manifest.lint import lint
from dure.manifest.promql import parse as parse_promql
from dure.manifest.quantity import quantity, seconds
from dure.model.audit import AuditLine
from dure.model.errors import DureError
from dure.model.report import Report
from dure.route.accepts import check_job, demand_of, kind_of, queue_of

ROOT = Path(__file__).parents[2]
# The API answers each of these with 400.
JSON = (DureError, msgspec.MsgspecError, json.JSONDecodeError, UnicodeDecodeError, RecursionError)


class Target(NamedTuple):
    """`share` is how many of a thousand inputs it gets: fast ones get more."""

    name: str
    read: Callable[[bytes], Any]
    seeds: tuple[bytes, ...]
    share: int
    refusals: tuple[type[Exception], ...] = (DureError,)


def _files(pattern: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(ROOT.glob(pattern)))


def _text(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(data.decode("utf-8", "replace"))


def _pods(data: bytes) -> None:
    """All the way from a workload's file to the rules of its pods."""
    for workload in read_text(data).workloads:
        check_template(workload.template)
        template = template_of(workload.template)
        rules_of(template.affinity, template.spread, "n", template.labels)


def _lint(data: bytes) -> None:
    lint(read_source(data, "fuzz").documents)


def _job(data: bytes) -> None:
    job = check_job(json.loads(data), "fuzz")
    queue_of(job), kind_of(job), demand_of(job)


def _keys(data: bytes) -> None:
    for jwk in msgspec.json.decode(data, type=Jwks).keys:
        public_key(jwk)


TEMPLATE = b"""apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: w, tenant: vision}
spec:
  type: training
  classes: [{name: t4}]
  demand: {devices: 1}
  duration: 1h
  template:
    metadata: {labels: {app: x}}
    spec:
      nodeSelector: {zone: a}
      tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: host, labelSelector: {matchLabels: {app: x}}}
      containers: [{name: main, image: train}]
"""
JOB = b"""{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","labels":{"kueue.x-k8s.io/queue-name":"q",
"workload-type":"light-gpu"}},"spec":{"parallelism":2,"suspend":true,"template":{"spec":{"containers":[{"name":"c",
"resources":{"requests":{"cpu":"500m","memory":"1Gi","nvidia.com/gpu":"1"}}}]}}}}"""
BODY = b"""{"metadata":{"name":"w","tenant":"vision"},"spec":{"type":"batch","classes":[{"name":"t4"}],
"demand":{"devices":1},"duration":"1h"}}"""
SCRAPE = b"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="a\\"b"} 87 1767571200000
vllm:num_requests_waiting{model_name="m"} 3
x_bucket{le="+Inf"} 5 # {trace="1"} 0.5
"""
SERIES = (
    b"time,price\n2026-01-05T00:00:00Z,1.5\n2026-01-05T01:00:00Z,\n",
    b'[{"time":"2026-01-05T00:00:00Z","carbon":300},{"time":1767574800,"carbon":null}]',
)
QUERIES = (
    b"sum by (a) (rate(x_total{b=~'c.*',d!=\"e\"}[5m])) / on(a) group_left max_over_time(y[1h:5m]) > 0.5",
    b"histogram_quantile(0.95, sum(rate(z_bucket[2m])) by (le)) or vector(0)",
)
AMOUNTS = (b"1500m", b"2Gi", b"1e3", b"0.5", b"10min", b"1h30m", b"300s", b"-7", b"80GiB", b"1000/h")
REPORT = b"""{"cluster":"seoul","at_s":1.0,"version":"v","pools":[],"observed":[{"uid":"u","workload":"w",
"generation":1}],"decisions":[{"kind":"hold","workload":"w","verdicts":[],"pod":"p"}],"told_s":1.0}"""

TARGETS = (
    Target("documents", read_text, _files("examples/*.yaml"), 120),
    Target("pods", _pods, (TEMPLATE,), 120),
    Target("bodies", lambda data: parse_workload_json(json.loads(data)), (BODY,), 160, JSON),
    Target("manifests", _lint, _files("tests/scenario/lint/*/*.yaml"), 40),
    Target("jobs", _job, (JOB,), 100, JSON),
    Target("promql", _text(parse_promql), QUERIES, 100),
    Target("amounts", _text(lambda text: (quantity(text), seconds(text))), AMOUNTS, 80),
    Target("scrapes", _text(lambda text: Reader().read(text, 0.0)), (SCRAPE,), 80),
    Target("tables", lambda data: parsed_series("fuzz.csv", data, 0.0), SERIES[:1], 40),
    Target("series", lambda data: parsed_series("fuzz.json", data, 0.0), SERIES[1:], 40),
    Target("reports", lambda data: msgspec.json.decode(data, type=Report), (REPORT,), 60, JSON),
    Target(
        "audit",
        lambda data: msgspec.json.decode(data, type=AuditLine).said(),
        (msgspec.json.encode(AuditLine('{"seq":1,"at_s":0,"who":"w","via":"v","action":"a"}', "0" * 64)),),
        20,
        JSON,
    ),
    Target("tokens", _text(key_id), (b"eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.e30.AAAA",), 20),
    Target(
        "keys", _keys, (b'{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"a","use":"sig"}]}',), 20, JSON
    ),
)

assert sum(target.share for target in TARGETS) == 1000
