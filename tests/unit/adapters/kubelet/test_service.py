"""Sockets that the kubelet is to call."""

from __future__ import annotations

from pathlib import Path

import pytest

from dure.adapters.kubelet.service import LONGEST, SocketServer
from dure.model.errors import InvalidInput


def test_a_socket_has_the_longest_address_that_linux_takes_and_none_longer(short_path: Path) -> None:
    longest = short_path / ("s" * (LONGEST - len(str(short_path)) - 1))
    SocketServer(longest, {}).close()
    with pytest.raises(InvalidInput, match=r"at most 107 characters, this one has 108\. Choose a shorter folder"):
        SocketServer(longest.with_name(longest.name + "s"), {})
