"""TLS of the API and mutual TLS of agents with Dure's own authority, over real connections."""

from __future__ import annotations

import datetime as dt
import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from dure.adapters.pki import Authority, Given, signing_request
from dure.adapters.plane_link import join, open_link
from dure.api.agent_stream import AgentStream, Tls
from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.cli.root import run
from dure.model.errors import InvalidInput, NotAllowed, Temporary
from dure.plane import admission
from tests.unit.api.clients import TOKEN
from tests.unit.api.small_world import SmallWorld

HEADERS = {"authorization": f"Bearer {TOKEN}"}
CLUSTER, OTHER = "seoul-onprem", "cloud-kr"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@pytest.fixture
def secure(world: SmallWorld, authority: Authority) -> Iterator[Server]:
    app = create_app(world, Keys(TOKEN), authority=authority)
    server = Server(app, *open_socket(port=0), authority)
    server.start()
    yield server
    server.stop()


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.bundle))


def test_the_api_speaks_tls_to_who_trusts_its_authority(secure: Server, authority: Authority) -> None:
    assert secure.address.url.startswith("https://")
    answer = httpx.get(f"{secure.address.url}/v1/whoami", headers=HEADERS, verify=trusting(authority))
    assert answer.json()["name"] == "owner"
    assert "max-age" in answer.headers["strict-transport-security"]
    login = httpx.get(secure.login_url(), verify=trusting(authority))
    assert "secure" in login.headers["set-cookie"].lower()
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{secure.address.url}/v1/whoami", headers=HEADERS)


def test_a_certificate_from_elsewhere_serves_under_its_names(world: SmallWorld, authority: Authority) -> None:
    pair, _ = authority.server(["dure.example"])
    names = ("dure.example",)
    app = create_app(world, Keys(TOKEN), hosts=names)
    server = Server(app, *open_socket(port=0), Given(*pair), names)
    server.start()
    try:
        url = f"{server.address.url}/v1/whoami"
        with httpx.Client(verify=trusting(authority), headers=HEADERS) as client:
            named = client.get(url, headers={"host": "dure.example"}, extensions={"sni_hostname": "dure.example"})
            assert named.json()["name"] == "owner"
            assert client.get(url, headers={"host": "other.example"}).status_code == 421
    finally:
        server.stop()


def test_a_certificate_from_elsewhere_is_read_again_when_its_files_were_renewed(authority: Authority) -> None:
    pair, _ = authority.server(["dure.example"])
    given = Given(*pair)
    assert given.server(["dure.example"]) == (pair, False)
    later = pair.certificate.stat().st_mtime + 10
    os.utime(pair.certificate, (later, later))
    assert given.server(["dure.example"]) == (pair, True)
    assert given.server(["dure.example"]) == (pair, False)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--cert", "{crt}"], "--cert and --key belong together"),
        (["--cert", "{crt}", "--key", "{key}", "--tls"], "leave it out with --cert"),
    ],
)
def test_half_a_certificate_or_two_kinds_of_tls_are_refused(
    args: list[str], told: str, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair, _ = authority.server(["a"])
    filled = [word.format(crt=pair.certificate, key=pair.key) for word in args]
    assert run(["up", "--state", str(tmp_path / "state"), *filled]) == 2
    assert told in capsys.readouterr().err


def test_a_certificate_is_kept_until_a_third_of_its_life_is_left(authority: Authority) -> None:
    now = dt.datetime.now(dt.UTC)
    pair, new = authority.server(["dure.example"], now)
    assert new
    assert not authority.server(["dure.example"], now + dt.timedelta(days=59))[1]
    assert authority.server(["dure.example"], now + dt.timedelta(days=61))[1]
    assert authority.server(["another.example"], now)[1]
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
    assert stat.S_IMODE((authority.folder / "ca.key").stat().st_mode) == 0o600


def test_after_a_rotation_old_and_new_certificates_are_trusted(authority: Authority, tmp_path: Path) -> None:
    old = x509.load_pem_x509_certificate(authority.server(["a"])[0].certificate.read_bytes())
    assert run(["tls", "rotate", "--state", str(tmp_path)]) == 0
    pair, renewed = authority.server(["a"])
    new = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    trusted = x509.load_pem_x509_certificates(authority.bundle.read_bytes())
    assert renewed
    assert len(trusted) == 2
    new.verify_directly_issued_by(trusted[0])
    old.verify_directly_issued_by(trusted[1])
    authority.rotate(dt.datetime.now(dt.UTC) + dt.timedelta(days=3660))
    assert len(x509.load_pem_x509_certificates(authority.bundle.read_bytes())) == 1


def test_a_folder_without_authority_is_told_so(tmp_path: Path) -> None:
    assert run(["tls", "rotate", "--state", str(tmp_path)]) == 4


@pytest.mark.parametrize(
    "request_", ["", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----"]
)
def test_what_is_no_signing_request_is_not_signed(authority: Authority, request_: str) -> None:
    with pytest.raises(InvalidInput):
        authority.sign_agent(request_, CLUSTER)


@pytest.fixture
def agents(world: SmallWorld, authority: Authority) -> Iterator[AgentStream]:
    tls = Tls(*authority.server(["127.0.0.1"])[0], authority.bundle)
    stream = AgentStream(world, "127.0.0.1", 0, tls, streams=2)
    stream.start()
    yield stream
    stream.stop()


def certified(server: Server, authority: Authority, cluster: str, folder: Path) -> tuple[str, str]:
    """A certificate over the API, as `dure cluster certificate` gets one; the key asks for a name it does not get."""
    key, request = signing_request("some-other-name")
    url = f"{server.address.url}/v1/clusters/{cluster}/certificates"
    made = httpx.post(url, json={"request": request}, headers=HEADERS, verify=trusting(authority)).json()
    files = folder / f"{cluster}.crt", folder / f"{cluster}.key"
    files[0].write_text(made["certificate"])
    files[1].write_text(key)
    return str(files[0]), str(files[1])


def test_an_agent_needs_the_certificate_of_its_own_cluster(
    world: SmallWorld, secure: Server, authority: Authority, agents: AgentStream, tmp_path: Path
) -> None:
    own = certified(secure, authority, CLUSTER, tmp_path)
    other = certified(secure, authority, OTHER, tmp_path)
    token = admission.new_join_token(world.store, world.fleet(), CLUSTER).token
    ca = str(authority.bundle)
    with pytest.raises(Temporary):
        join(agents.url, CLUSTER, token, ca=ca)
    with pytest.raises(NotAllowed, match="certificate"):
        join(agents.url, CLUSTER, token, ca=ca, own=other)
    credential = join(agents.url, CLUSTER, token, ca=ca, own=own)
    for pair, allowed in ((own, True), (other, False)):
        link = open_link(agents.url, CLUSTER, credential, ca=ca, own=pair)
        if allowed:
            assert link.fetch_membership().spec.info.name == CLUSTER
        else:
            with pytest.raises(NotAllowed, match="certificate"):
                link.fetch_membership()
        link.close()


def test_a_cluster_that_is_not_of_the_fleet_gets_no_certificate(secure: Server, authority: Authority) -> None:
    _, request = signing_request("x")
    url = f"{secure.address.url}/v1/clusters/nowhere/certificates"
    answer = httpx.post(url, json={"request": request}, headers=HEADERS, verify=trusting(authority))
    assert answer.status_code == 404
