"""`dure advise mig`: how many MIG devices some services need, from what was measured of them."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from dure.cli.output import output_options, print_data, print_table
from dure.manifest.migplan import SLICES, STARTS, Measured, Seat, Service, best_rates, plan
from dure.model.errors import InvalidInput

MOST_SLICES = 700
REMEDY = "See docs/advise.md for the file of services."


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    rate: float
    latency_ms: float
    measured: tuple[Measured, ...]


class Services(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    services: tuple[Asked, ...]


@click.command()
@click.option(
    "-f", "--file", "path", required=True, type=click.Path(path_type=Path), help="Services and what was measured."
)
@output_options
def mig(path: Path, output: str) -> None:
    """Fewest MIG devices (A100, H100) for services with a rate and a latency each, and who gets which instance.

    \b
    Example:
      dure advise mig -f services.yaml
      dure device carve GPU-8a1f0c2e 4 3
    """
    from dure.files.plain import read_as

    asked = read_as(path, Services, "a file of services", REMEDY).services
    found = plan([_service(one, f"{path}: {one.name}") for one in _named(asked, str(path))])
    if output in ("json", "yaml"):
        print_data([[msgspec.to_builtins(seat) for seat in held] for held in found], output)
        return
    rows = [(str(number), _cut(held), _told(held)) for number, held in enumerate(found, 1)]
    print_table(("device", "cut", "instances"), rows)
    used = sum(seat.slices for held in found for seat in held)
    click.echo(f"{len(found)} devices, {used} of {SLICES * len(found)} slices used")


def _named(asked: tuple[Asked, ...], where: str) -> tuple[Asked, ...]:
    if not asked or len({one.name for one in asked}) != len(asked):
        raise InvalidInput("every service needs a name of its own, and there must be one", where=where)
    return asked


def _service(asked: Asked, where: str) -> Service:
    if not 0 < asked.rate < 1e9:
        raise InvalidInput(f"a rate of {asked.rate:g} is no rate", where=where, remedy="Give requests a second.")
    for one in asked.measured:
        if one.slices not in STARTS or not one.rate > 0:
            raise InvalidInput(
                f"nothing of {one.slices} slices can reach {one.rate:g} a second",
                where=where,
                remedy=f"Instances have {', '.join(map(str, sorted(STARTS)))} slices, and rates are above 0.",
            )
    rates = best_rates(asked.measured, asked.latency_ms)
    if not rates:
        quickest = min((one.latency_ms for one in asked.measured), default=None)
        said = f"the quickest took {quickest:g} ms" if quickest is not None else "nothing was measured"
        raise InvalidInput(
            f"no instance answers within {asked.latency_ms:g} ms: {said}",
            where=where,
            remedy="Promise less, or measure.",
        )
    slices = asked.rate / max(rate / size for size, rate in rates.items())
    if slices > MOST_SLICES:
        raise InvalidInput(
            f"{asked.rate:g} a second would take {slices:.0f} slices",
            where=where,
            remedy=f"Plan at most {MOST_SLICES} for a service; above that count whole devices.",
        )
    return Service(asked.name, asked.rate, rates)


def _cut(held: tuple[Seat, ...]) -> str:
    return "+".join(str(seat.slices) for seat in held)


def _told(held: tuple[Seat, ...]) -> str:
    return ", ".join(f"{seat.service} {seat.slices}g" for seat in held)
