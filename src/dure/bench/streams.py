"""Request streams of the scaling benchmark, from the public LLM and request-rate traces."""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.bench.data import data_file, read_rows
from dure.model.errors import InvalidInput
from dure.sim.serving.arrivals import from_hour, from_rates
from dure.sim.serving.service import Requests

AZURE = {"conv": "azure-llm/AzureLLMInferenceTrace_conv.csv", "code": "azure-llm/AzureLLMInferenceTrace_code.csv"}
TWITTER = "twitter-trace/requests_per_second_day1.json"


class Stream(msgspec.Struct, frozen=True):
    """How a trace is scaled to the size of the modelled service."""

    trace: str
    streams: int
    copies: float
    hours: float


STREAMS = {
    "conv": Stream("conv", 1, 5.0, 5.0),
    "code": Stream("code", 4, 2.0, 5.0),
    "twitter": Stream("twitter", 1, 12.0, 24.0),
}


@lru_cache(maxsize=2)
def read_azure(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """(arrival seconds, prompt tokens, output tokens) of one recorded hour."""
    if name not in AZURE:
        raise InvalidInput(f"no trace '{name}'", remedy=f"Choose one of {', '.join(STREAMS)}.")
    rows = list(read_rows(data_file(AZURE[name])))
    at = np.array([_seconds(row["TIMESTAMP"]) for row in rows])
    context = np.array([int(row["ContextTokens"]) for row in rows], dtype=np.int64)
    output = np.array([int(row["GeneratedTokens"]) for row in rows], dtype=np.int64)
    return at - at[0], context, output


def make_stream(name: str, seed: int, hours: float | None = None) -> Requests:
    """The benchmark's stream of a trace; other seeds give other, equally long streams."""
    if name not in STREAMS:
        raise InvalidInput(f"no trace '{name}'", remedy=f"Choose one of {', '.join(STREAMS)}.")
    stream = STREAMS[name]
    if name == "twitter":
        _, context, output = read_azure("conv")
        rates = np.array(json.loads(data_file(TWITTER).read_text()), dtype=np.float64)
        count = round((hours or stream.hours) * 3600.0)
        return from_rates(rates[:count], context, output, stream.copies, seed)
    at, context, output = read_azure(name)
    return from_hour(at, context, output, stream.streams, stream.copies, hours or stream.hours, seed)


def _seconds(stamp: str) -> float:
    whole, _, fraction = stamp.partition(".")
    moment = datetime.fromisoformat(f"{whole}+00:00")
    return moment.timestamp() + float(f"0.{fraction or 0}")
