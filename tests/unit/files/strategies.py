"""Hypothesis strategies for the structs that files describe, in the form in which reading leaves them."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from dure.model.accelerator import AcceleratorProfile, DataType, Geometry, Kind, ShareMode, SliceProfile
from dure.model.cluster import ClusterInfo
from dure.model.demand import Demand
from dure.model.fleet import ClusterSpec, Connect, Fleet, PoolSpec
from dure.model.money import Rates
from dure.model.policy import Policy, Verb
from dure.model.tariff import Capacity, Tariff, Weekly
from dure.model.tenant import Budget, Isolation, Role, Tenant
from dure.model.workload import AcceptedClass, Replicas, Slo, SpeedUp, Workload, WorkloadType

ZONES = ["UTC", "Asia/Seoul", "America/Los_Angeles", "Asia/Kolkata", "Pacific/Auckland"]
CURRENCIES = ["KRW", "USD", "EUR"]

names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
micros = st.integers(0, 10**13)
seconds = st.floats(0, 1e7).filter(lambda x: x == 0 or x > 1e-6)
positive = st.floats(1e-3, 1e4)
modes = st.lists(st.sampled_from(ShareMode), min_size=1, max_size=3, unique=True).map(tuple)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def several(strategy: st.SearchStrategy[Any], least: int = 0, by_name: bool = False) -> st.SearchStrategy[Any]:
    key = (lambda each: each.name) if by_name else None
    return st.lists(strategy, min_size=least, max_size=3, unique_by=key).map(tuple)


demands = st.builds(
    Demand,
    devices=st.integers(0, 8),
    memory_mib=st.integers(0, 10**6),
    compute_milli=st.integers(0, 1000),
    bandwidth_milli=st.integers(0, 1000),
    cpu_milli=st.integers(0, 10**6),
    host_memory_mib=st.integers(0, 10**8),
)
slos = st.builds(
    Slo,
    latency_p95_ms=optional(positive),
    throughput_per_s=optional(positive),
    availability=optional(st.floats(1e-3, 1)),
)
templates = st.dictionaries(words, words | st.integers(-100, 100) | st.booleans(), max_size=3).map(
    lambda made: msgspec.json.encode(made).decode()
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    classes = draw(st.lists(st.tuples(names, positive), min_size=1, max_size=3, unique_by=lambda pair: pair[0]))
    low = draw(st.integers(0, 9))
    dataset = draw(st.just("") | words)
    return Workload(
        name=draw(names),
        tenant=draw(st.just("") | names),
        type=draw(st.sampled_from(WorkloadType)),
        classes=tuple(AcceptedClass(name, speed) for name, speed in classes),
        demand=draw(demands),
        model=draw(st.just("") | names),
        dataset=dataset,
        dataset_mib=draw(st.integers(0, 10**8)) if dataset else 0,
        gang=draw(st.integers(1, 64)),
        replicas=Replicas(low, draw(st.integers(max(1, low), 20))),
        speedups=draw(several(st.builds(SpeedUp, st.integers(1, 99), positive))),
        duration_s=draw(seconds),
        deadline_s=draw(optional(seconds.filter(bool))),
        deferrable=draw(st.booleans()),
        interruptible=draw(st.booleans()),
        checkpoint_s=draw(seconds),
        rate_per_s=draw(seconds),
        slo=draw(slos),
        priority=draw(st.integers(-1000, 1000)),
        regions=draw(several(st.from_regex(r"[a-z]{2}-[a-z*?]{1,4}", fullmatch=True))),
        share=draw(modes | st.just(())),
        template=draw(st.just("") | templates),
    )


tenants = st.builds(
    Tenant,
    name=names,
    weight=positive,
    quota=st.dictionaries(names, st.integers(0, 1000), max_size=3),
    borrow=st.booleans(),
    budget=st.builds(Budget, optional(micros), optional(seconds)),
    isolation=st.sampled_from(Isolation),
    roles=st.dictionaries(words, st.sampled_from(Role), max_size=3),
)
policies = st.builds(
    Policy,
    name=names,
    verb=st.sampled_from(Verb),
    algorithm=names.filter(lambda name: not name.replace(".", "").isdecimal()),
    settings=st.dictionaries(words, words | st.integers(-(10**9), 10**9) | positive | st.booleans(), max_size=4),
    version=st.integers(1, 1000),
    paused=st.booleans(),
)
slice_profiles = st.builds(
    SliceProfile,
    name=words,
    slots=st.integers(1, 8),
    starts=st.lists(st.integers(0, 7), min_size=1, max_size=4).map(tuple),
    compute_slices=st.integers(0, 8),
    memory_mib=st.integers(1, 10**6),
    compute_milli=st.integers(0, 1000),
    max_instances=st.integers(1, 8),
    resource=st.just("") | words,
)
geometries = st.builds(Geometry, st.integers(1, 8), st.integers(1, 8), several(slice_profiles, 1, by_name=True))
accelerators = st.builds(
    AcceleratorProfile,
    name=names,
    vendor=st.just("") | words,
    kind=st.sampled_from(Kind),
    memory_mib=st.integers(1, 10**6),
    bandwidth_gbs=seconds,
    tops=st.dictionaries(st.sampled_from(DataType), positive),
    peak_w=positive,
    idle_w=positive,
    share=modes,
    resource=st.just("") | words,
    mig=optional(geometries),
    vnpu=optional(geometries),
    mps_clients=st.integers(0, 128),
    confidence=words,
    note=st.just("") | words,
)


@st.composite
def weeklies(draw: st.DrawFn) -> Weekly:
    """One price, a few prices by hour of the day, or any 168."""
    prices = draw(st.lists(micros, min_size=1, max_size=4, unique=True))
    if len(prices) == 1:
        return Weekly((prices[0],))
    shape = draw(st.sampled_from(["daily", "weekly"]))
    length = 24 if shape == "daily" else 168
    seed = draw(st.randoms(use_true_random=False))
    hours = [seed.choice(prices) for _ in range(length)] * (168 // length)
    return Weekly(tuple(hours) if len(set(hours)) > 1 else (hours[0],))


@st.composite
def pools(draw: st.DrawFn, cluster: str) -> PoolSpec:
    name, class_name = draw(names), draw(names)
    tariff = Tariff(
        cluster=cluster,
        pool=name,
        class_name=class_name,
        currency=draw(st.sampled_from(CURRENCIES)),
        owned=draw(optional(weeklies())),
        on_demand=draw(optional(weeklies())),
        spot=draw(optional(weeklies())),
        reclaim_per_hour=draw(st.sampled_from([0.0, 0.04, 0.125, 1.0])),
        electricity=draw(optional(weeklies())),
        egress_micros_per_gib=draw(micros),
    )
    return PoolSpec(
        name=name,
        class_name=class_name,
        tariff=tariff,
        nodes=draw(st.integers(0, 99)),
        nodes_max=draw(st.integers(0, 99)),
        devices=draw(st.integers(1, 16)),
        share=draw(modes),
        capacity=draw(st.sampled_from(Capacity)),
        cpu_milli=draw(st.integers(0, 10**6)),
        memory_mib=draw(st.integers(0, 10**8)),
        link_group_size=draw(st.integers(0, 16)),
        boot_s=draw(seconds),
        zones=draw(several(words)),
        selector=draw(st.dictionaries(words, st.just("") | words, max_size=2)),
    )


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSpec:
    name = draw(names)
    info = ClusterInfo(
        name=name,
        region=draw(st.just("") | words),
        timezone=draw(st.sampled_from(ZONES)),
        grid=draw(st.just("") | words),
        pue=draw(st.floats(1, 2)),
        datasets=draw(several(words)),
        edge=draw(st.booleans()),
        latency_ms=draw(seconds),
        metered_micros_per_gib=draw(micros),
    )
    connects = [Connect(embedded=True), Connect(kubeconfig="~/.kube/x", context="y"), Connect(agent="joined")]
    return ClusterSpec(info, draw(st.sampled_from(connects)), draw(several(pools(name), 1, by_name=True)))


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    currency = draw(st.sampled_from(CURRENCIES))
    members = draw(st.lists(clusters(), min_size=1, max_size=2, unique_by=lambda cluster: cluster.info.name))
    return Fleet(
        name=draw(names),
        clusters=tuple(members),
        tenants=draw(several(tenants, by_name=True)),
        policies=draw(several(policies, by_name=True)),
        currency=currency,
        rates=Rates(currency, draw(st.dictionaries(st.sampled_from(CURRENCIES), positive, max_size=2))),
        carbon_micros_per_kg=draw(micros),
        classes={each.name: each for each in draw(several(accelerators, by_name=True))},
        demo=draw(st.booleans()),
    )
