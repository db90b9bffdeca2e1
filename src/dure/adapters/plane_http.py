"""The plane over HTTP, for agents elsewhere. The agent always dials, so it works from behind NAT.

`fetch_desired` asks anew each time and costs little while nothing has changed (entity tags); `wait_for_news` is a
long poll that only wakes the agent. A connection that fails is `Temporary`: the agent goes on without the plane.
"""

from __future__ import annotations

import ssl

import httpx
import msgspec

from dure.adapters.shapes import settle
from dure.model.defrag import DefragWish
from dure.model.errors import DureError, InvalidInput, Permanent, Temporary, kind_of
from dure.model.membership import Credential, Membership, Proposal, secret_digest
from dure.model.report import Desired, Report
from dure.model.units import Seconds

TIMEOUT_S = 15.0
_DESIRED = msgspec.json.Decoder(tuple[Desired, ...])


class HttpPlane:
    """`PlaneLink` of one cluster's agent."""

    def __init__(self, url: str, cluster: str, credential: str, *, ca: str = "") -> None:
        settle()
        self._http = _client(url, ca)
        self._headers = {"Authorization": f"Bearer {credential}"}
        self._base = f"/v1/agents/{cluster}"
        self._tag = ""
        self._desired: tuple[Desired, ...] = ()

    def fetch_desired(self, cluster: str) -> tuple[Desired, ...]:
        answer = self._call("GET", "desired", headers={"If-None-Match": self._tag} if self._tag else {})
        if answer.status_code != 304:
            self._desired = _DESIRED.decode(answer.content)
            self._tag = answer.headers.get("etag", "")
        return self._desired

    def fetch_wish(self, cluster: str) -> DefragWish | None:
        return msgspec.json.decode(self._call("GET", "wish").content, type=DefragWish | None)

    def wait_for_news(self, wait_s: Seconds) -> bool:
        """Whether what is desired is another than what was fetched last; returns at once when it is."""
        headers = {"If-None-Match": self._tag} if self._tag else {}
        params = {"wait": f"{wait_s:g}"}
        return self._call("GET", "desired", headers=headers, params=params, extra_s=wait_s).status_code != 304

    def write_report(self, report: Report) -> None:
        self._call("POST", "report", body=msgspec.json.encode(report))

    def fetch_membership(self) -> Membership:
        return msgspec.json.decode(self._call("GET", "membership").content, type=Membership)

    def close(self) -> None:
        self._http.close()

    def _call(
        self,
        method: str,
        what: str,
        *,
        headers: dict[str, str] | None = None,
        params: dict[str, str] | None = None,
        body: bytes | None = None,
        extra_s: Seconds = 0.0,
    ) -> httpx.Response:
        kind = {"Content-Type": "application/json"} if body is not None else {}
        try:
            answer = self._http.request(
                method,
                f"{self._base}/{what}",
                headers={**self._headers, **kind, **(headers or {})},
                params=params or {},
                content=body,
                timeout=TIMEOUT_S + extra_s,
            )
        except (httpx.HTTPError, RuntimeError) as error:
            raise Temporary(f"the plane does not answer: {str(error) or type(error).__name__}") from error
        if answer.status_code >= 400:
            raise problem_of(answer)
        return answer


def join_over_http(url: str, cluster: str, token: str, secret: str = "", *, ca: str = "") -> str:
    """See `plane_link.join`."""
    headers = {"Authorization": f"Bearer {token}", **({"Content-Type": "application/json"} if secret else {})}
    body = msgspec.json.encode(Proposal(secret_digest(secret))) if secret else None
    try:
        with _client(url, ca) as http:
            answer = http.post(f"/v1/agents/{cluster}/join", headers=headers, content=body)
    except httpx.HTTPError as error:
        raise Temporary(f"the plane does not answer at {url}: {error}") from error
    if answer.status_code >= 400:
        raise problem_of(answer)
    return msgspec.json.decode(answer.content, type=Credential).credential or secret


def _client(url: str, ca: str) -> httpx.Client:
    """`ca` is a file with the authority that signed the plane's certificate; the system's ones if empty."""
    try:
        trusted: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca) if ca else True
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"the authority cannot be read: {error}", where=ca) from error
    return httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False, verify=trusted)


def problem_of(answer: httpx.Response) -> DureError:
    default = Temporary if answer.status_code >= 500 else Permanent
    kind = kind_of(answer.status_code, default)
    try:
        body = answer.json()
        return kind(str(body.get("detail") or body.get("title")), remedy=str(body.get("remedy") or ""))
    except (ValueError, AttributeError):
        return kind(f"the plane answered {answer.status_code}: {answer.text[:200]}")
