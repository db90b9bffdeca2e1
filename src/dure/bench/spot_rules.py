"""The rules that `dure bench spot` compares: ours and its opponents, all under the same guard.

Uniform Progress follows "Can't Be Late" (NSDI'24): on-demand while behind the straight line to the deadline, spot
once ahead of it by two restarts. The reserve rule keeps a fixed amount of slack; what its two constants
stand for is what ours learns.
"""

from __future__ import annotations

from dure.bench.spot_replay import Moment, Rule
from dure.place.spot import Rent, choose, may_launch_spot

OURS = "dure"


def on_demand(_: Moment) -> Rent:
    return Rent.ON_DEMAND


def greedy(moment: Moment) -> Rent:
    """Spot when there is some, wait when there is none, on-demand when the time is up."""
    if _late(moment):
        return Rent.ON_DEMAND
    return _spot(moment) if moment.view.up else Rent.IDLE


def eager(moment: Moment) -> Rent:
    """Spot when there is some, on-demand when there is none."""
    if _late(moment) or not moment.view.up:
        return Rent.ON_DEMAND
    return _spot(moment)


def uniform_progress(moment: Moment) -> Rent:
    view, job = moment.view, moment.job
    if _late(moment):
        return Rent.ON_DEMAND
    if view.running is Rent.SPOT:
        return Rent.SPOT
    pace = job.work_s / job.deadline_s
    ahead = moment.done_s >= (moment.now_s + 2 * job.restart_s) * pace
    if view.running is Rent.ON_DEMAND:
        if not ahead:
            return Rent.ON_DEMAND
        return _spot(moment) if view.up else Rent.IDLE
    if view.up:
        return _spot(moment)
    return Rent.IDLE if moment.done_s >= moment.now_s * pace else Rent.ON_DEMAND


def reserve(moment: Moment) -> Rent:
    view, job = moment.view, moment.job
    if _late(moment):
        return Rent.ON_DEMAND
    if view.up:
        hop = view.running is Rent.ON_DEMAND and view.slack_s <= 2 * job.restart_s + 4 * view.look_s
        return Rent.ON_DEMAND if hop else _spot(moment)
    kept_s = min(12 * job.restart_s, 0.6 * (job.deadline_s - job.work_s))
    return Rent.IDLE if view.slack_s > kept_s + job.restart_s else Rent.ON_DEMAND


def ours(moment: Moment) -> Rent:
    """The plane's own rule, which has its guard in itself."""
    return choose(moment.view, moment.seen)


RULES: dict[str, Rule] = {
    "on-demand": on_demand,
    "greedy": greedy,
    "eager": eager,
    "uniform-progress": uniform_progress,
    "reserve": reserve,
    OURS: ours,
}


def _late(moment: Moment) -> bool:
    """The guard that all share: on-demand now, or it may be too late at the next look."""
    view = moment.view
    return moment.bound or view.slack_s < view.restart_s + view.look_s


def _spot(moment: Moment) -> Rent:
    running = moment.view.running is Rent.SPOT
    return Rent.SPOT if running or may_launch_spot(moment.view) else Rent.ON_DEMAND
