"""The metrics text that a pod shows, for all who look for something in it: requests, engines, checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

Samples = dict[str, list[Sample]]
# Requests that an engine has taken in and not begun: vLLM, TGI, SGLang, Triton.
QUEUES = (
    "vllm:num_requests_waiting",
    "tgi_queue_size",
    "sglang:num_queue_reqs",
    "nv_inference_pending_request_count",
)


def samples_of(text: str) -> Samples:
    """By their own names, as an engine that leaves out the type lines has no families; none if it is no metrics."""
    found: Samples = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(sample)
    except ValueError:
        return {}
    return found


def total(samples: Samples, names: Iterable[str]) -> float | None:
    """Of the first of these names that is shown, over all its series; None when none is."""
    series = next((samples[name] for name in names if name in samples), None)
    return sum(one.value for one in series) if series is not None else None
