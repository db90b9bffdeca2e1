"""Hostile bytes from sound ones: cuts, repetitions, foreign pieces, deep nests, strange characters; all seeded."""

from __future__ import annotations

import random

PIECES = (
    b"[", b"]", b"{", b"}", b":", b",", b"-", b"&a ", b"*a", b"<<: *a", b"!!int ",
    b"!!python/object:os.system ",
    b"'", b'"', b"\t", b"\n", b"#", b"|", b">", b"%", b"---\n", b"...\n", b"null", b"true", b".nan", b".inf",
    b"-1", b"0",
    b"1e999", b"-0.0", b"\x00", b"\xff", b"\xef\xbb\xbf", b"? ", b"9" * 40, b"1e308", b"\xe2\x80\xae",
    b"\xf0\x9f\x92\xa9", b"\xed\xa0\x80", b"../../etc/passwd", b"' OR 1=1 --", b"<script>alert(1)</script>",
    b"${jndi:ldap://x}", b"\r\n\r\n",
    b"\xcc\x81" * 8, b"NaN", b"Infinity", b"0x10", b"1_000", b"2026-02-30", b"\\u0000", b"\\ud800", b"{{", b"%s%n",
)  # fmt: skip
DEEP = (b"[", b"{a: ", b"- ", b"(", b'{"a":', b"sum(", b"-", b"not ")
LARGEST = 64 * 1024


def hostile(seeds: tuple[bytes, ...], chance: random.Random) -> bytes:
    if chance.random() < 0.03:
        return chance.randbytes(chance.randint(0, 200))
    data = chance.choice(seeds)
    for _ in range(chance.randint(1, 5)):
        data = _step(data, seeds, chance)
    return data[:LARGEST]


def _step(data: bytes, seeds: tuple[bytes, ...], chance: random.Random) -> bytes:
    start = chance.randint(0, len(data))
    end = min(len(data), start + chance.randint(0, 16))
    match chance.randint(0, 6):
        case 0:
            return data[:start] + chance.choice(PIECES) + data[end:]
        case 1:
            return data[:start] + data[end:]
        case 2:
            return data[:start] + data[start:end] * chance.randint(2, 40) + data[end:]
        case 3:
            return data[:start] + bytes(one ^ 1 << chance.randint(0, 7) for one in data[start:end]) + data[end:]
        case 4:
            return data[:start] + chance.choice(DEEP) * chance.choice((3, 30, 300, 3000)) + data[end:]
        case 5:
            other = chance.choice(seeds)
            cut = chance.randint(0, len(other))
            return data[:start] + other[cut : cut + chance.randint(0, 80)] + data[end:]
        case _:
            return data[:start] + chance.choice(PIECES) + data[start:]
