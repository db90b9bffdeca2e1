"""Which instance type serves a language model best: memory, roofline throughput, price and carbon, from arithmetic.

Memory of one replica is weights + KV cache + workspace. Prefill is bound by compute (2 operations per parameter and
token), decoding by memory bandwidth (every step reads the weights and the cache of the batch); devices that share a
model exchange activations twice per layer. Equations (1)-(5) below; no table says which model goes where. Called by
`dure advise instance`. O(offers * sizes of groups).

Sources of the shape: the parameter count of a dense transformer is about 12 * layers * width^2 (Kaplan et al. 2020),
width is about 128 * layers in published models; grouped-query attention with 8 heads of 128 is what they use now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from dure.model.accelerator import AcceleratorProfile, DataType
from dure.model.offer import InstanceOffer

# What kernels reach of the data sheet: large matrix products, and streaming reads.
COMPUTE_EFFICIENCY = 0.6
BANDWIDTH_EFFICIENCY = 0.8
LINK_EFFICIENCY = 0.7
# Engines leave some of the memory alone, and need some for activations and graphs.
USABLE_MEMORY = 0.92
WORKSPACE_GIB = 1.5
# Launches and sampling of one decode step.
STEP_OVERHEAD_S = 0.004
# Fans, host and network of a server on top of its accelerators.
HOST_POWER = 1.25
_WIDTH_PER_LAYER = 128
_KV_WIDTH = 8 * 128
_GIB = 2.0**30
_HOUR_S = 3600.0


class Ask(msgspec.Struct, frozen=True):
    """`context` counts prompt and answer; `step_s` is the longest time between two tokens of one answer."""

    parameters: float
    weight_bytes: float
    context: int
    rate_per_s: float
    output: int = 256
    step_s: float = 0.1
    carbon_g_per_kwh: float = 400.0
    pue: float = 1.15

    @property
    def prompt(self) -> int:
        return max(1, self.context - self.output)

    @property
    def layers(self) -> int:
        return max(1, round(math.cbrt(self.parameters / (12 * _WIDTH_PER_LAYER**2))))

    @property
    def width(self) -> float:
        return math.sqrt(self.parameters / (12 * self.layers))

    @property
    def weights_gib(self) -> float:
        return self.parameters * self.weight_bytes / _GIB

    @property
    def cache_gib(self) -> float:
        """KV cache of one request at full context: keys and values, 2 bytes each. (1)"""
        return 2 * self.layers * min(_KV_WIDTH, self.width) * 2 * self.context / _GIB


class Advice(msgspec.Struct, frozen=True):
    """One instance type with `group` devices for each replica; money in USD."""

    instance: str
    class_name: str
    group: int
    replicas: int
    batch: int
    used_gib: float
    device_gib: float
    requests_per_s: float
    tokens_per_s: float
    instances: int
    usd_per_h: float
    usd_per_million: float
    g_per_million: float
    first_token_s: float
    step_s: float


def advise(ask: Ask, offers: Iterable[InstanceOffer], classes: Mapping[str, AcceleratorProfile]) -> list[Advice]:
    """The best layout of each instance type that can hold the model, cheapest for the asked rate first."""
    best = [made for offer in offers if (made := _best(ask, offer, classes[offer.class_name])) is not None]
    return sorted(best, key=lambda each: (each.usd_per_million, each.g_per_million, each.instance))


def obstacle(ask: Ask, offers: Iterable[InstanceOffer], classes: Mapping[str, AcceleratorProfile]) -> str:
    """Why none of them will do, with the two numbers that clash: it fits nowhere, or nowhere is quick enough."""
    steps, largest = [], (0.0, "")
    for offer in offers:
        profile = classes[offer.class_name]
        for group in _groups(offer):
            memory = profile.memory_mib / 1024 * group * USABLE_MEMORY - WORKSPACE_GIB * group
            largest = max(largest, (memory, offer.name))
            if memory >= ask.weights_gib + ask.cache_gib:
                steps.append((_step_s(ask, offer, profile, group, 1), offer.name))
    if not steps:
        need = ask.weights_gib + ask.cache_gib
        return f"one request needs {need:,.1f} GiB, the largest ({largest[1]}) has {largest[0]:,.1f} GiB for it"
    quickest, name = min(steps)
    return f"the quickest ({name}) takes {quickest * 1000:.1f} ms for a token, {ask.step_s * 1000:g} ms are asked for"


def _groups(offer: InstanceOffer) -> list[int]:
    """Devices that may share a model."""
    return [size for size in (1, 2, 4, 8, 16) if size <= offer.devices]


def _best(ask: Ask, offer: InstanceOffer, profile: AcceleratorProfile) -> Advice | None:
    made = [found for size in _groups(offer) if (found := _layout(ask, offer, profile, size)) is not None]
    return min(made, key=lambda each: (each.usd_per_million, each.group), default=None)


def _layout(ask: Ask, offer: InstanceOffer, profile: AcceleratorProfile, group: int) -> Advice | None:
    memory = profile.memory_mib / 1024 * group
    room = memory * USABLE_MEMORY - ask.weights_gib - WORKSPACE_GIB * group
    most = int(room / ask.cache_gib) if room > 0 else 0
    if most < 1:
        return None
    batch = _largest_batch(ask, offer, profile, group, most)
    if batch == 0:
        return None
    prefill, step = _prefill_s(ask, offer, profile, group), _step_s(ask, offer, profile, group, batch)
    per_request = _occupied_s(ask, offer, profile, group, batch)
    replicas = offer.devices // group
    capacity = replicas / per_request
    count = math.ceil(ask.rate_per_s / capacity - 1e-9)
    price = count * offer.usd_micros_per_h / 1e6
    tokens_h = ask.rate_per_s * ask.context * _HOUR_S
    busy = ask.rate_per_s / (count * capacity)
    watts = (profile.idle_w + (profile.peak_w - profile.idle_w) * busy) * offer.devices * count * HOST_POWER * ask.pue
    return Advice(
        offer.name, offer.class_name, group, replicas, batch,
        used_gib=ask.weights_gib + batch * ask.cache_gib + WORKSPACE_GIB * group,
        device_gib=memory,
        requests_per_s=capacity,
        tokens_per_s=capacity * ask.context,
        instances=count,
        usd_per_h=price,
        usd_per_million=price / tokens_h * 1e6,
        g_per_million=watts / 1000 * ask.carbon_g_per_kwh / tokens_h * 1e6,
        first_token_s=prefill,
        step_s=step,
    )  # fmt: skip


def _largest_batch(ask: Ask, offer: InstanceOffer, profile: AcceleratorProfile, group: int, most: int) -> int:
    """The largest batch in memory whose steps are still quick enough; a step grows with the batch, so bisect."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if _step_s(ask, offer, profile, group, middle) <= ask.step_s:
            low = middle
        else:
            high = middle - 1
    return low


