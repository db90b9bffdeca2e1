"""Take the queue where the job is predicted to end first; leave home only for a gain that is worth it.

The prediction plays each acceptable queue forward with the job in it (`forecast`), so it counts work rather than
jobs. Hysteresis keeps equal queues from swapping jobs. O(alternatives x queue length). Not for queues whose order
is not FIFO by priority (fair sharing across cohorts): there the forecast is only a bound.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from dure.model.units import Instant, Seconds
from dure.route.forecast import NEVER, crowding, span_of
from dure.route.situation import Alternative, Candidate, Choice, Lane, Offer, Order, Situation, Waiting


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Leave home only if the end comes earlier by `gain_s` and by the share `gain` of the time to it."""

    gain_s: Seconds = 0.5
    gain: float = 0.005


def choose(job: Candidate, situation: Situation, settings: Settings | None = None) -> Choice:
    rule = settings or Settings()
    offers = tuple(offer(job, one, situation) for one in job.alternatives)
    finishes = [_counted(job, *pair, situation) for pair in zip(job.alternatives, offers, strict=True)]
    if min(finishes) == NEVER:
        # Nowhere else can hold it, so it need not leave room for others.
        finishes = [NEVER if one.finish_s is None else one.finish_s for one in offers]
    home = finishes[0]
    best = min(range(len(offers)), key=lambda index: (finishes[index], index))
    if finishes[best] == NEVER:
        return Choice(0, "nowhere-fits", "no acceptable queue can ever hold it; it waits at home", offers)
    if best == 0:
        return Choice(0, "home-is-first", _sentence(offers[0], situation.now_s), offers, home)
    if home < NEVER and home - finishes[best] < max(rule.gain_s, rule.gain * (home - situation.now_s)):
        return Choice(
            0, "gain-too-small", f"{offers[best].queue} would gain {home - finishes[best]:.1f} s", offers, home
        )
    return Choice(best, "ends-first", _sentence(offers[best], situation.now_s, home), offers, offers[best].finish_s)


def _counted(job: Candidate, one: Alternative, found: Offer, situation: Situation) -> Instant:
    """The end to compare; a guest has to be done early enough for those who name that queue, and to leave room."""
    if found.finish_s is None:
        return NEVER
    lane = situation.lanes[one.lane]
    room = lane.has_room(job, len(lane.running) + len(lane.waiting) + 1, situation.now_s)
    return found.finish_s + lane.kept_s(job) if room else NEVER


def offer(job: Candidate, one: Alternative, situation: Situation) -> Offer:
    """When the job would start and end in this queue, at the place that its age gives it, or its length where the
    queue may be sorted by that: what starts elsewhere cannot be taken back when the order changes.

    One that would slow its neighbours down is reckoned to end with the last of them.
    """
    lane, figures = situation.lanes.get(one.lane), situation.figures.get(one.lane)
    if lane is None or figures is None:
        return Offer(one.queue, one.class_name, refused=f"queue {one.lane} is not known")
    if not figures.active:
        return Offer(one.queue, one.class_name, refused=figures.why_not or "the queue is stopped")
    entered = Waiting(job.name, one.demand, one.run_s, job.created_s, job.priority)
    span = min(
        (span_of(one, entered, situation.now_s) for one in _orders(lane, entered)), key=lambda span: span.finish_s
    )
    if span.finish_s == NEVER:
        return Offer(one.queue, one.class_name, refused="it asks for more than the whole quota")
    slower = crowding(lane, len(lane.waiting) + 1)
    if slower == crowding(lane, len(lane.waiting)):
        return Offer(one.queue, one.class_name, span.start_s, span.finish_s)
    slowed = (held.until_s(situation.now_s, slower) for held in lane.running)
    return Offer(one.queue, one.class_name, span.start_s, max((span.finish_s, *slowed)))


def _orders(lane: Lane, entered: Waiting) -> tuple[Lane, ...]:
    """The queue as it is, and as it would be with the longest first, where that is another."""
    longest = Order.LONGEST_FIRST
    if not lane.orderable or lane.order is longest:
        return (lane,)
    if all(one.run_s == entered.run_s and not one.rank for one in lane.waiting):
        return (lane,)
    return (lane, replace(lane, order=longest, waiting=tuple(sorted(lane.waiting, key=longest.rank))))


def _sentence(offer: Offer, now_s: Instant, home: Instant | None = None) -> str:
    start, finish = (offer.start_s or now_s) - now_s, (offer.finish_s or now_s) - now_s
    text = f"starts in {start:.0f} s and ends in {finish:.0f} s in {offer.queue}"
    if home is None:
        return text
    return f"{text}; never at home" if home == NEVER else f"{text}, {home - now_s - finish:.0f} s before home"
