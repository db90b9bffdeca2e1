"""Days differ: how much more readily than usual spot is lost today, as far as one can know.

Called by whoever watches several pools (`dure bench spot`); `spot` weighs its choice over the answer. A rate learned
from a week hides that losses come in bad days, on which slack is worth most; a mean day undervalues it. How much days
differ beyond chance is read off the days that were seen (method of moments, one day of a prior that says by as much
as a usual day has), five log-normal days of equal chance stand for all, and losses since the job began say which it
is (Bayes, Poisson). O(days).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, variance

import msgspec

_POINTS = tuple(NormalDist().inv_cdf((number + 0.5) / 5) for number in range(5))
_LEAST_DAYS = 3
# Days that are next to impossible by now are left out.
_HARDLY = 0.02


class Days(msgspec.Struct, frozen=True):
    """`usual` losses in an e-fold of age; `varied` is the squared coefficient of variation among days."""

    usual: float = 1.0
    varied: float = 1.0

    def today(self, losses: float, aged: float) -> tuple[tuple[float, float], ...]:
        """How likely it is that spells end so many times as readily, after `losses` in `aged` e-folds today."""
        width = math.sqrt(math.log1p(self.varied))
        factors = [math.exp(width * point - width * width / 2) for point in _POINTS]
        fits = [losses * math.log(factor) - factor * self.usual * aged for factor in factors]
        weights = [math.exp(fit - max(fits)) for fit in fits]
        shares = [weight / sum(weights) for weight in weights]
        return tuple((share, factor) for share, factor in zip(shares, factors, strict=True) if share >= _HARDLY)


def days_of(seen: Sequence[tuple[float, float]]) -> Days:
    """From losses and e-folds of age gathered on each day of the past."""
    known = [(losses, aged) for losses, aged in seen if aged > 0]
    usual = (sum(losses for losses, _ in known) + 1.0) / (sum(aged for _, aged in known) + 1.0)
    rates = [losses / aged for losses, aged in known]
    differ = 0.0
    if len(rates) >= _LEAST_DAYS and any(rates):
        by_chance = fmean(rates) / fmean(aged for _, aged in known)
        differ = max(0.0, (variance(rates) - by_chance) / fmean(rates) ** 2)
    return Days(usual, (differ * len(rates) + 1.0) / (len(rates) + 1.0))
