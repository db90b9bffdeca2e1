"""Who may call what: one line for each endpoint, the role it takes and how far its answer reaches.

This table is asked for every request. An endpoint without a line is refused to all but the owner, and a test
fails that reads every path of the OpenAPI page. A new endpoint therefore needs one line here.

Reaches:

- `OPEN`: anybody, without a name. `AGENT`: agents, whose credential the handler checks by itself.
- `SHARED`: everybody who is known; the answer holds nothing of any tenant.
- `OWN`: the handler asks `who_of(request)` and shows or changes only what belongs to their tenants.
- `FLEET`: takes the role for the whole fleet, because the answer or the change concerns everybody.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from litestar import Request

from dure.api.auth import ROOT
from dure.api.caller import who_of
from dure.model.errors import NotAllowed
from dure.model.tenant import Role


class Reach(enum.StrEnum):
    OPEN = "open"
    AGENT = "agent"
    SHARED = "shared"
    OWN = "own"
    FLEET = "fleet"


class Rule(NamedTuple):
    reach: Reach
    role: Role = Role.VIEWER


_V, _S, _O, _A = Role.VIEWER, Role.SUBMITTER, Role.OPERATOR, Role.ADMIN
_OPEN, _AGENT, _SHARED, _OWN, _FLEET = Reach.OPEN, Reach.AGENT, Reach.SHARED, Reach.OWN, Reach.FLEET

RULES: dict[str, Rule] = {
    "GET /healthz": Rule(_OPEN),
    "GET /readyz": Rule(_OPEN),
    "GET /login": Rule(_OPEN),
    "POST /login": Rule(_OPEN),
    "GET /login/sso": Rule(_OPEN),
    "GET /login/sso/back": Rule(_OPEN),
    "GET /metrics": Rule(_OWN, _V),
    "POST /logout": Rule(_SHARED, _V),
    "POST /v1/login-links": Rule(_SHARED, _V),
    "GET /v1/whoami": Rule(_OWN, _V),
    # The dashboard and the description of the API.
    "GET /": Rule(_SHARED, _V),
    "GET /money": Rule(_SHARED, _V),
    "GET /promises": Rule(_SHARED, _V),
    "GET /past": Rule(_SHARED, _V),
    "GET /static/plotly.min.js": Rule(_SHARED, _V),
    "GET /static/{name}": Rule(_SHARED, _V),
    "GET /schema": Rule(_SHARED, _V),
    "GET /schema/openapi.json": Rule(_SHARED, _V),
    "GET /schema/{path}": Rule(_SHARED, _V),
    "GET /v1/schemas/{kind}": Rule(_SHARED, _V),
    # Workloads and documents.
    "GET /v1/workloads": Rule(_OWN, _V),
    "GET /v1/workloads/{name}": Rule(_OWN, _V),
    "GET /v1/workloads/{name}/why": Rule(_OWN, _V),
    "POST /v1/workloads": Rule(_OWN, _S),
    "DELETE /v1/workloads/{name}": Rule(_OWN, _S),
    "POST /v1/plan": Rule(_OWN, _V),
    "POST /v1/apply": Rule(_OWN, _S),
    "POST /v1/diff": Rule(_OWN, _V),
    # The fleet.
    "GET /v1/status": Rule(_OWN, _V),
    "GET /v1/history": Rule(_OWN, _V),
    "GET /v1/series/{name}": Rule(_FLEET, _V),
    "GET /v1/weights": Rule(_SHARED, _V),
    "GET /v1/charges": Rule(_OWN, _V),
    "GET /v1/ledger": Rule(_OWN, _V),
    "GET /v1/ledger.csv": Rule(_OWN, _V),
    "GET /v1/focus.csv": Rule(_OWN, _V),
    "GET /allocation": Rule(_OWN, _V),
    "GET /allocation/compute": Rule(_OWN, _V),
    "GET /v1/waste": Rule(_FLEET, _V),
    "GET /v1/waste.csv": Rule(_FLEET, _V),
    "GET /v1/slo": Rule(_OWN, _V),
    "GET /v1/slo.csv": Rule(_OWN, _V),
    "GET /v1/anomalies": Rule(_FLEET, _V),
    "GET /v1/anomalies.csv": Rule(_FLEET, _V),
    "GET /v1/forecast/{name}": Rule(_OWN, _V),
    "GET /v1/forecast/{name}/sheet.csv": Rule(_OWN, _V),
    "GET /v1/drift": Rule(_FLEET, _V),
    "GET /v1/drift.csv": Rule(_FLEET, _V),
    "GET /v1/map": Rule(_OWN, _V),
    "GET /v1/board": Rule(_OWN, _V),
    "GET /v1/clusters": Rule(_OWN, _V),
    "GET /v1/clusters/{name}": Rule(_OWN, _V),
    "GET /v1/pools": Rule(_OWN, _V),
    "GET /v1/devices": Rule(_OWN, _V),
    "GET /v1/classes": Rule(_SHARED, _V),
    "GET /v1/classes/{name}": Rule(_SHARED, _V),
    "GET /v1/tenants": Rule(_OWN, _V),
    "GET /v1/tenants/{name}": Rule(_OWN, _V),
    "GET /v1/policies": Rule(_FLEET, _V),
    "GET /v1/policies/{name}": Rule(_FLEET, _V),
    "GET /v1/policies/{name}/history": Rule(_FLEET, _V),
    "POST /v1/policies/{name}/rollback": Rule(_FLEET, _A),
    "GET /v1/defrag": Rule(_FLEET, _V),
    "POST /v1/defrag": Rule(_FLEET, _O),
    "GET /v1/shadow": Rule(_FLEET, _V),
    "GET /v1/shadows": Rule(_FLEET, _V),
    "PUT /v1/shadow/{name}": Rule(_FLEET, _O),
    "DELETE /v1/shadow": Rule(_FLEET, _O),
    # What happened.
    "GET /v1/decisions": Rule(_OWN, _V),
    "GET /v1/events": Rule(_OWN, _V),
    "GET /v1/audit": Rule(_FLEET, _A),
    "GET /v1/past": Rule(_FLEET, _V),
    "GET /v1/past.csv": Rule(_FLEET, _V),
    "GET /v1/clusters/{cluster}/devices/{device}/timeline": Rule(_FLEET, _V),
    "GET /v1/clusters/{cluster}/devices/{device}/timeline.csv": Rule(_FLEET, _V),
    "GET /v1/queues": Rule(_OWN, _V),
    "GET /v1/queues.csv": Rule(_OWN, _V),
    "GET /v1/changes": Rule(_FLEET, _V),
    "GET /v1/changes.csv": Rule(_FLEET, _V),
    # Shared devices name every tenant that runs on them.
    "GET /v1/share/devices": Rule(_FLEET, _V),
    "GET /v1/share/status": Rule(_FLEET, _V),
    "GET /v1/share/squads": Rule(_FLEET, _V),
    "GET /v1/share/timeline": Rule(_FLEET, _V),
    "GET /v1/share/view": Rule(_OWN, _V),
    "PUT /v1/share/policy": Rule(_FLEET, _O),
    "POST /v1/share/feedback": Rule(_FLEET, _S),
    # Tokens, agents.
    "GET /v1/tokens": Rule(_OWN, _A),
    "POST /v1/tokens": Rule(_OWN, _A),
    "DELETE /v1/tokens/{name}": Rule(_OWN, _A),
    "POST /v1/tokens/{name}/rotate": Rule(_OWN, _A),
    "POST /v1/clusters/{name}/join-tokens": Rule(_FLEET, _A),
    "POST /v1/clusters/{name}/certificates": Rule(_FLEET, _A),
    "POST /v1/agents/{name}/join": Rule(_AGENT),
    "GET /v1/agents/{name}/membership": Rule(_AGENT),
    "GET /v1/agents/{name}/desired": Rule(_AGENT),
    "GET /v1/agents/{name}/wish": Rule(_AGENT),
    "POST /v1/agents/{name}/report": Rule(_AGENT),
}


def rule_of(method: str, path: str) -> Rule | None:
    """`path` as a template."""
    return RULES.get(f"{'GET' if method == 'HEAD' else method} {path}")


async def check(request: Request[Any, Any, Any]) -> None:
    """Litestar calls it before every handler. A guard of its own would do the same and copy the handler each time."""
    scope: Any = request.scope
    rule = rule_of(scope["method"], scope["path_template"])
    who = who_of(request)
    if scope["method"] == "OPTIONS" and who.grants:
        return
    if rule is None:
        if who.via != ROOT:
            raise NotAllowed("only the owner may do this")
        return
    if rule.reach in (Reach.OPEN, Reach.AGENT):
        return
    enough = who.may(rule.role) if rule.reach is Reach.FLEET else who.may_somewhere(rule.role)
    if not enough:
        whole = " for the whole fleet" if rule.reach is Reach.FLEET else ""
        raise NotAllowed(f"this takes the role {rule.role}{whole}", remedy="See what you may do: dure token whoami")
