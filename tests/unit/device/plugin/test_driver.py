"""The DRA driver before an API server that forgets: what the node offers is published again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from dure.adapters.kube.rest import Api
from dure.device.plugin.claims import LOOK_S, Driver
from dure.device.plugin.node import Accelerator, NodeConfig, units
from dure.model.errors import NotFound


class Slices:
    """The ResourceSlices of an API server, by path."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.asked = 0

    def get(self, path: str, kind: type[Any]) -> Any:
        self.asked += 1
        if path not in self.kept:
            raise NotFound(path)
        return self.kept[path]

    def apply(self, path: str, wanted: Any, kind: type[Any]) -> None:
        self.kept[path] = wanted


def test_what_a_restarted_kubelet_has_taken_away_is_published_again(short_path: Path) -> None:
    server, now_s = Slices(), [0.0]
    config = NodeConfig((Accelerator("v", slices=2, memory_mib=512, dra=True),))
    api = cast(Api, server)
    driver = Driver("n", units(config), config, api, short_path / "k", short_path / "c", clock=lambda: now_s[0])
    try:
        driver.sync(frozenset())
        [offered] = server.kept.values()
        assert [one["name"] for one in offered["spec"]["devices"]] == ["v-0", "v-1"]
        server.kept.clear()
        driver.sync(frozenset())
        assert (server.kept, server.asked) == ({}, 0), "not looked for in every turn"
        now_s[0] += LOOK_S
        driver.sync(frozenset())
        assert list(server.kept.values()) == [offered]
        driver.sync(frozenset({"v-1"}))
        [left] = server.kept.values()
        assert [one["name"] for one in left["spec"]["devices"]] == ["v-0"]
    finally:
        driver.close()
