"""The clusters of a load run with their agents, in a process of their own as agents are: imitated, in real time.

Started by the load run, ended by it. Answers no questions; what it binds is seen in the plane's events.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import httpx

from dure.adapters.clock import RealClock
from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.laws import CALM
from dure.adapters.plane_link import join, open_link
from dure.agent.loop import Agent
from dure.cli.fleet_file import fleet_and_catalogue
from dure.model.errors import DureError

TURN_S = 0.25


def main(url: str, token: str, fleet_file: str) -> None:
    fleet, catalogue = fleet_and_catalogue(Path(fleet_file))
    clock = RealClock()
    agents = []
    for spec in fleet.clusters:
        path, headers = f"{url}/v1/clusters/{spec.info.name}/join-tokens", {"Authorization": f"Bearer {token}"}
        once = httpx.post(path, headers=headers, trust_env=False, timeout=60).raise_for_status().json()["token"]
        link = open_link(url, spec.info.name, join(url, spec.info.name, once))
        cluster = MemoryCluster(spec, catalogue, clock, seed=1, hazards=CALM)
        agents.append(Agent(cluster, link, catalogue, spec.pools, clock))
    while True:
        for agent in agents:
            with contextlib.suppress(DureError):
                agent.cycle()
        time.sleep(TURN_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
