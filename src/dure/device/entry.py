"""Who may come in: each tenant's promise is checked against those before it, as soon as its model has been measured.

Called by the executor. Tenants are judged in the order of the device file, each only after all before it, so the
verdict does not depend on whose model loads faster. Shares are counted in `PARTS` of the device's time and threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dure.device.config import DeviceConfig, TenantConfig, app_of
from dure.model.errors import NotAllowed
from dure.share.admission import Applicant, Latency, Verdict, admit
from dure.share.interference import Book
from dure.share.memory import Claim
from dure.share.promise import Promise

PARTS = 18
UNLIMITED_MIB = 1 << 40


class Scaling:
    """Latency over threads, T(n) = fixed + shrinking / n, from the times with one thread and with all."""

    def __init__(self, one_ms: float, all_ms: float, cores: int) -> None:
        self._cores = cores
        self._one_ms = max(one_ms, all_ms)
        self._shrinking_ms = (self._one_ms - all_ms) * cores / (cores - 1) if cores > 1 else 0.0
        self._fixed_ms = self._one_ms - self._shrinking_ms

    def __call__(self, share: float) -> float:
        """With this part of the device; less than one thread's worth means turns."""
        threads = share * self._cores
        if threads >= 1.0:
            return self._fixed_ms + self._shrinking_ms / threads
        return self._one_ms / threads


class Entry:
    """`verdicts` has those that were judged; `refused` names why, for each that was turned away.

    `book` answers what is known of pairs at that moment: who comes late is judged by what was learnt since.
    """

    def __init__(self, config: DeviceConfig, book: Callable[[], Book]) -> None:
        self._config = config
        self._book = book
        self._scaling: dict[str, Scaling | str] = {}
        self._inside: list[Applicant] = []
        self.verdicts: dict[str, Verdict] = {}

    def come(self, tenant: TenantConfig) -> None:
        """One more, judged after those that are there."""
        self._config = msgspec.structs.replace(self._config, tenants=(*self._config.tenants, tenant))

    def go(self, name: str) -> None:
        """What it held is free for those who come after it."""
        left = tuple(one for one in self._config.tenants if one.name != name)
        self._config = msgspec.structs.replace(self._config, tenants=left)
        self._inside = [one for one in self._inside if one.name != name]
        self._scaling.pop(name, None)
        self.verdicts = {one: verdict for one, verdict in self.verdicts.items() if one != name}

    def stretch(self, name: str, share: float) -> float:
        """How many times longer its work takes with this part of the device than with all of it, undisturbed."""
        scaling = self._scaling.get(name)
        return scaling(share) / scaling(1.0) if isinstance(scaling, Scaling) and scaling(1.0) > 0.0 else 1.0

    def fills(self, name: str, parts: int) -> float:
        """The part of the device that its work can fill, by how much longer it takes with one part than with all."""
        return min(1.0, self.stretch(name, 1.0 / parts) / parts)

    @property
    def refused(self) -> dict[str, str]:
        return {name: verdict.message for name, verdict in self.verdicts.items() if not verdict.admitted}

    def measured(self, tenant: str, scaling: Scaling | str) -> tuple[str, ...]:
        """This tenant's model is known, or why it cannot be loaded. Answers who is turned away because of it."""
        self._scaling[tenant] = scaling
        turned_away = []
        for config in self._config.tenants:
            if config.name in self.verdicts:
                continue
            if config.name not in self._scaling:
                break
            verdict = self._verdict(config, self._scaling[config.name])
            # Replaced and never changed: other threads read it.
            self.verdicts = {**self.verdicts, config.name: verdict}
            if not verdict.admitted:
                turned_away.append(config.name)
        return tuple(turned_away)

    def _verdict(self, config: TenantConfig, scaling: Scaling | str) -> Verdict:
        if isinstance(scaling, str):
            return Verdict(False, "model", message=f"its model cannot be loaded: {scaling}")
        if not self._config.admission:
            return Verdict(True)
        applicant = Applicant(
            config.name,
            self._latency(config, scaling),
            longest_ms(config.promise),
            config.memory_mib,
            config.reserved_mib,
            config.bandwidth,
            config.load,
        )
        total_mib = self._config.memory_mib or UNLIMITED_MIB
        verdict = admit(self._inside, applicant, PARTS, total_mib, self._expected(config))
        if verdict.admitted:
            self._inside.append(applicant)
        return verdict

    def _expected(self, newcomer: TenantConfig) -> list[Claim]:
        """What is kept for those of the device file who are not inside: not yet, or not any more."""
        here = {newcomer.name, *(one.name for one in self._inside)}
        absent = [one for one in self._config.tenants if one.name not in here]
        return [Claim(one.name, 0, one.reserved_mib) for one in absent if one.reserved_mib]

    def _latency(self, config: TenantConfig, scaling: Scaling) -> Latency:
        others = [t for t in self._config.tenants if t.name != config.name]
        return lambda parts: scaling(parts / PARTS) / self._speed(config, parts / PARTS, others)

    def _speed(self, config: TenantConfig, share: float, others: Sequence[TenantConfig]) -> float:
        """Equation 1 with the rest of the device evenly in the others' hands; alone, nobody disturbs."""
        if not others or share >= 1.0:
            return 1.0
        each = (1.0 - share) / len(others)
        return self._book().speed(app_of(config), share, [(app_of(other), each) for other in others])


def longest_ms(promise: Promise) -> float | None:
    """How long a request may take: a tenant has one inside at a time, so a throughput is a latency too."""
    rate = promise.throughput_per_s
    limits = [limit for limit in (promise.latency_ms, 1000.0 / rate if rate else None) if limit is not None]
    return min(limits, default=None)


def turned_away(tenant: str, why: str) -> NotAllowed:
    return NotAllowed(
        f"tenant '{tenant}' was not let in: {why}",
        remedy="Change its promise or its model in the device file, and start the daemon again.",
    )
