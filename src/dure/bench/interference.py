"""`dure bench interference`: how well equation 1 foretells the slowdown of pairs it has not seen.

Fits rho on the given pairs and measures the relative latency error on held-out ones (a file of its own, or 30 %
of the rows drawn five times), against the same fit with phi = 1, with phi = the neighbour's share, and with no
interference at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec
import numpy as np

from dure.bench.data import data_file, read_rows
from dure.bench.result import Result, bench_options, emit
from dure.model.errors import InvalidInput
from dure.share.interference import (
    App,
    Book,
    Observation,
    constant_phi,
    empty_book,
    neighbour_phi,
    phi,
)

PAIRS = "igniter/pair_colocation_v100_mps.csv"
SPLITS = 5
HELD_OUT = 0.3
WEIGHTINGS = {"phi": phi, "constant": constant_phi, "neighbour-share": neighbour_phi}


class Sample(msgspec.Struct, frozen=True):
    """One side of a measured pair."""

    seen: Observation
    latency_ms: float
    solo_ms: float


@click.command()
@click.option(
    "--pairs", type=click.Path(path_type=Path), help="Measured pairs, .csv or .csv.gz.  [public V100 pairs]"
)
@click.option("--holdout", type=click.Path(path_type=Path), help="Pairs to test on; without it 30 % are held out.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random split.")
@bench_options
def command(pairs: Path | None, holdout: Path | None, seed: int, as_json: bool, report: Path | None) -> None:
    """Fit equation 1 on measured pairs and test it on others.

    \b
    Example:
      dure bench interference --pairs pairs.csv --holdout others.csv --json
    """
    source = pairs or data_file(PAIRS)
    known = read_pairs(source)
    folds = _folds(known, read_pairs(holdout) if holdout else None, seed)
    rows: list[dict[str, str | int | float | bool | None]] = []
    errors: dict[str, list[float]] = {name: [] for name in (*WEIGHTINGS, "none")}
    for number, (train, test) in enumerate(folds):
        books = {name: _fit(train, weighting) for name, weighting in WEIGHTINGS.items()}
        for name in errors:
            found = [_error(books.get(name), sample) for side in test for sample in side]
            errors[name] += found
            rows.append(
                {
                    "policy": name,
                    "input": (holdout or source).name,
                    "seed": seed + number,
                    "samples": len(found),
                    "p50_pct": _at(found, 50),
                    "p90_pct": _at(found, 90),
                    "p95_pct": _at(found, 95),
                }
            )
    summary = {
        "p50_pct": _at(errors["phi"], 50),
        "p90_pct": _at(errors["phi"], 90),
        "p95_pct": _at(errors["phi"], 95),
        "constant_p90_pct": _at(errors["constant"], 90),
        "neighbour_share_p90_pct": _at(errors["neighbour-share"], 90),
        "no_interference_p90_pct": _at(errors["none"], 90),
        "pairs": len(known),
    }
    emit(Result("interference", rows, summary), as_json=as_json, report=report, figures=_figures(errors))


def read_pairs(path: Path) -> list[tuple[Sample, Sample]]:
    """Both sides of every row. `InvalidInput` names the row and column that cannot be read."""
    pairs = []
    for number, row in enumerate(read_rows(path), start=2):
        try:
            pairs.append((_side(row, "a", "b"), _side(row, "b", "a")))
        except KeyError as error:
            raise InvalidInput(
                f"column {error} is missing",
                where=str(path),
                remedy="Wanted for a and b: model_, batch_, sm_percent_, latency_*_ms, solo_latency_*_ms.",
            ) from error
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"not a measured pair: {error}", where=f"{path}:{number}") from error
    if len(pairs) < 2:
        raise InvalidInput("fewer than two pairs", where=str(path), remedy="Give a file with measured pairs.")
    return pairs


def _side(row: dict[str, str], own: str, other: str) -> Sample:
    latency, solo = float(row[f"latency_{own}_ms"]), float(row[f"solo_latency_{own}_ms"])
    if not (latency > 0.0 and solo > 0.0):
        raise ValueError("latencies must be above zero")
    seen = Observation(
        App(row[f"model_{own}"], int(float(row[f"batch_{own}"]))),
        App(row[f"model_{other}"], int(float(row[f"batch_{other}"]))),
        float(row[f"sm_percent_{own}"]) / 100.0,
        float(row[f"sm_percent_{other}"]) / 100.0,
        solo / latency,
    )
    return Sample(seen, latency, solo)


def _folds(
    known: list[tuple[Sample, Sample]], holdout: list[tuple[Sample, Sample]] | None, seed: int
) -> list[tuple[list[tuple[Sample, Sample]], list[tuple[Sample, Sample]]]]:
    if holdout is not None:
        return [(known, holdout)]
    folds = []
    for number in range(SPLITS):
        order = np.random.default_rng(seed + number).permutation(len(known))
        cut = max(1, len(known) - round(HELD_OUT * len(known)))
        folds.append(([known[i] for i in order[:cut]], [known[i] for i in order[cut:]]))
    return folds


def _fit(pairs: Sequence[tuple[Sample, Sample]], weighting: Callable[[float, float], float]) -> Book:
    return empty_book(weighting).learn([sample.seen for side in pairs for sample in side])


def _error(book: Book | None, sample: Sample) -> float:
    """Relative error of the foretold latency, in per cent."""
    seen = sample.seen
    speed = book.speed(seen.app, seen.own, [(seen.other, seen.theirs)]) if book else 1.0
    return 100.0 * abs(sample.solo_ms / speed / sample.latency_ms - 1.0)


def _at(values: Sequence[float], percentile: float) -> float:
    return round(float(np.percentile(values, percentile)), 3)


def _figures(errors: dict[str, list[float]]) -> list[object]:
    import plotly.graph_objects as go

    figure = go.Figure([go.Box(y=values, name=name, boxpoints=False) for name, values in errors.items()])
    figure.update_layout(title="Latency error on held-out pairs", yaxis_title="error, %", showlegend=False)
    return [figure]
