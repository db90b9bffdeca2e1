"""Where checkpoints are kept: a folder that every cluster can reach, or a bucket behind an S3 API.

A bucket is `s3://BUCKET/PREFIX`; address and keys come from the environment, by the names that all S3 clients know:
AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION. Either way a write is whole or did not happen.
"""

import datetime
import hashlib
import hmac
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

PATIENCE_S = 30.0


class Store(Protocol):
    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, data: bytes) -> None: ...


def store_of(place: str) -> Store:
    scheme, _, rest = place.partition("://")
    if scheme != "s3" or not rest:
        return Folder(Path(place))
    bucket, _, prefix = rest.partition("/")
    told = os.environ
    keys = told["AWS_ACCESS_KEY_ID"], told["AWS_SECRET_ACCESS_KEY"]
    return Bucket(told["AWS_ENDPOINT_URL"], bucket, prefix, *keys, told.get("AWS_REGION", "us-east-1"))


class Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> bytes | None:
        path = self._path / name
        return path.read_bytes() if path.exists() else None

    def write(self, name: str, data: bytes) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        new = self._path / f"{name}.new"
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._path / name)


class Bucket:
    """One object for each name; the address has the bucket in its path, as own object stores want it."""

    def __init__(self, endpoint: str, bucket: str, prefix: str, key: str, secret: str, region: str) -> None:
        self._base = f"{endpoint.rstrip('/')}/{bucket}/{prefix.strip('/')}".rstrip("/")
        self._key, self._secret, self._region = key, secret, region

    def read(self, name: str) -> bytes | None:
        try:
            return self._ask("GET", name, b"")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def write(self, name: str, data: bytes) -> None:
        self._ask("PUT", name, data)

    def _ask(self, method: str, name: str, body: bytes) -> bytes:
        url = urllib.parse.urlsplit(f"{self._base}/{urllib.parse.quote(name)}")
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        signed = {"host": url.netloc, "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "x-amz-date": now}
        proof = signature(method, url.path, signed, self._secret, self._region)
        scope = f"{now[:8]}/{self._region}/s3/aws4_request"
        names = ";".join(sorted(signed))
        told = f"AWS4-HMAC-SHA256 Credential={self._key}/{scope}, SignedHeaders={names}, Signature={proof}"
        request = urllib.request.Request(url.geturl(), body if method == "PUT" else None, method=method)
        for header, value in (*signed.items(), ("Authorization", told)):
            request.add_header(header, value)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            found: bytes = answer.read()
            return found


def signature(method: str, path: str, headers: Mapping[str, str], secret: str, region: str) -> str:
    """Signature Version 4 of a request without a query; `headers` are those that are signed, in lower case."""
    lines = [f"{name}:{headers[name].strip()}\n" for name in sorted(headers)]
    canonical = [method, path, "", "".join(lines), ";".join(sorted(headers)), headers["x-amz-content-sha256"]]
    moment = headers["x-amz-date"]
    scope = [moment[:8], region, "s3", "aws4_request"]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", moment, "/".join(scope), digest])
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
