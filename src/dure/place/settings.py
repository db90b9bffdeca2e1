"""What a Policy of verb `place` may set, with defaults that suit a fleet nobody has tuned.

Read once per cycle from the snapshot; an unknown key is an error that names the nearest valid one.
"""

from __future__ import annotations

import enum

import msgspec

from dure.model.errors import InvalidInput
from dure.model.policy import Policy
from dure.model.settings import settings_as
from dure.model.units import Instant, Seconds
from dure.place.learn import Learning
from dure.place.solver import PLAIN_OPTIONS, Ascent, Limits, Method, Search, Solver

# Of the congestion prices in one cycle: enough to steer by, where a bound would want more.
ASCENT_STEPS = 60
# Of its slack one that stands aside may use without a home to fall back on: it may wait for as long again.
HALF = 0.5


class StandAside(enum.StrEnum):
    """Whether those who run are asked together with those who wait if they stop and go on later: never, for somebody
    in a hurry, or whenever it saves money."""

    NEVER = "never"
    HURRIED = "hurried"
    ALWAYS = "always"


class PlaceSettings(msgspec.Struct, frozen=True):
    """`duration_*` are quantiles of the true run time as multiples of the estimate.

    `wait_charge_per_day` is what a day of waiting costs as a share of the price, `forecast_margin_per_day` how far
    tomorrow's price may be from its forecast; a later hour has to save more than both. `exact_jobs` is the largest
    batch that goes to the exact solver, `ruin_jobs` the smallest that is searched where its options are many.
    `learning` is how the adaptive weights move: rule, bandit or off.

    `spot_late_factor`: a spot run that could not be begun again elsewhere in time costs this many times its price,
    times the chance of a reclaim.

    Moves: the saving on what is left must pass `move_threshold` of the bill of staying to be planned, and half of it
    when the checkpoint has come (hysteresis); nobody moves twice within `move_cooldown_h`, at most `moves_at_once`
    are under way and at most `moves_per_hour` begin. 0 moves at once switches moves off. `stand_aside` says for
    whom those who run are asked to stop and go on later; they have to be planned to go on within `aside_slack` of the
    slack that a slow run leaves (left out: half of it for those in a hurry, all of it for `always`), and within half
    of it where there is no other home with plenty of room to fall back on.

    `opening_h`: the rest of a node that has to be booted counts for so many hours in the choice: nobody is there yet
    to share it with.

    Goals of an owner: the `*_weight`s multiply the terms of the bill in the choice (never in the bill), nobody is
    deferred beyond `longest_wait_h` after its submission (0: no such limit), `spot: false` keeps all off spot,
    `preempt: false` lets nobody take the place of a lower priority.

    `turn_after_h`: one that has waited so long for room keeps its turn (0: nobody does).
    """

    method: str = "auto"
    horizon_h: int = 36
    duration_low: float = 0.8
    duration_high: float = 1.3
    wait_charge_per_day: float = 0.1
    forecast_margin_per_day: float = 0.01
    late_hour_factor: float = 3.0
    latency_miss_factor: float = 4.0
    spot_late_factor: float = 10.0
    opening_h: float = 1.0
    exact_jobs: int = 6
    exact_nodes: int = 50
    ruin_jobs: int = 64
    iterations_per_job: int = 300
    move_threshold: float = 0.15
    move_cooldown_h: float = 6.0
    moves_at_once: int = 4
    moves_per_hour: int = 12
    stand_aside: StandAside = StandAside.HURRIED
    aside_slack: float | None = None
    learning: str = "rule"
    money_weight: float = 1.0
    carbon_weight: float = 1.0
    sla_weight: float = 1.0
    rework_weight: float = 1.0
    reuse_weight: float = 1.0
    longest_wait_h: float = 0.0
    spot: bool = True
    preempt: bool = True
    turn_after_h: float = 0.5

    @property
    def weighted(self) -> bool:
        """Whether the owner wants the terms of a bill to count otherwise than they cost."""
        weights = (self.money_weight, self.carbon_weight, self.sla_weight, self.rework_weight, self.reuse_weight)
        return weights != (1.0,) * len(weights)

    @property
    def careful(self) -> float:
        """Half way between the estimate and a slow run: guarding early is dear, guarding late is late."""
        return (1.0 + self.duration_high) / 2

    @property
    def slack_share(self) -> float:
        if self.aside_slack is not None:
            return self.aside_slack
        return 1.0 if self.stand_aside is StandAside.ALWAYS else HALF

    def latest_start(self, now_s: Instant, due_s: Instant, left_s: Seconds, *, safe: bool) -> Instant:
        """By when one that stands aside must be planned to go on: within its share of the slack that it has if the
        `left_s`, the interruption counted, are a slow run; `safe` where it is sure to find a home by then.

        Time may be counted in anything, from anywhere.
        """
        share = self.slack_share if safe else min(self.slack_share, HALF)
        both = now_s + due_s - self.duration_high * left_s
        return share * both + (1 - 2 * share) * now_s

    def solver(self, jobs: int, options: int) -> Solver:
        """`auto`: ruin and recreate where many have much to choose, else exact for a few jobs, regret and settling.

        Ruin and recreate is compiled code, so it has to be worth its loading.
        """
        method = Method(self.method) if self.method != "auto" else Method.REGRET
        if self.method == "auto" and jobs >= self.ruin_jobs and options > PLAIN_OPTIONS:
            method = Method.RUIN
        elif self.method == "auto" and jobs <= self.exact_jobs:
            method = Method.EXACT
        return Solver(
            method,
            Search(iterations_per_job=self.iterations_per_job),
            Ascent(steps=ASCENT_STEPS),
            limits=Limits(seconds=5.0, nodes=self.exact_nodes, gap=1e-6),
        )


OWN = "own-"


def settings_of(policy: Policy) -> PlaceSettings:
    """The policy's settings, checked. `algorithm: own-NAME` is a policy of the owner's, with settings of its own."""
    own = policy.algorithm.startswith(OWN)
    method = {"method": policy.algorithm} if policy.algorithm != "default" and not own else {}
    made = settings_as(policy, PlaceSettings, {**method, **_aside(policy)}, lenient=own)
    if made.method != "auto" and made.method not in tuple(Method):
        raise InvalidInput(
            f"policy {policy.name}: no placement method '{made.method}'",
            remedy=f"Known: auto, {', '.join(Method)}, or {OWN}NAME for one of your own",
        )
    if made.learning not in tuple(Learning):
        raise InvalidInput(
            f"policy {policy.name}: no way of learning '{made.learning}'", remedy=f"Known: {', '.join(Learning)}"
        )
    if made.aside_slack is not None and not 0.0 <= made.aside_slack <= 1.0:
        raise InvalidInput(f"policy {policy.name}: asideSlack is {made.aside_slack:g}", remedy="A share, from 0 to 1")
    return made


def _aside(policy: Policy) -> dict[str, StandAside]:
    """`standAside` by its name; true and false, as it was written before, are `hurried` and `never`."""
    given = [policy.settings[key] for key in ("standAside", "stand_aside") if key in policy.settings]
    if not given:
        return {}
    value = given[-1]
    if isinstance(value, bool):
        return {"stand_aside": StandAside.HURRIED if value else StandAside.NEVER}
    if value not in tuple(StandAside):
        raise InvalidInput(
            f"policy {policy.name}: no way of standing aside '{value}'",
            remedy=f"Known: {', '.join(StandAside)} (true is hurried, false is never)",
        )
    return {"stand_aside": StandAside(str(value))}
