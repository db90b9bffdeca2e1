"""An etcd that asks everybody for a certificate, as `dure tenant etcd` says it should be started."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab import components
from lab.build import ensure
from lab.cluster import ETCD
from lab.ports import Ports
from lab.process import Component


class SecureEtcd(NamedTuple):
    url: str
    pki: Path
    component: Component


@contextlib.contextmanager
def secure_etcd(folder: Path) -> Iterator[SecureEtcd]:
    pki, ports = folder / "etcd-pki", Ports()
    command = [sys.executable, "-m", "dure", "tenant", "etcd", str(pki)]
    options = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    binary = ensure([ETCD])[ETCD] / ETCD
    port = ports.take()
    plain = components.etcd(binary, folder / "secure-etcd", port, ports.take())
    url = f"https://{components.LOOPBACK}:{port}"
    argv = [one.replace(f"http://{components.LOOPBACK}:{port}", url) for one in plain]
    log = folder / "secure-etcd.log"
    component = Component(ETCD, [*argv, *options], log, lambda: _listens(port))
    component.start()
    try:
        yield SecureEtcd(url, pki, component)
    finally:
        component.kill()
        ports.close()


def _listens(port: int) -> bool:
    """It listens once it has joined its cluster; what it answers is for those with a certificate."""
    with contextlib.suppress(OSError), socket.create_connection((components.LOOPBACK, port), 1.0):
        return True
    return False
