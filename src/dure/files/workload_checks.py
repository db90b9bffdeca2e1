"""What a well-formed workload can still get wrong: demands that nothing can meet, keys of another type.

Problems refuse the file; warnings say what will keep the workload waiting in the fleet that is known.
"""

from __future__ import annotations

import fnmatch

from dure.files.known import Known, hint
from dure.files.problem import nearest_of
from dure.files.reading import Reading
from dure.model.accelerator import AcceleratorProfile, ShareMode
from dure.model.demand import on_class
from dure.model.pulse import Scaling
from dure.model.units import WHOLE_MILLI, gib, percent
from dure.model.workload import Replicas, Slo, Workload, WorkloadType


def check_workload(workload: Workload, known: Known, into: Reading) -> None:
    _check_type(workload, into)
    _check_times(workload, into)
    _check_demand(workload, into)
    profiles = _profiles(workload, known, into)
    if profiles and len(profiles) == len(workload.classes):
        _check_fit(workload, profiles, into)
        _check_share(workload, profiles, into)
    _check_model(workload, known, into)
    if known.fleets:
        _check_fleet(workload, known, into)


def _check_type(workload: Workload, into: Reading) -> None:
    """Keys that mean nothing for this type, and counts that contradict each other."""
    low, high = workload.replicas.min, workload.replicas.max
    if low > high:
        into.at("spec.replicas", f"min {low} is more than max {high}")
    serving = workload.type is WorkloadType.SERVING
    if serving and workload.gang > 1:
        into.at("spec.gang", "a serving workload has replicas, not a gang", "Use replicas: {min: 2, max: 4}.")
    if serving and workload.deadline_s is not None:
        into.at("spec.deadline", "a serving workload does not end; a deadline is for training and batch")
    if not serving and workload.replicas != Replicas():
        into.at("spec.replicas", f"a {workload.type} workload has a gang, not replicas", "Use gang: 4.")
    if not serving and workload.rate_per_s:
        into.at("spec.rate", "only a serving workload takes requests")
    if not serving and workload.scaling is not Scaling.AUTO:
        into.at("spec.scaling", "only a serving workload has replicas to scale")
    if not serving and workload.slo != Slo():
        into.at("spec.slo", "only a serving workload has an SLO", "Use deadline: 8h.")
    sizes = [each.replicas for each in workload.speedups]
    if len(set(sizes)) < len(sizes):
        into.at("spec.speedups", "names the same number of replicas twice")


def _check_times(workload: Workload, into: Reading) -> None:
    if workload.type is not WorkloadType.SERVING and not workload.duration_s:
        into.at("spec", "no 'duration': Dure cannot tell cost or finish before it has run", warn=True)
    if workload.checkpoint_s > workload.duration_s > 0:
        into.at("spec.checkpoint", "is longer than the duration: there will be no checkpoint", warn=True)
    if workload.deadline_s is None or not workload.classes:
        return
    best = max(workload.classes, key=lambda accepted: accepted.speed)
    fastest_s = workload.duration_s / best.speed if best.speed else workload.duration_s
    if workload.deadline_s < fastest_s:
        needed = f"on {best.name}, the fastest class, it takes {_hours(fastest_s)}"
        into.at(
            "spec.deadline",
            f"{_hours(workload.deadline_s)} is too short: {needed}",
            "Give it more time or accept a faster class.",
        )


def _check_demand(workload: Workload, into: Reading) -> None:
    demand = workload.demand
    for key, milli in (("compute", demand.compute_milli), ("bandwidth", demand.bandwidth_milli)):
        if milli > WHOLE_MILLI:
            message = f"{percent(milli)} is more than a whole device"
            into.at(f"spec.demand.{key}", message, "Ask for whole devices: demand: {devices: 2}.")
        if milli and demand.whole:
            message = f"a share is asked for beside {demand.devices} whole devices; leave out one of the two"
            into.at(f"spec.demand.{key}", message)
    if not (demand.whole or demand.memory_mib or demand.compute_milli or demand.bandwidth_milli):
        into.at("spec.demand", "asks for nothing: give devices, or memory, compute or bandwidth of one device")


