"""Carbon intensity from files and HTTP: one series per grid, unknown hours as None."""

from dure.adapters.carbon.series import SeriesCarbon

__all__ = ["SeriesCarbon"]
