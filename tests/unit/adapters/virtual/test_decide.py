"""One pod on two sides: what is done next, and that it comes to rest."""

from __future__ import annotations

from typing import Any

import pytest

from dure.adapters.virtual.decide import Step, next_step
from dure.adapters.virtual.names import UID

Json = dict[str, Any]


def virtual(uid: str = "u1", *, node: str = "", leaving: bool = False, **rest: Any) -> Json:
    metadata = {"uid": uid, **({"deletionTimestamp": "now"} if leaving else {})}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": rest}


def host(uid: str = "u1", *, node: str = "", leaving: bool = False, **rest: Any) -> Json:
    made = virtual("h", node=node, leaving=leaving, **rest)
    made["metadata"]["annotations"] = {UID: uid}
    return made


@pytest.mark.parametrize(
    ("wanted", "there", "step"),
    [
        (virtual(), None, Step.CREATE),
        ({**virtual(), "spec": {"schedulingGates": [{"name": "g"}]}}, None, Step.NOTHING),
        (virtual(), host(), Step.NOTHING),
        (virtual(), host(node="n"), Step.BIND),
        (virtual(node="n"), host(node="n", phase="Running"), Step.REPORT),
        (virtual(node="n", phase="Running"), host(node="n", phase="Running"), Step.NOTHING),
        (virtual(node="n", phase="Running", leaving=True), host(node="n", phase="Running"), Step.DELETE_HOST),
        (virtual(node="n", leaving=True), host(node="n", leaving=True), Step.NOTHING),
        (virtual(node="n", leaving=True), None, Step.DELETE_VIRTUAL),
        (virtual(node="n", phase="Running"), None, Step.DELETE_VIRTUAL),
        (virtual(node="n", phase="Succeeded"), None, Step.NOTHING),
        (virtual("u2"), host("u1"), Step.DELETE_HOST),
        (virtual("u2"), host("u1", leaving=True), Step.NOTHING),
        (None, host(), Step.DELETE_HOST),
        (None, host(leaving=True), Step.NOTHING),
    ],
)
def test_the_next_step_follows_from_both_sides(wanted: Json | None, there: Json | None, step: Step) -> None:
    assert next_step(wanted, there) is step
