"""Global: which cluster, which accelerator class, when. Pure: Snapshot -> decisions.

What goes in: `option` joins pools with their series, `candidate` prices and filters them, `batch` makes one Instance
of all who wait. How it is solved: `solve` in front of `greedy`, `prices`, `ruin`, `exact`. What comes out: `plan`.
"""

from dure.place.plan import Offer, options_for, place

__all__ = ["Offer", "options_for", "place"]
