"""The part of `dure doctor` that asks a cluster whether Dure's accounts may do what they have to.

The service accounts of the agent and of the gateway are judged where they exist; a cluster without them is run with
the kubeconfig's own account, so that one is. One finding for each rule that lacks a verb, with the rule and the
command that brings it back.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from dure.adapters.kube import rbac
from dure.adapters.kube.rest import Api
from dure.adapters.kube.rights import Account, Right, exists, fetch_user, may, rights
from dure.adapters.kueue import rbac as gateway
from dure.cli.finding import Finding
from dure.model.errors import DureError, NotAllowed, NotFound

AGENT = Account(rbac.NAMESPACE, rbac.ACCOUNT)
GATEWAY = Account(rbac.NAMESPACE, gateway.ACCOUNT)
Json = dict[str, Any]


class Target(NamedTuple):
    """A cluster to look at, and how kubectl is told to reach it."""

    name: str
    api: Api
    kubectl: str


class _Role(NamedTuple):
    """A role that an account should have, what to do where it has not, and how bad that is."""

    kind: str
    rules: list[Json]
    remedy: str
    level: str = "error"
    namespace: str = ""


def right_findings(target: Target) -> Iterator[Finding]:
    try:
        user = fetch_user(target.api)
        own = [account for account in (AGENT, GATEWAY) if account.user == user]
        found = own or [account for account in (AGENT, GATEWAY) if exists(target.api, account)]
        if AGENT in found:
            yield from _judged(target, AGENT, _agent_roles(_render_agent(target)), "agent", user)
        if GATEWAY in found:
            yield from _judged(target, GATEWAY, _gateway_roles(target), "gateway", user)
        if not found:
            yield from _own(target)
    except DureError as error:
        yield Finding("rbac", "warning", f"{target.name}: {error.message}", error.remedy or _ASK_AS_ADMIN)


_ASK_AS_ADMIN = (
    "Look with an account that may read service accounts and create subjectaccessreviews, such as an administrator's."
)


def _judged(target: Target, account: Account, roles: list[_Role], who: str, user: str) -> Iterator[Finding]:
    """Of a service account; one that asks about itself needs no right for that."""
    judged = None if user == account.user else account
    label = f"{target.name}: {account.namespace}/{account.name}"
    try:
        wrong = [one for role in roles for one in _missing(target.api, role, account.name, label, judged)]
    except NotAllowed as error:
        yield Finding("rbac", "warning", f"{label} could not be judged: {error.message}", _ASK_AS_ADMIN)
        return
    yield from wrong
    if not any(one.level == "error" for one in wrong):
        asked = sum(len(given) for role in roles if role.level == "error" for _, given in rights(role.rules))
        yield Finding("rbac", "ok", f"{label} may do all that the {who} does ({asked} rights asked)")


def _own(target: Target) -> Iterator[Finding]:
    """No account of Dure here, so an agent runs with this one, or will once it is installed."""
    roles = [role._replace(level="warning") for role in _agent_roles(_render_agent(target))]
    label = f"{target.name}: this account"
    wrong = [one for role in roles for one in _missing(target.api, role, rbac.ACCOUNT, label, None)]
    yield from wrong
    if not wrong:
        yield Finding("rbac", "ok", f"{label} may do all that an agent does")


def _missing(api: Api, role: _Role, name: str, label: str, account: Account | None) -> Iterator[Finding]:
    for rule, given in rights(role.rules, role.namespace):
        lacking = [right for right in given if not may(api, right, account)]
        if lacking:
            words = ", ".join(right.words for right in lacking)
            remedy = f"{role.remedy}\nor add to the {role.kind} {name}: {json.dumps(_rule(rule, lacking))}"
            yield Finding("rbac", role.level, f"{label} may not {words}", remedy)


def _rule(rule: Json, lacking: list[Right]) -> Json:
    """The part of the rule that is not given, as a rule."""
    asked = {"resources": [right.resource for right in lacking], "verbs": [right.verb for right in lacking]}
    return {**rule, **{key: [one for one in rule[key] if one in found] for key, found in asked.items()}}


def _agent_roles(remedy: str) -> list[_Role]:
    return [
        _Role("ClusterRole", rbac.rules(), remedy),
        _Role("Role", rbac.home_rules(), remedy, namespace=rbac.NAMESPACE),
    ]


def _gateway_roles(target: Target) -> list[_Role]:
    render = f"dure render gateway | {target.kubectl} apply -f -"
    dispatch = f"Only `--dispatch` needs it: dure render gateway --dispatch | {target.kubectl} apply -f -"
    return [
        _Role("ClusterRole", gateway.rules(), render),
        _Role("ClusterRole", gateway.order_rules(), f"Backlogs keep first come, first served: {render}", "warning"),
        _Role("ClusterRole", gateway.dispatch_rules(), dispatch, "ok"),
    ]


def _render_agent(target: Target) -> str:
    """The command that made the agent which is there, so that running it again changes the roles and nothing else."""
    command = ["dure", "render", "agent", *_agent_options(target)]
    return f"{shlex.join(command)} | {target.kubectl} apply -f -"


def _agent_options(target: Target) -> list[str]:
    path = f"/apis/apps/v1/namespaces/{rbac.NAMESPACE}/deployments/{rbac.ACCOUNT}"
    try:
        spec = target.api.get(path, dict)["spec"]["template"]["spec"]
        container = spec["containers"][0]
        args = container["args"]
        given = {name: args[args.index(name) + 1] for name in ("--cluster", "--plane")}
    except (NotFound, NotAllowed, LookupError, ValueError, TypeError):
        return ["--cluster", target.name, "--plane", "https://PLANE"]
    secrets = [one["secret"]["secretName"] for one in spec.get("volumes") or () if one["name"] == "authority"]
    image = [] if container.get("image") in (None, rbac.IMAGE) else ["--image", container["image"]]
    pairs = [word for pair in given.items() for word in pair]
    return [*pairs, *image, *(["--ca-secret", secrets[0]] if secrets else [])]
