"""Instance offers for the node benchmarks, read from the public price list."""

from __future__ import annotations

from dure.bench.data import data_file, read_rows
from dure.model.errors import InvalidInput
from dure.scale.nodes.state import Offer

FILE = "skypilot-catalog/accelerator_offers_2026-08-22.csv"
FAMILIES = ("g4dn", "g5", "g6", "g6e", "p4d", "p4de", "p5")
RECLAIMS_H = 0.05


def read_offers(region: str, limit: int | None = None) -> tuple[Offer, ...]:
    """One on-demand and one spot offer (cheapest zone) for each GPU instance type of a region."""
    best: dict[tuple[str, str], Offer] = {}
    for row in read_rows(data_file(FILE)):
        if row["cloud"] != "aws" or row["region"] != region or row["instance_type"].split(".")[0] not in FAMILIES:
            continue
        size = (
            int(float(row["count"]) * 1000),
            int(float(row["vcpus"]) * 1000),
            int(float(row["memory_gib"]) * 1024),
        )
        for capacity, column in (("on-demand", "ondemand_usd_h"), ("spot", "spot_usd_h")):
            if not row[column]:
                continue
            offer = Offer(
                row["instance_type"],
                row["accelerator"],
                size,
                int(float(row[column]) * 1_000_000),
                "spot" if capacity == "spot" else "on-demand",
                reclaims_h=RECLAIMS_H if capacity == "spot" else 0.0,
            )
            key = (row["instance_type"], capacity)
            if key not in best or offer.price < best[key].price:
                best[key] = offer
    if not best:
        raise InvalidInput(f"no GPU offers for region '{region}'", where=FILE, remedy="Try --region us-east-1.")
    return tuple(best[key] for key in sorted(best))[:limit]
