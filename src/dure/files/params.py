"""Kinds of values on the command line, as people write them; a wrong one is refused before anything is done."""

from __future__ import annotations

import ipaddress
import math
import re
from typing import Any
from urllib.parse import urlsplit

import click

SEED = click.IntRange(0, 2**63 - 1)


class FiniteRange(click.FloatRange):
    """A range of numbers; `nan` passes every comparison of a plain range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


POSITIVE = FiniteRange(min=0, min_open=True)
NOT_NEGATIVE = FiniteRange(min=0)


class _Pattern(click.ParamType[str]):
    def __init__(self, name: str, pattern: str, allowed: str) -> None:
        self.name, self._pattern, self._allowed = name, re.compile(pattern), allowed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not self._pattern.fullmatch(str(value)):
            self.fail(f"{str(value)[:80]!r} is no {self.name}: {self._allowed}.", param, ctx)
        return str(value)


class _Url(click.ParamType[str]):
    name = "url"

    def __init__(self, *schemes: str) -> None:
        self._schemes = schemes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            parts = urlsplit(text)
            sound = parts.scheme in self._schemes and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            sound = False
        if not sound or not text.isprintable() or " " in text:
            forms = " or ".join(f"{scheme}://HOST:PORT" for scheme in self._schemes)
            self.fail(f"{text[:80]!r} is no address: write {forms}.", param, ctx)
        return text


class _Network(click.ParamType[str]):
    """A range of addresses, whole: 10.112.0.0/12."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(ipaddress.ip_network(str(value)))
        except ValueError as error:
            self.fail(f"{str(error)[:120]}: write ADDRESS/BITS.", param, ctx)


NETWORK = _Network()


class _Kept(click.ParamType[float]):
    """How much of the past is kept, in seconds."""

    name = "duration"
    least_d = 35

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]{1,5})([dw])", str(value))
        if found is None:
            self.fail(f"{str(value)[:80]!r} is no length of time: write it as 90d or 26w.", param, ctx)
        days = int(found[1]) * (7 if found[2] == "w" else 1)
        if days < self.least_d:
            self.fail(f"{value} is too little: forecasts need {self.least_d} days.", param, ctx)
        return days * 86_400.0


KEPT = _Kept()
KUBE_NAME = _Pattern(
    "name", r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "use up to 63 lower-case letters, digits and '-', no '-' at an end"
)
# What Karpenter takes for an alias, without `latest`: nodes would follow new images by themselves.
NODE_IMAGE = _Pattern(
    "pinned image",
    r"(al2|al2023|bottlerocket|windows20[0-9]{2})@(?!latest$)[A-Za-z0-9][A-Za-z0-9.-]*",
    "write FAMILY@VERSION, for example al2023@v20260101 or bottlerocket@v1.30.0",
)
OBJECT_NAME = _Pattern(
    "name", r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", "use lower-case letters, digits, '-' and '.', as Kubernetes does"
)
IMAGE = _Pattern(
    "image",
    r"[a-z0-9][-a-z0-9._/:]{0,254}(@sha256:[0-9a-f]{64})?",
    "write REPOSITORY:TAG or REPOSITORY@sha256:DIGEST",
)
MIG_PROFILE = _Pattern(
    "MIG profile", r"([1-9]g\.[0-9]+gb([+.][a-z.]+)?)?", "write it as nvidia-smi does, such as 3g.20gb"
)
SELECTOR = _Pattern(
    "selector",
    r"[A-Za-z0-9][-A-Za-z0-9_./]{0,316}=[A-Za-z0-9][-A-Za-z0-9_.]{0,62}(,[A-Za-z0-9][-A-Za-z0-9_./]{0,316}=[A-Za-z0-9][-A-Za-z0-9_.]{0,62}){0,15}",
    "write LABEL=VALUE, several with commas",
)
URL = _Url("http", "https")
# Agents may poll or hold a stream.
PLANE_URL = _Url("http", "https", "grpc", "grpcs")
