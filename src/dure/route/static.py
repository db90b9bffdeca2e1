"""Every job goes to the queue it names: what Kueue does without a gateway, and the opponent of all other policies.

Cost O(1). Use it to switch dynamic choice off without taking the gateway away.
"""

from __future__ import annotations

from dure.route.situation import Candidate, Choice, Situation


def choose(job: Candidate, situation: Situation) -> Choice:  # noqa: ARG001 - one signature for all policies
    return Choice(0, "static", f"the policy leaves every job in the queue it names: {job.home.queue}")
