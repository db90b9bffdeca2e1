"""A learned alternative to `adapt`: a contextual bandit over whole settings of the weights, kept safe.

Per context (load low, middle, high) it keeps the mean cost of each arm and tries the one with the lowest confidence
bound (UCB1 on cost). Safe: arm 0 is the rule of `adapt`; an arm whose mean is worse than the rule's by more than the
margin is not played again in that context, and until the rule itself has been seen `warm_up` times only it is
played. Deterministic: no draw, ties go to the lower arm. Same interface as `adapted`: weights and window in, weights
out. When not to use it: with fewer than some hundred windows per context it is the rule with extra words.
"""

from __future__ import annotations

import math

import msgspec

from dure.model.weights import Weights
from dure.place.adapt import DEFAULT, Adaptation, Window, adapted


class Arm(msgspec.Struct, frozen=True):
    """A setting: multipliers on what the rule says. (1, 1, 1) is the rule itself."""

    slo: float = 1.0
    locality: float = 1.0
    congestion: float = 1.0


ARMS = (Arm(), Arm(slo=2.0), Arm(locality=1.5), Arm(locality=0.5), Arm(congestion=1.5), Arm(congestion=0.5))


class Score(msgspec.Struct, frozen=True):
    plays: int = 0
    mean_cost: float = 0.0


class Bandit(msgspec.Struct, frozen=True):
    """Its whole memory: scores by context and arm, the rule's own weights, and what was played last."""

    scores: dict[str, tuple[Score, ...]] = {}
    rule_weights: Weights = Weights()
    played: int = 0
    context: str = "middle"


class Caution(msgspec.Struct, frozen=True):
    """`explore` scales the confidence width, relative to the rule's mean cost."""

    warm_up: int = 5
    margin: float = 0.02
    explore: float = 0.1


CAUTIOUS = Caution()


def learned(
    bandit: Bandit, window: Window, cost: float | None, caution: Caution = CAUTIOUS, rule: Adaptation = DEFAULT
) -> tuple[Bandit, Weights]:
    """Book `cost` (per unit of work, None without any) of the window that has ended; answer the next weights."""
    scores = dict(bandit.scores)
    if cost is not None:
        seen = scores.get(bandit.context, (Score(),) * len(ARMS))
        scores[bandit.context] = tuple(
            _booked(score, cost) if arm == bandit.played else score for arm, score in enumerate(seen)
        )
    context = context_of(window)
    arm = choose(scores.get(context, (Score(),) * len(ARMS)), caution)
    weights = adapted(bandit.rule_weights, window, rule)
    return Bandit(scores, weights, arm, context), _played(weights, ARMS[arm], rule)


def choose(scores: tuple[Score, ...], caution: Caution = CAUTIOUS) -> int:
    """The arm to play next."""
    base = scores[0]
    if base.plays < caution.warm_up:
        return 0
    total = sum(score.plays for score in scores)
    bounds = []
    for arm, score in enumerate(scores):
        if arm > 0 and score.plays >= caution.warm_up and score.mean_cost > base.mean_cost * (1 + caution.margin):
            continue
        width = caution.explore * base.mean_cost * math.sqrt(math.log(total) / max(1, score.plays))
        mean = score.mean_cost if score.plays else base.mean_cost
        bounds.append((mean - width, arm))
    return min(bounds)[1]


def context_of(window: Window) -> str:
    """Load of the fleet: the mean use of its pools."""
    use = sum(window.use.values()) / len(window.use) if window.use else 0.0
    return "low" if use < 0.4 else "high" if use > 0.8 else "middle"


def _booked(score: Score, cost: float) -> Score:
    plays = score.plays + 1
    return Score(plays, score.mean_cost + (cost - score.mean_cost) / plays)


def _played(weights: Weights, arm: Arm, rule: Adaptation) -> Weights:
    return Weights(
        slo=max(rule.slo_low, min(rule.slo_high, weights.slo * arm.slo)),
        locality=max(rule.locality_low, min(rule.locality_high, weights.locality * arm.locality)),
        congestion={
            # The factors of the hours stay as they are: what is tried is how much congestion counts between homes.
            key: price if "@" in key else max(rule.price_low, min(rule.price_high, price**arm.congestion))
            for key, price in weights.congestion.items()
        },
    )
