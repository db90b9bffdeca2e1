"""Lines of the audit log: who wrote what, each sealed by the hash of the one before.

Pure: the store appends lines with `sealed`, and whoever checks a log, in the database or exported, calls `check`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from dure.model.units import Instant

# What comes before the first line.
START = "0" * 64
# What a cut of the log does: one line that names the last line gone, then lines that tell again what stands.
PRUNE, RESTATE = "prune", "restate"
CUT, REMOVED, JOURNAL = "cut", "removed", "journals"
_ENCODER = msgspec.json.Encoder()


class Fact(msgspec.Struct, frozen=True, array_like=True):
    """One thing that was written: what kind, which one, and the digest of what it is from then on."""

    kind: str
    name: str
    digest: str


class AuditBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a line says. `via` is how the writer was known, `action` what they did."""

    seq: int
    at_s: Instant
    who: str
    via: str
    action: str
    facts: tuple[Fact, ...] = ()


class AuditLine(msgspec.Struct, frozen=True):
    """`body` is kept as the very text that was hashed, so that no later version of Dure can spell it otherwise."""

    body: str
    hash: str

    def said(self) -> AuditBody:
        return msgspec.json.decode(self.body, type=AuditBody)


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it was written."""

    where: str
    sentence: str


class Mark(msgspec.Struct, frozen=True):
    """How far a log had come, and its hash there; kept elsewhere, it shows whether the end was cut off."""

    seq: int = 0
    hash: str = START


def sealed(body: AuditBody, before: str) -> AuditLine:
    text = _ENCODER.encode(body).decode()
    return AuditLine(text, hash_of(text, before))


def hash_of(text: str, before: str) -> str:
    return hashlib.sha256(before.encode() + b"\n" + text.encode()).hexdigest()


def digest_of(*parts: object) -> str:
    """128 bits over parts that cannot run into one another."""
    hasher = hashlib.sha256()
    for part in parts:
        # A subclass of float or str may spell itself otherwise than what a database gives back.
        plain = float(part) if isinstance(part, float) else str(part) if isinstance(part, str) else part
        data = bytes(part) if isinstance(part, (bytes, memoryview)) else repr(plain).encode()
        hasher.update(b"%d:" % len(data) + data)
    return hasher.hexdigest()[:32]


def folded(digests: Iterable[str], before: str = START) -> str:
    """Many digests as one, in their order."""
    for digest in digests:
        before = hash_of(digest, before)
    return before


def cut_of(line: AuditLine) -> Mark | None:
    """The last line that was gone when this one was written; None where it tells of no cut."""
    if f'"{PRUNE}"' not in line.body:
        return None
    try:
        said = line.said()
        cuts = [Mark(int(one.name), one.digest) for one in said.facts if one.kind == CUT]
    except (msgspec.MsgspecError, ValueError):
        # The chain itself says that this line was altered.
        return None
    return cuts[0] if said.action == PRUNE and cuts else None


def origin_of(lines: Iterable[AuditLine]) -> Mark:
    """After which line a log begins: the newest cut says so; without one it is whole."""
    first, found = 0, Mark()
    for line in lines:
        first = first or _seq(line)
        found = cut_of(line) or found
    return Mark() if first == 1 else found


def check(
    lines: Iterable[AuditLine], end: Mark | None = None, known: Iterable[Mark] = (), origin: Mark | None = None
) -> Iterator[Finding]:
    """Everything that is wrong with a chain: altered, left out, put in, moved, or cut off at its end.

    `end` is where the chain should stop; `known` are marks taken earlier and kept elsewhere. `origin` is the last
    line that a cut took away: the chain begins after it, and marks before it can no longer be compared.
    """
    first = origin or Mark()
    before, count = first.hash, first.seq
    marks = {mark.seq: mark.hash for mark in known if mark.seq >= max(1, first.seq)}
    if marks.pop(first.seq, first.hash) != first.hash:
        yield Finding(f"line {first.seq}", "the cut names another hash than the one that was kept elsewhere")
    for line in lines:
        count += 1
        if hash_of(line.body, before) != line.hash:
            yield Finding(f"line {count}", "its text, or the line before it, is not what was sealed")
        seq = _seq(line)
        if seq != count:
            yield Finding(f"line {count}", f"it calls itself line {seq}: lines are missing or were moved")
        if marks.pop(count, line.hash) != line.hash:
            yield Finding(f"line {count}", "its hash is not the one that was kept elsewhere")
        before = line.hash
    if end is not None and (end.seq, end.hash) != (count, before):
        yield Finding("end", f"the log should end with line {end.seq} and hash {end.hash[:12]}, found {count} lines")
    for seq in sorted(marks):
        yield Finding("end", f"line {seq}, of which a mark was kept elsewhere, is gone")


def _seq(line: AuditLine) -> int:
    try:
        return line.said().seq
    except msgspec.MsgspecError:
        return -1
