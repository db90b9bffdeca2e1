"""The loop that tells people: looks at what stands, groups what is new, posts letters, delivers those that wait.

`dure up --notify ADDRESS` runs one. What begins waits `GATHER_S`, so that a lost site is one letter and not fifty;
what lasts is told again after `REPEAT_S`; its end is told once. A channel that fails is tried again, ever more
rarely, for three days; the others do not wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

import structlog

from dure.adapters.notify.channels import Channel
from dure.adapters.notify.outbox import Outbox, Waiting, backoff_s
from dure.model.errors import DureError, NotAllowed, Permanent
from dure.model.units import DAY_S, HOUR_S, Instant, Seconds
from dure.watch.notices import Letter, Notice, Silence, grouped

GATHER_S: Seconds = 30.0
REPEAT_S: Seconds = 4 * HOUR_S
GIVE_UP_S: Seconds = 3 * DAY_S
EVERY_S: Seconds = 5.0

_log = structlog.get_logger("dure.notify")


class Notifier:
    """`look` answers what stands now; `now` is real time, for people live in it."""

    def __init__(
        self,
        fleet: str,
        outbox: Outbox,
        channels: Sequence[Channel],
        look: Callable[[], Iterable[Notice]],
        now: Callable[[], Instant],
    ) -> None:
        self._fleet, self._outbox, self._look, self._now = fleet, outbox, look, now
        self._channels = {channel.name: channel for channel in channels}
        self._begun: dict[str, Instant] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notify", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._outbox.close()

    def turn(self) -> None:
        now_s = self._now()
        self._post(now_s)
        self._deliver(now_s)

    def _post(self, now_s: Instant) -> None:
        silences = self._outbox.silences(now_s)
        standing = {one.key: one for one in self._look() if not _silenced(one, silences, now_s)}
        told = self._outbox.told()
        self._begun = {key: self._begun.get(key, now_s) for key in standing if key not in told}
        fresh = [standing[key] for key, since_s in self._begun.items() if now_s - since_s >= GATHER_S]
        # Whoever gets a letter anyway hears at once of what else has begun in the group.
        groups = {one.group for one in fresh}
        fresh = [standing[key] for key in self._begun if standing[key].group in groups]
        again = [standing[key] for key, (_, at_s) in told.items() if key in standing and now_s - at_s >= REPEAT_S]
        ended = {key: one for key, (one, _) in told.items() if key not in standing}
        hushed = [key for key, one in ended.items() if _silenced(one, silences, now_s)]
        over = [_over(one) for key, one in ended.items() if key not in hushed]
        if hushed:
            self._outbox.forget(hushed)
        letters = [self._letter(group, some, now_s) for group, some in grouped([*fresh, *again, *over]).items()]
        if letters:
            self._outbox.post(letters, self._channels, now_s)

    def _letter(self, group: str, notices: tuple[Notice, ...], now_s: Instant) -> Letter:
        words = "|".join([self._fleet, group, f"{now_s:.3f}", *(one.key for one in notices)])
        return Letter(sha256(words.encode()).hexdigest()[:24], self._fleet, group, now_s, notices)

    def _deliver(self, now_s: Instant) -> None:
        """Letters of a channel go in order: the first that fails holds up those behind it, in that channel alone."""
        stuck: set[str] = set()
        for waiting in self._outbox.waiting():
            channel = self._channels.get(waiting.channel)
            if channel is None or waiting.channel in stuck:
                continue
            if waiting.due_s > now_s or not self._try(channel, waiting, now_s):
                stuck.add(waiting.channel)

    def _try(self, channel: Channel, waiting: Waiting, now_s: Instant) -> bool:
        try:
            channel.deliver(waiting.letter)
        except DureError as error:
            if isinstance(error, (Permanent, NotAllowed)) or now_s - waiting.since_s >= GIVE_UP_S:
                _log.error("a notice is given up", channel=channel.name, title=waiting.letter.title, error=str(error))
                self._outbox.delivered(waiting.number)
                return True
            _log.warning("a notice is tried again", channel=channel.name, error=str(error))
            self._outbox.failed(waiting.number, str(error), now_s + backoff_s(waiting.tries))
            return False
        self._outbox.delivered(waiting.number)
        return True

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            try:
                self.turn()
            except DureError as error:
                _log.warning("notices wait", error=str(error))


def _silenced(notice: Notice, silences: Iterable[Silence], now_s: Instant) -> bool:
    return any(silence.covers(notice, now_s) for silence in silences)


def _over(notice: Notice) -> Notice:
    return Notice(notice.key, notice.group, notice.sentence, "", over=True)
