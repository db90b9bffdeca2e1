"""Applications as kernel sequences: what each kernel needs, and how long it takes alone.

`synthesise` writes a sequence from three published facts of an application (time alone, number of kernels,
the part of the time that does not shrink with more SMs); `loaders.py` reads measured sequences. A sequence is
deterministic: same facts, same kernels.
"""

from __future__ import annotations

from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

SPREAD = 0.9
"""Log-standard deviation of kernel durations: measured sequences lie between 0.8 and 1.3."""


class App(msgspec.Struct, frozen=True):
    """Published facts of one application on a whole device."""

    name: str
    solo_ms: float
    kernels: int
    fixed_ms: float
    """Time in kernels too small to gain from more SMs: a in T(n) = a + b / n."""
    rho: float
    """Equation 1's rho beside a copy of itself at an even split."""
    small: tuple[float, float] = (0.06, 0.30)
    """Least and greatest part of the device that its small kernels fill."""


class Profile(msgspec.Struct, frozen=True):
    """A kernel sequence: parallel tuples, one entry for each kernel."""

    name: str
    sms: tuple[int, ...]
    ms: tuple[float, ...]
    sense: tuple[float, ...]
    press: tuple[float, ...]
    memory: tuple[int, ...]

    @property
    def solo_ms(self) -> float:
        return float(sum(self.ms))

    def need(self, total_sms: int) -> float:
        """The part of the device it fills, averaged over its time alone."""
        filled = sum(ms * min(sms, total_sms) for ms, sms in zip(self.ms, self.sms, strict=True))
        return filled / (total_sms * self.solo_ms)


A100_APPS = {
    app.name: app
    for app in (
        App("VGG11", 10.2, 31, 1.4, 0.02),
        App("ResNet50", 8.7, 80, 3.7, 0.03),
        App("ResNet101", 17.2, 148, 7.3, 0.03),
        App("NasNet", 32.7, 458, 11.1, 0.07),
        App("BERT", 12.8, 382, 8.0, 0.16),
        App("BERT-small", 4.87, 382, 4.37, 0.12, (0.15, 0.6)),
    )
}


def synthesise(app: App, total_sms: int) -> Profile:
    """A sequence of small and device-filling kernels with the application's sums."""
    small = round(app.kernels * (0.35 + 0.3 * app.fixed_ms / app.solo_ms))
    order = _scatter(app.kernels)
    fills = np.full(app.kernels, total_sms)
    low, high = app.small
    places = (np.arange(small) + 0.5) / small
    fills[:small] = np.maximum(1, np.round((low + (high - low) * places[_scatter(small)]) * total_sms))
    times = np.concatenate(
        (_durations(small, app.fixed_ms), _durations(app.kernels - small, app.solo_ms - app.fixed_ms))
    )
    memory = np.zeros(app.kernels, np.int64)
    memory[: small // 2] = 1
    press = np.where(memory == 1, 1.4, 0.9)
    press = press / (np.sum(press * times) / np.sum(times))
    return Profile(
        name=app.name,
        sms=tuple(int(x) for x in fills[order]),
        ms=tuple(float(x) for x in times[order]),
        sense=tuple(float(app.rho * x) for x in press[order]),
        press=tuple(float(x) for x in press[order]),
        memory=tuple(int(x) for x in memory[order]),
    )


def stretched(ms: NDArray[np.float64], sms: NDArray[np.int64], share: int, total_sms: int) -> NDArray[np.float64]:
    """Kernel times on `share` SMs when work flows freely over them."""
    return ms * np.maximum(1.0, np.minimum(sms, total_sms) / share)


def waved(ms: NDArray[np.float64], sms: NDArray[np.int64], share: int, total_sms: int) -> NDArray[np.float64]:
    """Kernel times on `share` SMs when blocks run in whole waves."""
    return ms * np.ceil(sms / share) / np.ceil(sms / total_sms)


def _durations(count: int, total: float) -> NDArray[np.float64]:
    """Log-normal quantiles in a scattered order, summing to `total`."""
    normal = NormalDist()
    times = np.exp(SPREAD * np.array([normal.inv_cdf((i + 0.5) / count) for i in range(count)]))
    scaled: NDArray[np.float64] = times * (total / times.sum())
    return scaled[_scatter(count)]


def _scatter(count: int) -> NDArray[np.int64]:
    """A fixed permutation that spreads neighbours apart: order of the golden-ratio multiples."""
    return np.argsort((np.arange(count) * 0.6180339887498949) % 1.0, kind="stable").astype(np.int64)
