"""The HTML page of a report: plots, tables, advice. One file; every script and figure is inside."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dure
from dure.cli.output import money, share, span
from dure.cli.report_data import Found, Savings
from dure.model.posting import Account

_STYLE = """
:root{color-scheme:light dark;--line:#8883;--dim:#7a858e;--accent:#0b7a70}
body{font:14px/1.5 system-ui,sans-serif;max-width:1080px;margin:1.5rem auto;padding:0 1rem}
h1{font-size:20px;margin:0}h2{font-size:15px;margin:1.8rem 0 .4rem;border-top:1px solid var(--line);padding-top:.8rem}
.dim{color:var(--dim)}.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;
margin:1rem 0}.tile{border:1px solid var(--line);border-radius:4px;padding:.5rem .8rem}
.tile b{display:block;font-size:21px;font-weight:600}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
td,th{border-bottom:1px solid var(--line);padding:.2rem .5rem .2rem 0;text-align:right}
td:first-child,th:first-child,.text{text-align:left}th{color:var(--dim);font-weight:500}
li{margin:.3rem 0}.scroll{overflow-x:auto}
"""
_LOOK = {
    "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": "#808080", "size": 11},
    "margin": {"t": 30, "b": 40, "l": 60, "r": 10}, "height": 300,
}  # fmt: skip
_AXIS = {"gridcolor": "rgba(128,128,128,.25)", "zerolinecolor": "rgba(128,128,128,.4)"}
_COLOURS = {
    Account.USED: "#0b7a70", Account.IDLE: "#c9a227", Account.STARTING: "#7b8fa1", Account.LEAVING: "#9b6b9e",
    Account.STRANDED: "#b3261e", Account.BUILDING: "#5b6770",
}  # fmt: skip


def write_page(path: Path, found: Found, savings: Savings | None) -> None:
    plots = [_by_day(found, "micros", f"Where the money went, {found.currency} a day", 1e6)]
    plots += [_by_day(found, "carbon_g", "Where the carbon went, kg a day", 1e3)]
    if savings is not None:
        plots.append(_bars(savings))
    drawn = [
        plot.to_html(full_html=False, include_plotlyjs="inline" if index == 0 else False)
        for index, plot in enumerate(plots)
    ]
    title = f"{found.name}, {_day(found.since_s)} to {_day(found.until_s)}"
    body = "".join(
        (
            f"<h1>{html.escape(title)}</h1><p class=dim>Dure {dure.__version__}",
            " · prices and carbon of this fleet are demo data" if found.demo else "",
            "</p>",
            _tiles(found, savings),
            _section("What to do", _advice(found)),
            _section("Money and carbon", drawn[0] + drawn[1]),
            _section("Saving against a fixed placement", _savings(savings, found.currency) + "".join(drawn[2:])),
            _section("Top waste", _waste(found)),
            _section("Tenants", _tenants(found)),
            _section("Promises to users", _promises(found)),
            _section("Out of the ordinary", _anomalies(found)),
            _section("Do predictions hold", _drifts(found)),
        )
    )
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Dure report: {html.escape(title)}</title><style>{_STYLE}</style>{body}</html>",
        encoding="utf-8",
    )


def _tiles(found: Found, savings: Savings | None) -> str:
    ledger = found.ledger
    paid = max(1, ledger["paid_micros"])
    carbon = sum(item["carbon_g"] for item in ledger["items"] if item["by"]["account"] == "paid")
    tiles = [
        ("paid", f"{money(ledger['paid_micros'])} {found.currency}"),
        ("used by workloads", share(ledger["used_micros"] / paid)),
        ("idle", share(ledger["idle_micros"] / paid)),
        ("overhead", share(ledger["overhead_micros"] / paid)),
        ("CO₂e", f"{carbon / 1000:,.0f} kg"),
    ]
    if savings is not None:
        tiles.append(("less than a fixed placement", share(savings.part)))
    return f"<div class=tiles>{''.join(f'<div class=tile><b>{value}</b>{name}</div>' for name, value in tiles)}</div>"


def _by_day(found: Found, field: str, title: str, unit: float) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    days = sorted({item["by"]["day"] for item in found.ledger["items"]})
    for account, colour in _COLOURS.items():
        sums = dict.fromkeys(days, 0.0)
        for item in found.ledger["items"]:
            if item["by"]["account"] == account:
                sums[item["by"]["day"]] += item[field] / unit
        if any(sums.values()):
            figure.add_bar(x=days, y=list(sums.values()), name=account.value, marker_color=colour)
    figure.update_layout(**_LOOK, barmode="stack", title={"text": title, "font": {"size": 12}})
    figure.update_xaxes(**_AXIS, type="category")
    figure.update_yaxes(**_AXIS)
    return figure


def _bars(savings: Savings) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    fixed = savings.fixed
    for name, one, colour in (("fixed", fixed, "#7b8fa1"), ("Dure", savings.dure, "#0b7a70")):
        parts = (one.cost_micros / max(1, fixed.cost_micros), one.carbon_kg / max(1e-9, fixed.carbon_kg))
        figure.add_bar(x=["money", "CO₂e"], y=[100 * part for part in parts], name=name, marker_color=colour)
    figure.update_layout(**_LOOK, barmode="group")
    figure.update_xaxes(**_AXIS)
    figure.update_yaxes(**_AXIS, ticksuffix=" %")
    return figure


def _savings(savings: Savings | None, currency: str) -> str:
    if savings is None:
        return "<p class=dim>Not replayed: nothing is claimed.</p>"
    rows = [
        ["charged", *(f"{money(one.cost_micros)} {currency}" for one in _both(savings)), share(savings.part)],
        ["CO₂e", *(f"{one.carbon_kg:,.0f} kg" for one in _both(savings)), _less(savings, "carbon_kg")],
        ["requests in time", *(share(one.slo_attainment) for one in _both(savings)), ""],
        ["deadlines met", *(share(one.deadlines_met) for one in _both(savings)), ""],
        ["mean wait", *(span(one.wait_mean_s) for one in _both(savings)), ""],
        ["workloads done", *(str(one.done) for one in _both(savings)), ""],
    ]
    note = (
        f"<p class=dim>{savings.workloads} workloads of {savings.days:.1f} days played twice in virtual time (seed "
        f"{savings.seed}): to the first class and cluster of a fixed list at once, no spot, no moves; and by Dure. "
        f"Money and carbon are of the {savings.compared} that both worlds got done or served.</p>"
    )
    return note + _table(["", "fixed", "Dure", "less"], rows)


def _both(savings: Savings) -> tuple[Any, Any]:
    return savings.fixed, savings.dure


def _less(savings: Savings, field: str) -> str:
    before, after = getattr(savings.fixed, field), getattr(savings.dure, field)
    return share(1 - after / before) if before else ""


def _advice(found: Found) -> str:
    lines = [
        f"<li>{html.escape(one.sentence)}.<br><span class=dim>{html.escape(one.remedy)}</span></li>"
        for one in found.advice[:12]
    ]
    return f"<ol>{''.join(lines)}</ol>" if lines else "<p class=dim>Nothing stands out.</p>"


def _waste(found: Found) -> str:
    rows = [
        [f"{one.cluster}/{one.pool}", one.cause.value, money(one.micros), f"{one.device_hours:,.0f}", share(one.part)]
        for one in found.waste[:15]
    ]
    return _table(["pool", "cause", found.currency, "device-hours", "of the pool"], rows)


def _tenants(found: Found) -> str:
    sums: dict[str, dict[str, float]] = {}
    for item in found.tenants:
        if name := item["by"]["tenant"]:
            row = sums.setdefault(name, {"micros": 0, "carbon_g": 0.0, "hours": 0.0, "starting": 0})
            row["micros"] += item["micros"]
            row["carbon_g"] += item["carbon_g"]
            row["hours"] += item["device_hours"]
            row["starting"] += item["micros"] if item["by"]["account"] != "used" else 0
    rows = [
        [name, money(int(one["micros"])), f"{one['hours']:,.0f}", f"{one['carbon_g'] / 1000:,.1f} kg",
         share(one["starting"] / one["micros"] if one["micros"] else None)]
        for name, one in sorted(sums.items())
    ]  # fmt: skip
    return _table(["tenant", found.currency, "device-hours", "CO₂e", "starting and leaving"], rows)


def _promises(found: Found) -> str:
    rows = [
        [one["workload"], one["tenant"], share(one["state"]["attained"]), share(one["state"]["target"]),
         share(one["state"]["left"]), one["level"] or "well"]
        for one in found.budgets
    ]  # fmt: skip
    return _table(["service", "tenant", "in time", "promised", "budget left", "state"], rows)


def _anomalies(found: Found) -> str:
    rows = [[_stamp(one["since_s"]), one["thing"], one["evidence"]] for one in found.anomalies[:25]]
    return _table(["from", "what", "evidence"], rows, text=(1, 2))


def _drifts(found: Found) -> str:
    rows = [
        [one.what, one.group, str(one.pairs), f"{one.bias:+.1%}", share(one.within_20),
         "" if one.since_s is None else f"since {_stamp(one.since_s)}: {one.now or 0:+.0%}"]
        for one in found.drifts[:20]
    ]  # fmt: skip
    return _table(["what", "of", "workloads", "median error", "within 20 %", "changed"], rows, text=(1,))


def _section(title: str, body: str) -> str:
    return f"<h2>{title}</h2>{body}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[int] = ()) -> str:
    rows = list(rows)
    if not rows:
        return "<p class=dim>None.</p>"

    def line(cells: Sequence[str], tag: str) -> str:
        marks = [" class=text" if index in text else "" for index in range(len(cells))]
        return "".join(f"<{tag}{mark}>{html.escape(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True))

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<div class=scroll><table><tr>{line(head, 'th')}</tr>{body}</table></div>"


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()


def _stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")
