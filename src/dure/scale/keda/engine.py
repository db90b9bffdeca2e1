"""KEDA as a whole: the polling loop between zero, idle and running, and the generated HPA for the rest.

Called by the simulator and the what-if commands with a sight of the world at each HPA sync. The loop acts only
when its polling interval has passed; the HPA acts at every call, as the real pair does.
"""

from __future__ import annotations

import msgspec

from dure.scale.hpa.engine import Outcome, sync
from dure.scale.hpa.normalize import HpaState
from dure.scale.hpa.observe import Pod, Sight
from dure.scale.hpa.spec import DEFAULT_FLAGS, Flags
from dure.scale.keda.serve import Failed, Value, composite, serve
from dure.scale.keda.spec import ScaledObject, generated_hpa


class KedaState(msgspec.Struct, frozen=True):
    """What survives between calls."""

    hpa: HpaState = HpaState()
    failures: dict[str, int] = msgspec.field(default_factory=dict)
    last_active_s: float | None = None
    next_poll_s: float = 0.0


class KedaSight(msgspec.Struct, frozen=True):
    """One look at the world; `values` follows the order of the triggers."""

    now_s: float
    spec_replicas: int
    status_replicas: int
    ready: int
    values: tuple[Value, ...]


class Move(msgspec.Struct, frozen=True):
    """What the loop wants; `replicas` equals the current count when it leaves the rest to the HPA."""

    replicas: int
    reason: str
    active: bool
    last_active_s: float | None


class Step(msgspec.Struct, frozen=True):
    """The result of one call: the replica count after loop and HPA, who set it, the HPA's own outcome."""

    replicas: int
    reason: str
    state: KedaState
    fallback: bool
    hpa: Outcome | None


def tick(scaled: ScaledObject, state: KedaState, sight: KedaSight, flags: Flags = DEFAULT_FLAGS) -> Step:
    """Poll if due, then let the HPA sync on what the loop left. O(triggers + records)."""
    replicas, reason = sight.spec_replicas, ""
    if sight.now_s >= state.next_poll_s:
        move = poll(scaled, state, sight)
        replicas, reason = move.replicas, move.reason
        state = msgspec.structs.replace(
            state, last_active_s=move.last_active_s, next_poll_s=sight.now_s + scaled.polling_s
        )
    if scaled.pause.paused or scaled.pause.replicas is not None:
        return Step(replicas, reason or "Paused", state, False, None)
    served = serve(scaled, sight.values, state.failures, replicas, sight.ready)
    pods = tuple(Pod(f"ready-{index}") for index in range(sight.ready))
    seen = Sight(sight.now_s, replicas, sight.status_replicas, served.readings, pods)
    outcome = sync(generated_hpa(scaled), state.hpa, seen, flags)
    state = msgspec.structs.replace(state, hpa=outcome.state, failures=served.failures)
    return Step(outcome.replicas, outcome.reason or reason, state, served.fallback, outcome)


def poll(scaled: ScaledObject, state: KedaState, sight: KedaSight) -> Move:
    """One round of the ScaledObject loop."""
    current, last = sight.spec_replicas, state.last_active_s
    if scaled.pause.replicas is not None:
        return Move(scaled.pause.replicas, "PausedReplicas", False, last)
    if scaled.pause.paused:
        return Move(current, "Paused", False, last)
    failed = any(isinstance(value, Failed) for value in sight.values)
    if is_active(scaled, sight.values):
        return _when_active(scaled, current, sight.now_s)
    if failed:
        return Move(current, "TriggerError", False, last)
    return _when_idle(scaled, current, sight.now_s, last)


def is_active(scaled: ScaledObject, values: tuple[Value, ...]) -> bool:
    """Strictly above the activation threshold, or forced by annotation."""
    if scaled.force_activation:
        return True
    if scaled.modifiers is not None:
        value = composite(scaled, values)
        return not isinstance(value, Failed) and value > scaled.modifiers.activation
    pairs = zip(scaled.triggers, values, strict=True)
    return any(not isinstance(value, Failed) and value > trigger.activation for trigger, value in pairs)


def _when_active(scaled: ScaledObject, current: int, now_s: float) -> Move:
    idling = scaled.idle_replicas is not None and current < scaled.min_replicas
    if (current == 0 or idling) and not scaled.pause.scale_out:
        return Move(max(scaled.min_replicas, 1), "ScaleTargetActivated", True, now_s)
    return Move(current, "ScalerActive", True, now_s)


def _when_idle(scaled: ScaledObject, current: int, now_s: float, last: float | None) -> Move:
    idle = scaled.idle_replicas
    leave = (idle is not None and current > idle) or (current > 0 and scaled.min_replicas == 0)
    if leave:
        if scaled.pause.scale_in:
            return Move(current, "PausedScaleIn", False, last)
        if not _cooled(scaled, now_s, last):
            return Move(current, "ScalerCooldown", False, last)
        return Move(idle if idle is not None else 0, "ScaleTargetDeactivated", False, last)
    if current < scaled.min_replicas and idle is None:
        return Move(scaled.min_replicas, "ScalerNotActive", False, last)
    return Move(current, "ScalerNotActive", False, last)


def _cooled(scaled: ScaledObject, now_s: float, last: float | None) -> bool:
    if last is None:
        return scaled.created_s + scaled.initial_cooldown_s < now_s or scaled.initial_cooldown_s == 0
    return last + scaled.cooldown_s < now_s
