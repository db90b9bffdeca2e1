"""Asks an API server whether an account may do what a role of Dure says; nothing is changed by asking.

`dure doctor` calls it. A service account is judged by the server's own authorizer (SubjectAccessReview), so roles of
any name, aggregated ones and those of groups count as they do for the account itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dure.adapters.kube.rest import Api
from dure.model.errors import NotFound

Json = dict[str, Any]
_REVIEWS = "/apis/authorization.k8s.io/v1"
_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Account(NamedTuple):
    """A service account."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def groups(self) -> list[str]:
        return ["system:serviceaccounts", f"system:serviceaccounts:{self.namespace}", "system:authenticated"]

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}"


class Right(NamedTuple):
    """One verb on one kind of object: everywhere, or in a namespace, or on one object of it."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def words(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''}{where}"


def rights(rules: Iterable[Json], namespace: str = "") -> Iterator[tuple[Json, list[Right]]]:
    """Each rule of a role with the rights it gives."""
    for rule in rules:
        given = [
            Right(verb, group, resource, namespace, name)
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", ("",))
            for verb in rule["verbs"]
        ]
        yield rule, given


def exists(api: Api, account: Account) -> bool:
    try:
        api.get(account.path, dict)
    except NotFound:
        return False
    return True


def fetch_user(api: Api) -> str:
    """Who the server takes this caller for."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer: Json = api.post(_WHO, body, dict)
    return str(answer["status"]["userInfo"]["username"])


def may(api: Api, right: Right, account: Account | None = None) -> bool:
    """Of another account where one is named, which asks for the right to create such reviews; else of this caller."""
    main, _, sub = right.resource.partition("/")
    asked: Json = {"group": right.group, "resource": main, "subresource": sub, "verb": right.verb}
    asked |= {"namespace": right.namespace, "name": right.name}
    spec: Json = {"resourceAttributes": asked}
    if account is not None:
        spec |= {"user": account.user, "groups": account.groups}
    kind = "SelfSubjectAccessReview" if account is None else "SubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer: Json = api.post(f"{_REVIEWS}/{kind.lower()}s", body, dict)
    return bool(answer.get("status", {}).get("allowed"))
