"""`dure advise`: which instance type for a model, by arithmetic; what this fleet could save, from its own record."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import click
import msgspec

from dure.cli.migplan import mig
from dure.cli.output import output_options, print_data, print_table
from dure.cli.state import state_option
from dure.files.params import FiniteRange
from dure.manifest.sizing import Advice, Ask, advise, obstacle
from dure.model.errors import InvalidInput
from dure.model.offer import InstanceOffer

_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
_MULTIPLES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_PER = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
# Fewer parameters than that are a forgotten B.
_SMALLEST = 1e6
# Whole nodes of the usual ladder; --all looks at every type that is known.
LADDER = ("g5.*", "p4d.24xlarge", "p5.48xlarge")


@click.group(invoke_without_command=True)
@state_option
@output_options
@click.pass_context
def command(ctx: click.Context, state: Path, output: str) -> None:
    """What this fleet could save, computed from its own record, with the plan to get it.

    \b
    Example:
      dure advise
      dure advise instance --params 70B --dtype fp16 --context 8k --rate 3/s
    """
    if ctx.invoked_subcommand is None:
        from dure.cli.savings import show_savings

        show_savings(state, output)


command.add_command(mig)


@command.command()
@click.option("--params", required=True, help="Parameters of the model: 7B, 70B, 1.5T.")
@click.option(
    "--dtype",
    type=click.Choice(list(_BYTES), case_sensitive=False),
    default="fp16",
    show_default=True,
    help="Type of the weights.",
)
@click.option("--context", default="8k", show_default=True, help="Tokens of prompt and answer together: 8k, 1M.")
@click.option("--rate", default="1/s", show_default=True, help="Requests: 3/s, 90/min.")
@click.option("--answer", default=256, show_default=True, type=click.IntRange(1), help="Tokens of an answer.")
@click.option("--step", default=100.0, show_default=True, type=FiniteRange(1), help="Longest ms between tokens.")
@click.option("--carbon", default=400.0, show_default=True, type=FiniteRange(0), help="Grid intensity, g/kWh.")
@click.option("--pue", default=1.15, show_default=True, type=FiniteRange(1), help="Of the data centre.")
@click.option("--types", multiple=True, metavar="GLOB", help=f"Types to compare (repeat) [{', '.join(LADDER)}].")
@click.option("--all", "every", is_flag=True, help="Compare every type that is known.")
@output_options
def instance(
    params: str,
    dtype: str,
    context: str,
    rate: str,
    answer: int,
    step: float,
    carbon: float,
    pue: float,
    types: tuple[str, ...],
    every: bool,
    output: str,
) -> None:
    """Instance types that can serve a language model, cheapest for the asked rate first.

    Memory, throughput, price and CO2 are computed from the devices' data sheets (see docs/advise.md); prices are
    on-demand list prices in USD.

    \b
    Example:
      dure advise instance --params 70B --dtype fp16 --context 8k --rate 3/s
      dure advise instance --params 13B --dtype int8 --context 32k --rate 40/min --all
    """
    from dure.files.builtin import catalogue, instances

    ask = Ask(
        _count(params, "--params"), _BYTES[dtype], _tokens(context), _rate(rate), answer, step / 1000, carbon, pue
    )
    if ask.context <= ask.output:
        raise InvalidInput(f"a context of {ask.context} tokens has no room for an answer of {ask.output}")
    known = instances()
    wanted = known if every else _matching(known, types or LADDER)
    found = advise(ask, wanted, catalogue().classes)
    others = [] if every else advise(ask, [offer for offer in known if offer not in wanted], catalogue().classes)
    cheaper = [each for each in others if found and each.usd_per_h < found[0].usd_per_h] if found else others
    why = "" if found else obstacle(ask, wanted, catalogue().classes)
    if output in ("json", "yaml"):
        rows, more = msgspec.to_builtins(found), msgspec.to_builtins(cheaper[:3])
        asked = {**msgspec.to_builtins(ask), **_memory(ask)}
        print_data({"ask": asked, "advice": rows, "cheaper": more, "obstacle": why}, output)
        return
    _show(ask, found, cheaper, why)


def _show(ask: Ask, found: list[Advice], cheaper: list[Advice], why: str) -> None:
    memory = _memory(ask)
    click.echo(
        f"weights {memory['weights_gib']:.1f} GiB, KV cache {memory['cache_gib']:.2f} GiB a request at full context "
        f"(about {ask.layers} layers, width {ask.width:.0f})"
    )
    if not found:
        click.echo(f"No instance type of these will do: {why}." + ("" if not cheaper else " Others will: --all"))
    header = (
        "instance",
        "need",
        "devices",
        "batch",
        "GiB used",
        "of",
        "req/s each",
        "first",
        "step",
        "USD/h",
        "USD/M",
        "gCO2/M",
    )
    rows = [
        (
            each.instance, str(each.instances), f"{each.group} x {each.replicas}", str(each.batch),
            f"{each.used_gib:.0f}", f"{each.device_gib:.0f}", f"{each.requests_per_s:.2f}",
            f"{each.first_token_s:.2f}s", f"{each.step_s * 1000:.0f}ms", f"{each.usd_per_h:.2f}",
            f"{each.usd_per_million:.3f}", f"{each.g_per_million:.1f}",
        )
        for each in found
    ]  # fmt: skip
    if rows:
        print_table(header, rows)
    for each in cheaper[:1]:
        click.echo(f"Outside of these types: {each.instances} {each.instance} for {each.usd_per_h:.2f} USD/h (--all)")


def _memory(ask: Ask) -> dict[str, float]:
    return {"weights_gib": ask.weights_gib, "cache_gib": ask.cache_gib}


def _matching(offers: tuple[InstanceOffer, ...], types: tuple[str, ...]) -> tuple[InstanceOffer, ...]:
    found = tuple(offer for offer in offers if any(fnmatch(offer.name, pattern) for pattern in types))
    if not found:
        known = ", ".join(sorted({offer.family for offer in offers}))
        raise InvalidInput(f"no known type matches {', '.join(types)}", remedy=f"Known families: {known}")
    return found


def _count(text: str, where: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmbgt]?)", text.strip().lower())
    value = float(found[1]) * _MULTIPLES[found[2]] if found else 0.0
    if value <= 0:
        raise InvalidInput(f"'{text}' is no number of parameters", where=where, remedy="For example 7B or 1.5T.")
    if value < _SMALLEST:
        raise InvalidInput(
            f"{text} parameters are no language model",
            where=where,
            remedy=f"Did you mean {found[1] if found else text}B?",
        )
    return value


def _tokens(text: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([km]?)", text.strip().lower())
    value = round(float(found[1]) * 1024 ** " km".index(found[2] or " ")) if found else 0
    if value < 2:
        raise InvalidInput(f"'{text}' is no number of tokens", where="--context", remedy="For example 8k or 1M.")
    return value


def _rate(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(?:/\s*(s|sec|min|m|h))?", text.strip().lower())
    value = float(found[1]) / _PER[found[2] or "s"] if found else 0.0
    if value <= 0:
        raise InvalidInput(f"'{text}' is no rate", where="--rate", remedy="For example 3/s or 90/min.")
    return value
