"""Who may read what in the etcd of virtual clusters, asked of a real one in its own language."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from dure.adapters.virtual.etcd import Access, Etcd
from dure.model.errors import NotAllowed
from tests.kube.secure_etcd import SecureEtcd, secure_etcd

pytestmark = [pytest.mark.lab]

ROBOTS, VISION = ("robots.1", "/dure-virtual/robots.1"), ("vision.2", "/dure-virtual/vision.2")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureEtcd]:
    with secure_etcd(tmp_path_factory.mktemp("etcd")) as found:
        yield found


@pytest.fixture
def etcd(server: SecureEtcd) -> Etcd:
    return Etcd(server.url, server.pki)


class Caller:
    """The calls of an API server, each message made by hand: a key and one more field."""

    def __init__(self, access: Access) -> None:
        assert access.pair is not None
        assert access.authority is not None
        files = (access.authority, access.pair.key, access.pair.certificate)
        self._credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        self._address = access.url.removeprefix("https://")

    def put(self, key: str, value: str) -> str:
        return self._ask("Put", key, value)

    def range(self, key: str, end: str = "") -> str:
        return self._ask("Range", key, end)

    def _ask(self, method: str, *fields: str) -> str:
        """What came back as text, or why nothing did."""
        body = b"".join(_field(number, text) for number, text in enumerate(fields, 1) if text)
        with grpc.secure_channel(self._address, self._credentials) as channel:
            try:
                found: bytes = channel.unary_unary(f"/etcdserverpb.KV/{method}")(body, timeout=30)
            except grpc.RpcError as error:
                return str(error.details())
        return found.decode(errors="replace")


def _field(number: int, text: str) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text.encode()


def test_a_virtual_cluster_reads_and_writes_its_own_keys_and_nobody_elses(etcd: Etcd) -> None:
    robots, vision = Caller(etcd.admit(*ROBOTS)), Caller(etcd.admit(*VISION))
    vision.put(f"{VISION[1]}/secrets/default/key", "of vision")
    robots.put(f"{ROBOTS[1]}/secrets/default/key", "of robots")
    assert "of robots" in robots.range(f"{ROBOTS[1]}/", f"{ROBOTS[1]}0")
    for key, end in (
        (f"{VISION[1]}/secrets/default/key", ""),
        (f"{VISION[1]}/", f"{VISION[1]}0"),
        ("/dure-virtual/", "/dure-virtual0"),
        (f"{ROBOTS[1]}", f"{ROBOTS[1]}0"),
        ("/", "\x7f"),
    ):
        assert "permission denied" in robots.range(key, end)
    assert "permission denied" in robots.put(f"{VISION[1]}/secrets/default/key", "altered")
    assert "of vision" in vision.range(f"{VISION[1]}/secrets/default/key")


def test_a_certificate_of_another_authority_does_not_get_in(etcd: Etcd, server: SecureEtcd, tmp_path: Path) -> None:
    access = etcd.admit(*ROBOTS)
    stranger = Etcd(server.url, tmp_path / "other").server_flags(["127.0.0.1"])
    pair = [Path(flag.partition("=")[2]) for flag in stranger[:2]]
    refused = Caller(Access(access.url, access.authority, type(access.pair)(*pair))).range(f"{ROBOTS[1]}/x")  # type: ignore[misc]
    assert refused
    assert "of robots" not in refused


def test_what_is_forgotten_leaves_neither_keys_nor_anybody_with_a_right_to_them(etcd: Etcd) -> None:
    access = etcd.admit(*VISION)
    before = Caller(access)
    before.put(f"{VISION[1]}/x", "old state")
    etcd.forget(*VISION)
    etcd.forget(*VISION)
    assert "old state" not in before.range(f"{VISION[1]}/x")
    assert access.pair is not None
    assert not access.pair.key.exists()
    assert "old state" not in Caller(etcd.admit(*VISION)).range(f"{VISION[1]}/x")


def test_admitting_again_after_a_restart_changes_nothing_but_the_certificate(etcd: Etcd) -> None:
    first = Caller(etcd.admit(*ROBOTS))
    first.put(f"{ROBOTS[1]}/kept", "still here")
    again = Caller(Etcd(etcd.url, etcd._folder).admit(*ROBOTS))
    assert "still here" in again.range(f"{ROBOTS[1]}/kept")
    assert "still here" in first.range(f"{ROBOTS[1]}/kept")


def test_only_the_owner_reads_the_password_and_without_it_nobody_is_admitted(etcd: Etcd, server: SecureEtcd) -> None:
    etcd.admit(*ROBOTS)
    password = server.pki / "root.password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    right = password.read_text()
    try:
        password.write_text("guessed")
        with pytest.raises(NotAllowed, match="authentication failed"):
            etcd.admit(*VISION)
    finally:
        password.write_text(right)