def _profiles(workload: Workload, known: Known, into: Reading) -> list[AcceleratorProfile]:
    """The accepted classes that exist, in order; problems for the others."""
    if not workload.classes:
        message = "the key 'classes' is missing, and the catalogue has no model to take it from"
        into.at("spec", message, "Add classes: [{name: a10g}].")
    elif workload.classes[0].speed != 1.0:
        message = f"the first class is the measure: its speed is 1, found {workload.classes[0].speed:g}"
        into.at("spec.classes[0].speed", message, "Divide all speeds by it.")
    found = [
        known.accelerator(accepted.name, f"spec.classes[{index}]", into)
        for index, accepted in enumerate(workload.classes)
    ]
    return [profile for profile in found if profile is not None]


def _check_fit(workload: Workload, profiles: list[AcceleratorProfile], into: Reading) -> None:
    largest = max(profiles, key=lambda profile: profile.memory_mib)
    wanted = workload.demand.memory_mib
    if wanted > largest.memory_mib:
        message = f"{gib(wanted)} per device is more than any accepted class has; the largest is {largest.name}"
        into.at("spec.demand.memory", f"{message} with {gib(largest.memory_mib)}", "Accept a class with more memory.")
        return
    for index, profile in enumerate(profiles):
        at = f"spec.classes[{index}]"
        if wanted > profile.memory_mib:
            into.at(
                at, f"{profile.name} has {gib(profile.memory_mib)}, less than the {gib(wanted)} asked for", warn=True
            )
        here = on_class(workload.demand, profile, profiles[0])
        share = max(here.compute_milli, here.bandwidth_milli)
        if index and share > WHOLE_MILLI:
            into.at(at, f"the demand is {percent(share)} of a {profile.name}, more than a whole one", warn=True)


def _check_share(workload: Workload, profiles: list[AcceleratorProfile], into: Reading) -> None:
    if not workload.share:
        return
    if workload.demand.whole and ShareMode.EXCLUSIVE not in workload.share:
        into.at("spec.share", f"{workload.demand.devices} whole devices need the mode 'exclusive'")
        return
    offered = {mode for profile in profiles for mode in profile.share}
    if not offered & set(workload.share):
        can = ", ".join(sorted(offered))
        into.at("spec.share", f"none of these modes is possible on the accepted classes; possible: {can}")


def _check_model(workload: Workload, known: Known, into: Reading) -> None:
    if not workload.model:
        return
    model = known.catalogue.models.get(workload.model)
    if model is None:
        near = nearest_of(workload.model, known.catalogue.models)
        into.at("spec.model", f"unknown model '{workload.model}': taken to load at once", near, warn=True)
        return
    held = workload.demand.memory_mib * max(1, workload.demand.devices)
    if 0 < held < model.weights_mib:
        message = f"{gib(held)} cannot hold the {gib(model.weights_mib)} weights of {model.name}"
        into.at("spec.demand.memory", message, warn=True)


def _check_fleet(workload: Workload, known: Known, into: Reading) -> None:
    """What the known fleet cannot give today; it may grow, so these only warn."""
    regions = {cluster.info.region for fleet in known.fleets for cluster in fleet.clusters}
    for index, pattern in enumerate(workload.regions):
        if not any(fnmatch.fnmatchcase(region, pattern) for region in regions):
            there = f"There are: {', '.join(sorted(regions))}"
            into.at(f"spec.regions[{index}]", f"'{pattern}' matches no region of the fleet", there, warn=True)
    accepted = {each.name for each in workload.classes}
    pools = [pool for pool in known.pools() if pool.class_name in accepted]
    if accepted and not pools:
        into.at("spec.classes", "no pool of the fleet has any of the accepted classes", warn=True)
    elif pools and workload.demand.devices > max(pool.devices for pool in pools):
        most = max(pool.devices for pool in pools)
        into.at(
            "spec.demand.devices", f"no node of the fleet has more than {most} devices of these classes", warn=True
        )
    if workload.tenant and workload.tenant not in known.tenants:
        near = hint(workload.tenant, known.tenants)
        into.at("metadata.tenant", f"the fleet has no tenant '{workload.tenant}'", near, warn=True)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"
