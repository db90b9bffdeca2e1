"""Policies as objects of the plane: checked before they count, kept as versions, every change told to people."""

from __future__ import annotations

import msgspec

from dure.model.errors import InvalidInput, NotFound
from dure.model.event import Event
from dure.model.policy import Policy, Verb
from dure.model.units import Instant
from dure.place.settings import OWN, settings_of
from dure.plane.deciding import own_policies
from dure.ports import StorePort
from dure.scale.bursts import bursts_of


def checked(policy: Policy) -> Policy:
    """The same policy, or an error that says what is wrong with it."""
    if policy.goals and policy.verb is not Verb.PLACE:
        raise InvalidInput(
            f"policy {policy.name}: goals are for the verb place, found {policy.verb}",
            remedy="Leave spec.goals out, or write verb: place.",
        )
    if policy.verb is Verb.SCALE:
        bursts_of(policy)
    if policy.verb is Verb.PLACE:
        settings_of(policy)
        if policy.algorithm.startswith(OWN) and policy.algorithm.removeprefix(OWN) not in own_policies():
            known = ", ".join(sorted(own_policies())) or "none"
            raise InvalidInput(
                f"policy {policy.name}: no installed policy is called '{policy.algorithm.removeprefix(OWN)}'",
                remedy=f"Install the package that has it (entry point group dure.policies); installed: {known}",
            )
    return policy


def keep(store: StorePort, policy: Policy, now_s: Instant, by: str, why: str = "applied") -> Policy:
    """Write it as a new version with the name of who made it, and tell of it, both or neither."""
    signed = msgspec.structs.replace(checked(policy), changed_by=by, changed_s=now_s)
    with store.together():
        kept = store.write_policy(signed)
        message = f"policy {kept.name} ({kept.verb}) is at version {kept.version}: {why} by {by}"
        store.commit([], events=(Event(now_s, "PolicyChanged", message),))
    return kept


def history(store: StorePort, name: str) -> tuple[Policy, ...]:
    """Every version, oldest first."""
    found = store.list_policies(name=name)
    if not found:
        known = ", ".join(policy.name for policy in store.list_policies()) or "none yet"
        raise NotFound(f"no policy '{name}'", remedy=f"Known: {known}")
    return found


def rollback(store: StorePort, name: str, version: int | None, now_s: Instant, by: str) -> Policy:
    """An earlier version again, as a new one; without a number the one before the present."""
    versions = history(store, name)
    wanted = versions[-1].version - 1 if version is None else version
    earlier = next((one for one in versions if one.version == wanted), None)
    if earlier is None:
        known = ", ".join(str(one.version) for one in versions)
        raise NotFound(f"policy '{name}' has no version {wanted}", remedy=f"Versions: {known}")
    again = msgspec.structs.replace(earlier, version=versions[-1].version)
    return keep(store, again, now_s, by, f"back to version {wanted}")
