"""Global: which cluster, which accelerator class, when. Pure: Snapshot -> decisions.

`option` enumerates the homes a workload could have, `filters` says why not, `bill` what each would cost, `cheapest`
chooses.
"""

from dure.place.cheapest import Offer, options_for, place

__all__ = ["Offer", "options_for", "place"]
