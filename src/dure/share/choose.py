"""The policy that chooses the policy: rules over the device's state, with hysteresis.

The first rule whose condition holds names the policy; users write their own in YAML. A change takes effect only after
the rule has held for `dwell` decisions in a row, and then between two squads, so nothing in flight is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from dure.model.errors import InvalidInput

Sign = Literal["risk", "load", "late", "batch", "queue"]


class Mood(msgspec.Struct, frozen=True):
    """Signs of one device, all from 0 up: greatest risk of a promise, offered load, part of answers late, part of the
    tenants that are batch work, requests waiting for each tenant."""

    risk: float = 0.0
    load: float = 0.0
    late: float = 0.0
    batch: float = 0.0
    queue: float = 0.0


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Use `policy` while every `at_least` and `below` holds."""

    policy: str
    at_least: dict[Sign, float] = {}
    below: dict[Sign, float] = {}


class Goals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user's goals for a device, in order of urgency; the last resort is `otherwise`."""

    rules: tuple[Rule, ...] = ()
    otherwise: str = "slack-guarded"
    dwell: int = 10


DEFAULT = Goals(
    rules=(
        Rule("jct", at_least={"batch": 1.0}),
        Rule("hybrid", at_least={"risk": 0.5, "load": 1.0}),
        Rule("slo", at_least={"risk": 0.9}),
        Rule("hybrid", at_least={"batch": 0.3}),
    ),
)


class Choice(msgspec.Struct, frozen=True):
    """The policy in force, and the one that has been asked for `asked` times in a row."""

    policy: str
    wanted: str = ""
    asked: int = 0


def wanted(mood: Mood, goals: Goals) -> str:
    """The policy the rules name for this state."""
    for rule in goals.rules:
        if all(getattr(mood, sign) >= limit for sign, limit in rule.at_least.items()) and all(
            getattr(mood, sign) < limit for sign, limit in rule.below.items()
        ):
            return rule.policy
    return goals.otherwise


def choose(before: Choice, mood: Mood, goals: Goals) -> Choice:
    """The choice after one more decision."""
    name = wanted(mood, goals)
    if name == before.policy:
        return Choice(before.policy)
    asked = before.asked + 1 if name == before.wanted else 1
    if asked >= goals.dwell:
        return Choice(name)
    return Choice(before.policy, name, asked)


def check(goals: Goals, known: Sequence[str]) -> Goals:
    """The goals, or `InvalidInput` naming a policy that does not exist."""
    for name in (*(rule.policy for rule in goals.rules), goals.otherwise):
        if name not in known:
            raise InvalidInput(f"no sharing policy '{name}'", remedy=f"Known policies: {', '.join(sorted(known))}.")
    if goals.dwell < 1:
        raise InvalidInput("dwell must be at least 1", where="goals.dwell", remedy="10 squads is the default.")
    return goals
