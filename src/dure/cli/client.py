"""The command line's end of the REST API: finds the server and its token, turns problems into Dure's errors."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx

from dure.cli.state import find, find_authority
from dure.model.errors import DureError, InvalidInput, Temporary, kind_of

TIMEOUT_S = 30.0


class Client:
    def __init__(self, state: Path) -> None:
        url, token = find(state)
        self.url = url
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
            trust_env=False,
            verify=_trust(url, find_authority(state)),
        )
        context = click.get_current_context(silent=True)
        if context is not None:
            context.call_on_close(self._http.close)

    def get(self, path: str, **params: str | int | None) -> Any:
        return self._call("GET", path, params=_given(params)).json()

    def text(self, path: str, **params: str | int | None) -> str:
        """An answer that is no JSON: a sheet, a page."""
        return self._call("GET", path, params=_given(params)).text

    def items(self, path: str, **params: str | int | None) -> list[Any]:
        """Every item of a list, page by page."""
        found: list[Any] = []
        after: str | None = None
        while True:
            page = self.get(path, **{**params, "after": after})
            found.extend(page["items"])
            after = page.get("next")
            if after is None:
                return found

    def send(self, method: str, path: str, text: str = "", *, key: str = "") -> Any:
        headers = {"Content-Type": "application/yaml"} if text else {}
        if key:
            headers["Idempotency-Key"] = key
        return self._call(method, path, content=text.encode(), headers=headers).json()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Any other call, with a JSON body if there is one."""
        return self._call(method, path, json=body).json()

    def stream(self, path: str, *, last: str = "") -> Iterator[str]:
        """The data lines of a server-sent event stream, until it ends."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        try:
            with self._http.stream("GET", path, headers=headers, timeout=None) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise _problem(answer)
                for line in answer.iter_lines():
                    if line.startswith("data:"):
                        yield line.removeprefix("data:").strip()
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _call(self, method: str, path: str, **rest: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **rest)
        except httpx.TransportError as error:
            raise self._away(error) from error
        if answer.status_code >= 400:
            raise _problem(answer)
        return answer

    def _away(self, error: Exception) -> Temporary:
        return Temporary(
            f"Dure does not answer at {self.url}: {error}", remedy="Is it running? Start it with 'dure up'."
        )


def _trust(url: str, ca: str) -> ssl.SSLContext | bool:
    if not url.startswith("https") or not ca:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise InvalidInput(
            f"the authority cannot be read: {error}", where=ca, remedy="Name it with DURE_CA."
        ) from error


def _given(params: dict[str, str | int | None]) -> dict[str, str | int]:
    return {name: value for name, value in params.items() if value is not None}


def _problem(answer: httpx.Response) -> DureError:
    kind = kind_of(answer.status_code)
    try:
        body = answer.json()
    except ValueError:
        return kind(f"the server answered {answer.status_code}: {answer.text[:200]}")
    detail = body.get("detail") or body.get("title") or "no detail"
    more = "".join(
        f"\n  {one.get('where') or one.get('path', '')}: {one.get('message', '')}" for one in body.get("errors", ())
    )
    return kind(
        f"{detail}{more}",
        where=body.get("where", ""),
        remedy=body.get("remedy", ""),
        reason=body.get("reason", ""),
    )
