"""The token of the tests, and the name of their client's type."""

from __future__ import annotations

from typing import Any, TypeAlias

from litestar.testing import TestClient

TOKEN = "a-token-of-sufficient-length"
Client: TypeAlias = TestClient[Any]
