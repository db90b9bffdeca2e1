"""Bodies of submissions: one or many documents, and those that are larger than they look."""

from __future__ import annotations

import pytest

from dure.gateway.intake import documents
from dure.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "count"),
    [(b"{a: 1}", 1), (b"a: 1\n---\nb: 2\n", 2), (b'[{"a": 1}, {"b": 2}]', 2), (b"kind: List\nitems: [{}, {}]", 2)],
)
def test_one_or_many_documents_are_read(text: bytes, count: int) -> None:
    assert len(documents(text)) == count


def test_an_anchor_that_is_used_a_few_times_is_fine() -> None:
    assert documents(b"a: &x {cpu: 1}\nb: *x\nc: *x\n")[0]["c"] == {"cpu": 1}


def test_aliases_that_multiply_are_refused_before_they_are_written_out() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(InvalidInput, match="aliases"):
        documents("\n".join(lines).encode())


def test_an_alias_of_itself_is_refused() -> None:
    with pytest.raises(InvalidInput, match="aliases"):
        documents(b"a: &a [*a]")
