"""What the engines of a language-model service show of themselves, summed over its replicas.

Read from vLLM-style metrics by `adapters.kube.reading`, from `dure front`, or from the imitated world; goes up in
`Observed`, and is what `scale.engines` decides on. Counters only rise; one that falls has begun again.
"""

from __future__ import annotations

import enum

import msgspec

from dure.model.units import Instant


class Scaling(enum.StrEnum):
    """Who sets a serving's replicas. `auto` is Dure's policy where engines show a pulse, else late answers decide."""

    AUTO = "auto"
    SERVING = "serving"
    HPA = "hpa"
    KEDA = "keda"


class Pulse(msgspec.Struct, frozen=True, omit_defaults=True):
    """As of `at_s`. `asked` and `prompt_tokens` count what came, `answered` and `output_tokens` what was finished.

    `waiting_tokens` are prompt tokens of those that wait, where somebody knows them.
    """

    at_s: Instant
    asked: int
    prompt_tokens: int
    answered: int
    output_tokens: int
    waiting: int = 0
    waiting_tokens: float | None = None
    running: int = 0
    cache: float = 0.0


class Rest(msgspec.Struct, frozen=True):
    """One engine that can sleep: whether it does, and how many requests it has inside, running and waiting."""

    asleep: bool
    in_flight: int = 0
