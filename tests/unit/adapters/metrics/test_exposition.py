"""Pages of exporters, read as the client library reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from dure.adapters.metrics.exposition import OPEN_METRICS, Reader
from dure.model.errors import InvalidInput
from tests.fixtures.engine_metrics import VLLM

NAMES = st.from_regex(r"[a-z_:][a-z0-9_:]{0,8}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,4}", fullmatch=True),
    st.text(st.sampled_from('ab}{ ",=\\#\nü'), max_size=8),
    max_size=3,
)
VALUES = st.floats() | st.integers(-(10**6), 10**6).map(float)
DRAWN = st.lists(st.tuples(NAMES, LABELS, VALUES, st.none() | st.integers(0, 10**12)), max_size=8)


def written(name: str, labels: dict[str, str], value: float, at_ms: int | None) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    inside = ",".join(f'{key}="{quoted(text)}"' for key, text in labels.items())
    shown = {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, repr(value))
    return f"{name}{'{' + inside + '}' if labels else ''} {shown}{'' if at_ms is None else f' {at_ms}'}\n"


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@given(DRAWN)
def test_text_is_read_as_the_library_reads_it_the_first_time_and_the_second(
    drawn: list[tuple[str, dict[str, str], float, int | None]],
) -> None:
    text = "".join(written(*one) for one in drawn)
    expected = [sample for family in text_families(text) for sample in family.samples]
    reader = Reader()
    for _ in range(2):
        found = reader.read(text, 7.0)
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours.name, ours.labels) == (theirs.name, theirs.labels)
            assert same(ours.value, theirs.value)
            assert ours.at_s == pytest.approx(7.0 if theirs.timestamp is None else float(theirs.timestamp))


def test_a_page_of_an_engine_is_read_whole() -> None:
    expected = sum(len(family.samples) for family in text_families(VLLM))
    assert len(Reader().read(VLLM, 1.0)) == expected == 10


def test_open_metrics_with_exemplars_and_times_in_seconds_is_read_as_the_library_reads_it() -> None:
    page = (
        "# TYPE wait_seconds histogram\n# UNIT wait_seconds seconds\n"
        'wait_seconds_bucket{le="1.0",pod="a} b"} 3 12.5 # {trace_id="x} #y"} 0.5 11.0\n'
        'wait_seconds_bucket{le="+Inf",pod="a} b"} 4 12.5\n'
        'wait_seconds_count{pod="a} b"} 4 12.5\nwait_seconds_sum{pod="a} b"} 2.5 12.5\n'
        '# TYPE done counter\ndone_total 5 12.5 # {trace_id="z} "} 1.0\n# EOF\n'
    )
    families = open_families(page)  # type: ignore[no-untyped-call]  # the library leaves this one untyped
    expected = [sample for family in families for sample in family.samples]
    reader = Reader()
    for _ in range(2):
        found = reader.read(page, 0.0, f"{OPEN_METRICS}; version=1.0.0; charset=utf-8")
        assert [(one.name, one.labels, one.value, one.at_s) for one in found] == [
            (one.name, one.labels, one.value, 12.5) for one in expected
        ]


def test_an_open_metrics_page_that_was_cut_off_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cut off"):
        Reader().read("a 1\n", 0.0, OPEN_METRICS)


@pytest.mark.parametrize("line", ["<html>", "a", "a b", 'a{b="c} 1', "a{b=c} 1", "a 1_000", "a 1 2 3", "1a 2"])
def test_a_line_that_is_no_sample_refuses_the_page_and_names_the_line(line: str) -> None:
    with pytest.raises(InvalidInput, match="line 2 is no sample"):
        Reader().read(f"ok 1\n{line}\n", 0.0)
