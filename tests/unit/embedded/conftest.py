"""A small fleet for the loops: two clusters, two tenants, nothing random but what the seed gives."""

from __future__ import annotations

import pytest

from dure.files import read_text
from dure.files.builtin import catalogue
from dure.model.catalogue import Catalogue
from dure.model.fleet import Fleet

FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: small}
spec:
  currency: KRW
  carbonPrice: 90000/tCO2e
  clusters:
    - name: seoul
      region: kr-seoul
      timezone: Asia/Seoul
      grid: KR
      pue: 1.3
      connect: {embedded: {}}
      pools:
        - {name: a100, class: a100-80gb-sxm, nodes: 2, devices: 4, share: [exclusive, mig], price: {owned: 1100/h}}
    - name: busan
      region: kr-busan
      timezone: Asia/Seoul
      grid: KR
      pue: 1.2
      connect: {embedded: {}}
      pools:
        - {name: t4, class: t4, nodes: 2, devices: 2, share: [exclusive, mps], price: {owned: 150/h}}
  tenants:
    - {name: vision, weight: 1}
    - {name: search, weight: 2}
"""


@pytest.fixture(scope="session")
def known() -> Catalogue:
    return catalogue()


@pytest.fixture(scope="session")
def small_fleet() -> Fleet:
    return read_text(FLEET, "small").fleets[0]
