"""The pulse of a service from its engines' metrics: all of it or none, sums that only rise, fronts as well."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.kube.exposition import samples_of
from dure.adapters.kube.pulse import PulseBook, Shown, shown

VLLM = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="a"} 12.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="a"} 3.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="a"} 0.4
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="a"} 90000.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="a"} 16000.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="stop",model_name="a"} 70.0
vllm:request_success_total{finished_reason="length",model_name="a"} 10.0
"""
TGI = """
# TYPE tgi_request_success counter
tgi_request_success{method="generate"} 8
# TYPE tgi_request_input_length histogram
tgi_request_input_length_bucket{le="+Inf"} 8
tgi_request_input_length_sum 9000
tgi_request_input_length_count 8
# TYPE tgi_request_generated_tokens histogram
tgi_request_generated_tokens_bucket{le="+Inf"} 8
tgi_request_generated_tokens_sum 1600
tgi_request_generated_tokens_count 8
# TYPE tgi_queue_size gauge
tgi_queue_size 2
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 4
"""


def test_vllm_and_tgi_are_read() -> None:
    assert shown(samples_of(VLLM)) == Shown(80.0, 90000.0, 16000.0, 3.0, 12.0, 0.4)
    assert shown(samples_of(TGI)) == Shown(8.0, 9000.0, 1600.0, 2.0, 4.0, 0.0)


def test_what_lacks_a_part_is_no_pulse() -> None:
    assert shown(samples_of(VLLM.replace("vllm:num_requests_waiting", "vllm:other"))) is None
    assert shown(samples_of("up 1\n")) is None
    assert shown(samples_of("this is { no metrics")) is None
    assert shown(samples_of("")) is None


def test_an_engine_without_type_lines_shows_the_same() -> None:
    untyped = "".join(line + "\n" for line in VLLM.splitlines() if not line.startswith("#"))
    assert shown(samples_of(untyped)) == shown(samples_of(VLLM))


def test_those_under_way_were_asked_as_well() -> None:
    found = shown(samples_of(VLLM))
    assert found is not None
    pulse = PulseBook().add({"a": found, "b": found}, 7.0)
    assert pulse is not None
    assert (pulse.at_s, pulse.answered, pulse.asked) == (7.0, 160, 160 + 2 * 15)
    assert (pulse.waiting, pulse.running, pulse.cache) == (6, 24, 0.4)


def test_nobody_answered_is_not_nobody_asked() -> None:
    assert PulseBook().add({}, 1.0) is None


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 50)), max_size=20))
def test_the_sum_never_falls_whatever_pods_do(looks: list[dict[str, int]]) -> None:
    book, before = PulseBook(), (0, 0, 0, 0)
    for number, look in enumerate(looks):
        engines = {name: Shown(value, value * 10.0, value * 2.0, 1.0, 1.0, 0.1) for name, value in look.items()}
        pulse = book.add(engines, float(number))
        book.forget(set(look))
        if pulse is not None:
            now = (pulse.asked, pulse.answered, pulse.prompt_tokens, pulse.output_tokens)
            assert all(one >= other for one, other in zip(now, before, strict=True))
            before = now
