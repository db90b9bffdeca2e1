"""Queries are understood well enough to tell sums from means, and never break the linter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.manifest import promql


@pytest.mark.parametrize(
    ("query", "grows"),
    [
        ("sum(rate(http_requests_total[5m]))", True),
        ("sum by (app) (x) / 10", True),
        ("count(up) or vector(0)", True),
        ("sum(rate(tokens[1m])) / scalar(avg(capacity))", True),
        ("avg(DCGM_FI_DEV_GPU_UTIL{pod=~'a-.*'})", False),
        ("avg by (pod) (avg_over_time(DCGM_FI_DEV_GPU_UTIL[5m])) * 100", False),
        ("sum(a) / sum(b)", False),
        ("100 * (sum(a) / count(a))", False),
        ("max(vllm:kv_cache_usage_perc)", False),
        ("histogram_quantile(0.95, sum by (le) (rate(latency_bucket[5m])))", False),
        ("clamp_max(avg(x), 100)", False),
        ("max(queue_length)", None),
        ("queue_length", None),
    ],
)
def test_a_value_grows_with_the_fleet_when_it_counts_things(query: str, grows: bool | None) -> None:
    expr = promql.parse(query)
    assert expr is not None
    assert promql.grows(expr) is grows


def test_labels_of_matchers_and_groupings_are_found() -> None:
    expr = promql.parse('sum(x{pod="a", ns!~"b"} offset 5m) by (container) > on(job) group_left(team) y[5m:1m]')
    assert promql.labels_used(expr) == {"pod", "ns", "container"}


@pytest.mark.parametrize("query", ["sum(", "a{b}", "{{ x }}", "a +", ")"])
def test_what_is_no_query_gives_nothing(query: str) -> None:
    assert promql.parse(query) is None


@given(st.text(alphabet="ab(){}[]=~\"',+-*/<>@ $0159_:.by sumofset", max_size=60))
def test_no_text_breaks_the_parser(query: str) -> None:
    read = promql.parse(query)
    assert promql.parse(query) == read
    assert read is not None or promql.grows(read) is None
