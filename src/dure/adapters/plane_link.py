"""Which way to the plane an address means: `http(s)://` is a long poll, `grpc(s)://` a stream.

Called by `dure agent`. gRPC is loaded only for those who use it.
"""

from __future__ import annotations

from dure.adapters.plane_http import HttpPlane, join_over_http
from dure.model.errors import InvalidInput
from dure.ports import PlaneLink


def open_link(
    url: str, cluster: str, credential: str, *, ca: str = "", own: tuple[str, str] | None = None
) -> PlaneLink:
    """`ca` is a file with the authority that signed the plane's certificate; the system's ones if empty.

    `own` is the agent's own certificate and key, where the plane wants one; gRPC alone carries it.
    """
    if _streamed(url):
        from dure.adapters.plane_grpc import GrpcPlane, Own

        return GrpcPlane(url, cluster, credential, ca=ca, own=Own(*own) if own else None)
    return HttpPlane(url, cluster, credential, ca=ca)


def join(
    url: str, cluster: str, token: str, secret: str = "", *, ca: str = "", own: tuple[str, str] | None = None
) -> str:
    """Have a one-time token make `secret` this cluster's own credential; answers the credential.

    The same again is answered the same, so whoever kept its secret first loses nothing with a lost answer. Without a
    secret, and with a plane that is older than proposals, the plane makes one and tells it once.
    """
    if _streamed(url):
        from dure.adapters.plane_grpc import Own, join_over_grpc

        return join_over_grpc(url, cluster, token, secret, ca=ca, own=Own(*own) if own else None)
    return join_over_http(url, cluster, token, secret, ca=ca)


def _streamed(url: str) -> bool:
    scheme = url.partition("://")[0]
    if scheme not in ("http", "https", "grpc", "grpcs"):
        raise InvalidInput(
            f"'{url}' is no address of a plane", remedy="Write http://, https://, grpc:// or grpcs:// HOST:PORT."
        )
    return scheme.startswith("grpc")
