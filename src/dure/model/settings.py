"""From a policy's settings, as files write them, to the struct that its verb reads. Called by `place` and `scale`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from dure.model.errors import InvalidInput
from dure.model.policy import Policy

T = TypeVar("T", bound=msgspec.Struct)


def settings_as(
    policy: Policy, kind: type[T], more: Mapping[str, object] | None = None, *, lenient: bool = False
) -> T:
    """Checked; an unknown key is an error that names the nearest valid one, or left out where `lenient`.

    `more` are fields that the policy says elsewhere.
    """
    known = kind.__struct_fields__
    values: dict[str, object] = {}
    for given, value in policy.settings.items():
        key = _snake(given)
        if key in known:
            values[key] = value
        elif not lenient:
            close = difflib.get_close_matches(key, known, n=1)
            raise InvalidInput(
                f"policy {policy.name} has no setting '{given}'",
                remedy=f"Did you mean '{_camel(close[0])}'?" if close else f"Known: {', '.join(map(_camel, known))}",
            )
    try:
        return msgspec.convert({**values, **(more or {})}, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"policy {policy.name}: {error}") from error


def _snake(key: str) -> str:
    """Files write `carbonWeight`, the code `carbon_weight`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)
