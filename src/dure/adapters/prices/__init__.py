"""Prices from files and HTTP laid over the fleet's own tariffs."""

from dure.adapters.prices.series import SeriesPrices

__all__ = ["SeriesPrices"]
