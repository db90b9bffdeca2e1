"""The pulse of a language-model service from the metrics that its engines show, vLLM's names first.

Called by `reading` for servings of the fleet and by `dure scale replicas` for any Deployment, with what every pod
that answered shows. Counters of pods that went stay in the sum, and one that falls has begun again, so the
sum only rises while this process lives; after a restart it begins anew, which who reads it must bear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dure.adapters.kube.exposition import QUEUES, Samples, total
from dure.model.pulse import Pulse
from dure.model.units import Instant

ANSWERED = ("vllm:request_success", "tgi_request_success", "sglang:num_requests")
PROMPT = ("vllm:prompt_tokens", "tgi_request_input_length", "sglang:prompt_tokens")
OUTPUT = ("vllm:generation_tokens", "tgi_request_generated_tokens", "sglang:generation_tokens")
RUNNING = ("vllm:num_requests_running", "tgi_batch_current_size", "sglang:num_running_reqs")
CACHE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")


class Shown(NamedTuple):
    """What one engine shows: counters, then gauges."""

    answered: float
    prompt_tokens: float
    output_tokens: float
    waiting: float
    running: float
    cache: float


def shown(samples: Samples) -> Shown | None:
    """None where any of what a pulse needs is lacking; the cache alone may be missing."""
    answered, prompt, output = (total(samples, _counted(names)) for names in (ANSWERED, PROMPT, OUTPUT))
    waiting, running = total(samples, QUEUES), total(samples, RUNNING)
    if answered is None or prompt is None or output is None or waiting is None or running is None:
        return None
    return Shown(answered, prompt, output, waiting, running, total(samples, CACHE) or 0.0)


def _counted(names: Sequence[str]) -> list[str]:
    """A counter's own line, with or without its suffix, or the sum of a histogram."""
    return [f"{name}{suffix}" for name in names for suffix in ("", "_total", "_sum")]


class PulseBook:
    """Sums the engines of one service, look after look."""

    def __init__(self) -> None:
        self._last: dict[str, Shown] = {}
        self._totals = [0.0, 0.0, 0.0]
        self._asked = 0

    def add(self, engines: Mapping[str, Shown], now_s: Instant) -> Pulse | None:
        """What all engines that answered show together; None when none did."""
        if not engines:
            return None
        for name, now in engines.items():
            before = self._last.get(name)
            begun_again = before is None or now.answered < before.answered
            for index in range(3):
                self._totals[index] += now[index] - (0.0 if begun_again or before is None else before[index])
        self._last = {**self._last, **engines}
        waiting = sum(one.waiting for one in engines.values())
        running = sum(one.running for one in engines.values())
        answered, prompt, output = (int(one) for one in self._totals)
        self._asked = max(self._asked, answered + int(waiting + running))
        return Pulse(
            at_s=now_s,
            asked=self._asked,
            prompt_tokens=prompt,
            answered=answered,
            output_tokens=output,
            waiting=int(waiting),
            running=int(running),
            cache=sum(one.cache for one in engines.values()) / len(engines),
        )

    def forget(self, alive: set[str]) -> None:
        """Pods that are gone come back under other names."""
        self._last = {name: one for name, one in self._last.items() if name in alive}
