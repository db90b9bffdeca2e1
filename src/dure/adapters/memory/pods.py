"""The life of a workload's pods: created, bound, loading, running, done, crashed, lost.

Called by `cluster` for commands and for what happens by itself. A gang lives and dies as one; replicas of a
serving are independent and come back as pending pods when they are lost, as those of a ReplicaSet do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from msgspec.structs import replace

from dure.adapters.kube import names
from dure.adapters.memory import chance, serving
from dure.adapters.memory.laws import Laws
from dure.adapters.memory.world import Kind, Work, World
from dure.adapters.podspec import rules_of, template_of
from dure.model.cluster import Node, Pod, PodPhase
from dure.model.decision import Bind
from dure.model.report import Desired
from dure.model.units import HOUR_S, Seconds
from dure.model.workload import Workload, WorkloadType

# Part of a cold load that is left when the weights are on the node's disk, or somewhere in the cluster.
_WARM_NODE, _WARM_CLUSTER = 0.25, 0.6
_CONTAINER_S = 2.0
_RECUT_S = 10.0
# Work of a job that came without an estimate.
_UNKNOWN_S = 1800.0
WARM_LABEL = "dure.dev/warm."


def pod_name(desired: Desired, index: int) -> str:
    """Readable, and different for two workloads of one name and for two generations of one workload."""
    key = f"{desired.uid}/{desired.placement.generation}"
    return f"{desired.spec.name}-{hashlib.blake2b(key.encode(), digest_size=3).hexdigest()}-{index}"


def create(world: World, desired: Desired, base_s: Seconds) -> Work:
    work = Work(desired=desired, pods=[], base_s=base_s, stamp=world.new_stamp())
    world.works[desired.uid] = work
    for index in range(desired.placement.replicas or desired.spec.size):
        work.pods.append(_create_pod(world, work, index))
    return work


def resize_serving(world: World, work: Work, desired: Desired) -> None:
    """The same home with another number of replicas: those that run go on, surplus ones leave from the end."""
    serving.count(world, work)
    work.desired = desired
    for name in work.pods:
        world.put_pod(replace(world.pods[name], generation=desired.placement.generation))
    while len(work.pods) > desired.placement.replicas:
        world.drop_pod(work.pods.pop())
    for index in range(len(work.pods), desired.placement.replicas):
        work.pods.append(_create_pod(world, work, index))


def remove(world: World, work: Work) -> None:
    for name in work.pods:
        world.drop_pod(name)
    work.pods = []
    interrupt(world, work)


def start(world: World, laws: Laws, binds: Sequence[Bind]) -> None:
    """Bind what `legality` has found right; each pod comes up once its container runs and its model is loaded."""
    for bind in binds:
        pod, node = world.pods[bind.pod], world.nodes[bind.node]
        recut = _recut(world, node, bind)
        world.put_pod(replace(pod, node=bind.node, slices=bind.slices, phase=PodPhase.STARTING, message=""))
        _load(world, laws, pod.name, _RECUT_S if recut else 0.0)


def on_up(world: World, laws: Laws, name: str) -> None:
    pod = world.pods[name]
    work = world.work_of(pod)
    if pod.type is WorkloadType.SERVING:
        serving.count(world, work)
    world.put_pod(replace(pod, phase=PodPhase.RUNNING, started_s=world.now_s))
    _remember_model(world, pod)
    if pod.type is WorkloadType.SERVING:
        serving.open_doors(world, work)
        work.speed = speed_of(work.desired, _class_of(world, pod))
        per_s = laws.hazards.crash_per_h / HOUR_S
        crash_s = chance.exponential(per_s, world.seed, "crash", name, work.attempts)
        world.expect(world.now_s + crash_s, Kind.POD_CRASHES, name)
    elif all(world.pods[member].phase is PodPhase.RUNNING for member in work.pods):
        _run(world, laws, work)


def on_pod_crash(world: World, laws: Laws, name: str) -> None:
    """A serving replica starts again where it is."""
    pod = world.pods[name]
    work = world.work_of(pod)
    serving.count(world, work)
    work.attempts += 1
    work.message = f"{name} crashed and starts again"
    world.put_pod(replace(pod, phase=PodPhase.STARTING, started_s=None))
    _load(world, laws, name, 0.0)


def on_work_crash(world: World, laws: Laws, work: Work) -> None:
    """Back to the last checkpoint, on the same nodes, a limited number of times."""
    interrupt(world, work)
    work.attempts += 1
    if work.attempts > laws.hazards.restarts:
        on_work_end(world, work, PodPhase.FAILED, f"crashed {work.attempts} times")
        return
    work.message = f"crashed, restart {work.attempts} of {laws.hazards.restarts}"
    for name in work.pods:
        world.put_pod(replace(world.pods[name], phase=PodPhase.STARTING, started_s=None))
        _load(world, laws, name, 0.0)


def on_work_end(world: World, work: Work, phase: PodPhase, message: str) -> None:
    if phase is PodPhase.SUCCEEDED and work.since_s is not None:
        work.base_s += (world.now_s - work.since_s) * work.speed
        work.since_s = None
    interrupt(world, work)
    work.finished_s = world.now_s
    work.message = message
    for name in work.pods:
        world.put_pod(replace(world.pods[name], phase=phase, finished_s=world.now_s, message=message))


def lose(world: World, pod: Pod, why: str) -> None:
    """The pod goes away before it is done. A gang goes with it and waits for a new placement."""
    work = world.work_of(pod)
    if pod.type is WorkloadType.SERVING:
        serving.count(world, work)
        work.message = why
        world.drop_pod(pod.name)
        work.pods[work.pods.index(pod.name)] = _create_pod(world, work, pod.index, message=why)
        return
    remove(world, work)
    work.lost = work.message = why


def interrupt(world: World, work: Work) -> None:
    """Keep what is safe; nothing foreseen for this run happens any more."""
    work.base_s = work.safe_s(world.now_s)
    work.since_s = None
    work.stamp = world.new_stamp()


def true_s(seed: int, spec: Workload, sigma: float) -> Seconds:
    """How much work there really is: the estimate times a draw with mean one. It follows the name, not the place."""
    estimate_s = spec.duration_s or _UNKNOWN_S
    return estimate_s * math.exp(sigma * chance.normal(seed, "truth", spec.name) - sigma * sigma / 2)


def speed_of(desired: Desired, class_name: str) -> float:
    return desired.spec.speed_with(class_name, desired.placement.replicas or desired.spec.size)


def _create_pod(world: World, work: Work, index: int, message: str = "") -> str:
    spec, placement = work.desired.spec, work.desired.placement
    alone = spec.type is WorkloadType.SERVING
    namespace = names.namespace_of(spec.tenant)
    template = template_of(spec.template)
    labels = {**template.labels, names.UID: work.desired.uid, names.WORKLOAD: spec.name, names.TENANT: spec.tenant}
    pod = Pod(
        name=pod_name(work.desired, index),
        uid=work.desired.uid,
        tenant=spec.tenant,
        type=spec.type,
        demand=spec.demand,
        classes=tuple(accepted.name for accepted in spec.classes),
        workload=spec.name,
        generation=placement.generation,
        pool=placement.pool,
        gang=1 if alone else placement.replicas or spec.size,
        index=index,
        priority=spec.priority,
        share=(placement.mode,),
        model=spec.model,
        interruptible=spec.interruptible,
        checkpoint_s=spec.checkpoint_s,
        created_s=world.now_s,
        message=message,
        namespace=namespace,
        labels=labels,
        selector=template.selector,
        tolerations=template.tolerations,
        rules=rules_of(template.affinity, template.spread, namespace, labels),
    )
    world.put_pod(pod)
    return pod.name


def _run(world: World, laws: Laws, work: Work) -> None:
    """All members are up: from now on work is done, until it ends, fails for good or crashes."""
    desired, hazards = work.desired, laws.hazards
    spec = desired.spec
    work.since_s = world.now_s
    work.started_s = world.now_s if work.started_s is None else work.started_s
    work.speed = speed_of(desired, _class_of(world, world.pods[work.pods[0]]))
    total_s = true_s(world.seed, spec, hazards.duration_sigma)
    if chance.uniform(world.seed, "doomed", spec.name) < hazards.doomed:
        total_s *= chance.uniform(world.seed, "doomed at", spec.name)
        kind = Kind.WORK_FAILS
    else:
        kind = Kind.WORK_DONE
    left_s = max(0.0, total_s - work.base_s) / work.speed
    key = (spec.name, desired.placement.generation, work.attempts)
    crash_s = chance.exponential(hazards.crash_per_h / HOUR_S * len(work.pods), world.seed, "crash", *key)
    if crash_s < left_s:
        kind = Kind.WORK_CRASHES
    world.foresee(world.now_s + min(left_s, crash_s), kind, desired.uid, work.stamp)


def _load(world: World, laws: Laws, name: str, extra_s: Seconds) -> None:
    pod = world.pods[name]
    label = WARM_LABEL + pod.model
    load_s = laws.catalogue.load_s(pod.model)
    if label in world.nodes[pod.node].labels:
        load_s *= _WARM_NODE
    elif any(label in node.labels for node in world.nodes.values()):
        load_s *= _WARM_CLUSTER
    jitter = 0.9 + 0.2 * chance.uniform(world.seed, "load", world.cluster, name, world.works[pod.uid].attempts)
    world.expect(world.now_s + extra_s + _CONTAINER_S + load_s * jitter, Kind.POD_UP, name)


def _remember_model(world: World, pod: Pod) -> None:
    node = world.nodes[pod.node]
    label = WARM_LABEL + pod.model
    if pod.model and label not in node.labels:
        world.put_node(replace(node, labels={**node.labels, label: "true"}))


def _recut(world: World, node: Node, bind: Bind) -> bool:
    """Cut the devices as the slices need it; whether that was a change."""
    modes = {part.device: part.mode for part in bind.slices}
    devices = tuple(replace(device, mode=modes.get(device.id, device.mode)) for device in node.devices)
    if devices == node.devices:
        return False
    world.put_node(replace(node, devices=devices))
    return True


def _class_of(world: World, pod: Pod) -> str:
    named = {device.id: device.class_name for device in world.nodes[pod.node].devices}
    return named[pod.slices[0].device] if pod.slices else next(iter(named.values()), "")