def _prefill_s(ask: Ask, offer: InstanceOffer, profile: AcceleratorProfile, group: int) -> float:
    """2 operations per parameter and token, plus attention's 4 * layers * width per pair of tokens. (2)"""
    operations = 2 * ask.parameters * ask.prompt + 2 * ask.layers * ask.width * ask.prompt**2
    compute = operations / (_operations_per_s(profile) * group)
    return compute + _exchange_s(ask, offer, group, ask.prompt)


def _step_s(ask: Ask, offer: InstanceOffer, profile: AcceleratorProfile, group: int, batch: int) -> float:
    """Read all weights and the caches once, or compute, whichever is slower. (3)"""
    read = (ask.weights_gib + batch * ask.cache_gib) * _GIB
    bandwidth = read / (profile.bandwidth_gbs * 1e9 * BANDWIDTH_EFFICIENCY * group)
    compute = 2 * ask.parameters * batch / (_operations_per_s(profile) * group)
    return max(bandwidth, compute) + STEP_OVERHEAD_S + _exchange_s(ask, offer, group, batch)


def _occupied_s(ask: Ask, offer: InstanceOffer, profile: AcceleratorProfile, group: int, batch: int) -> float:
    """Time of a replica that one request takes. Engines mix pieces of prefills into decode steps, so that arithmetic
    and reading overlap; exchanges and launches do not. (4)"""
    exchange = _exchange_s(ask, offer, group, ask.prompt)
    compute = _prefill_s(ask, offer, profile, group) - exchange
    waits = STEP_OVERHEAD_S + _exchange_s(ask, offer, group, batch)
    decode = ask.output * (_step_s(ask, offer, profile, group, batch) - waits) / batch
    return max(compute, decode) + exchange + ask.output * waits / batch


def _exchange_s(ask: Ask, offer: InstanceOffer, group: int, tokens: int) -> float:
    """Two all-reduces of 2-byte activations per layer; a ring moves 2 (g - 1) / g of the bytes. (5)"""
    if group == 1:
        return 0.0
    moved = 2 * ask.layers * tokens * ask.width * 2 * 2 * (group - 1) / group
    return moved / (offer.link_gbs * 1e9 * LINK_EFFICIENCY)


def _operations_per_s(profile: AcceleratorProfile) -> float:
    """16-bit arithmetic whatever the weights are stored in: that is what engines do with quantised weights."""
    sixteen = profile.tops.get(DataType.BF16) or profile.tops.get(DataType.FP16) or profile.best_tops
    return sixteen * 1e12 * COMPUTE_EFFICIENCY
