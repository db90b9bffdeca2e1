"""Equation 1 and what the book of rho learns from observations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.share.interference import PRIOR_RHO, App, Observation, empty_book, phi

A, B, C = App("a", 8), App("b", 8), App("c", 8)


def seen(app: App, other: App, rho: float, own: float = 0.5) -> Observation:
    return Observation(app, other, own, 1.0 - own, 1.0 - rho * phi(own, 1.0 - own))


@settings(deadline=None)
@given(own=st.floats(0.0, 1.0), theirs=st.floats(0.0, 1.0))
def test_phi_is_symmetric_and_vanishes_with_either_share(own: float, theirs: float) -> None:
    assert phi(own, theirs) == pytest.approx(phi(theirs, own))
    assert phi(own, 0.0) == 0.0


def test_phi_is_one_at_an_even_split() -> None:
    assert phi(0.5, 0.5) == pytest.approx(1.0)


def test_an_empty_book_believes_the_prior_and_is_unsure() -> None:
    rho = empty_book().rho(A, B)
    assert rho.mean == pytest.approx(PRIOR_RHO)
    assert rho.sd > 0.05


def test_a_handful_of_observations_suffices() -> None:
    book = empty_book().learn([seen(A, B, 0.2, own) for own in (0.2, 0.4, 0.5, 0.6, 0.8)])
    assert book.rho(A, B).mean == pytest.approx(0.2, abs=0.02)
    assert book.rho(A, B).sd < empty_book().rho(A, B).sd / 3


def test_pairs_are_ordered() -> None:
    book = empty_book().learn([seen(A, B, 0.2), seen(B, A, 0.02)] * 10)
    assert book.rho(A, B).mean > book.rho(B, A).mean + 0.1


def test_a_pair_never_seen_leans_on_its_members_other_pairs() -> None:
    book = empty_book().learn([seen(A, C, 0.3), seen(B, C, 0.02), seen(C, A, 0.1), seen(C, B, 0.1)] * 20)
    assert book.rho(A, B).mean > book.rho(B, A).mean
    assert book.rho(A, B).sd > book.rho(A, C).sd


def test_memory_bound_strangers_are_expected_to_disturb_more() -> None:
    heavy, light = App("x", 8, 0.9), App("y", 8, 0.1)
    book = empty_book()
    assert book.rho(heavy, heavy).mean > book.rho(light, light).mean


def test_learning_in_pieces_equals_learning_at_once() -> None:
    observations = [seen(A, B, 0.1 + 0.01 * i, 0.2 + 0.1 * i) for i in range(6)]
    whole = empty_book().learn(observations)
    pieces = empty_book()
    for observation in observations:
        pieces = pieces.learn([observation])
    assert pieces.rho(A, B).mean == pytest.approx(whole.rho(A, B).mean, rel=1e-9)


def test_learning_leaves_the_old_book_as_it_was() -> None:
    book = empty_book()
    before = book.rho(A, B)
    book.learn([seen(A, B, 0.4)] * 5)
    assert book.rho(A, B) == before


@settings(deadline=None)
@given(rhos=st.lists(st.floats(0.0, 0.9), min_size=1, max_size=5))
def test_speed_never_leaves_zero_to_one(rhos: list[float]) -> None:
    book = empty_book().learn([seen(A, App(f"m{i}"), rho) for i, rho in enumerate(rhos)])
    neighbours = [(App(f"m{i}"), 1.0 / (len(rhos) + 1)) for i in range(len(rhos))]
    assert 0.0 < book.speed(A, 1.0 / (len(rhos) + 1), neighbours) <= 1.0


def test_speed_is_the_product_over_neighbours() -> None:
    book = empty_book()
    one = book.speed(A, 0.4, [(B, 0.3)])
    other = book.speed(A, 0.4, [(C, 0.3)])
    assert book.speed(A, 0.4, [(B, 0.3), (C, 0.3)]) == pytest.approx(one * other)
    assert np.isfinite(one)
