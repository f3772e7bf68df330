"""What a schedule does now: which times start, which are missed and why, and when it is next due.

Pure, and the only place of these rules; the caller locks the schedule and carries the answer out in
one transaction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from uuid import UUID

from datarecs_core.hashing import sha256_hex
from datarecs_core.notation import duration_text
from datarecs_core.scheduling.schedule import (
    Catchup,
    ConcurrencyPolicy,
    Schedule,
    Tick,
    TickOutcome,
)
from datarecs_core.scheduling.times import FireTimes

ON_TIME_S = 60
"""A time that starts at most this much late is not missed."""
MOST_STEPS = 10_080
"""Missed times that are enumerated: a week of minutes."""

_ON_TIME = timedelta(seconds=ON_TIME_S)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A schedule as it is when it is due."""

    uid: UUID
    schedule: Schedule
    created_at: datetime
    last_fire_time: datetime
    """The newest time that was decided; at the beginning, and after cron, zone, interval or
    start_at were changed, the moment of that."""
    active_runs: int
    """Runs of this schedule that have not ended."""
    was_suspended: bool
    """No time since `last_fire_time` could start, because the schedule was suspended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """What happens now, in one transaction."""

    starts: tuple[datetime, ...]
    """The times that start a run, in order; for each there is a tick FIRED in `ticks`. With
    `Replace` it is one, which waits for the end of active runs."""
    ticks: tuple[Tick, ...]
    """In order of their fire times, which differ."""
    last_fire_time: datetime
    next_start: datetime | None
    """When to look again: the next time plus its jitter; None for suspended and ended schedules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """A time that could start now."""

    fire_time: datetime
    lateness: timedelta
    """Since its start, which is its time plus its jitter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backlog:
    """The times that are to be decided now."""

    pending: Sequence[_Pending]
    too_old: _Pending | None
    """The first undecided time, if the window begins after it. Later ones before the window are
    not enumerated."""
    horizon: datetime
    """Where the enumeration began."""
    next_start: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    fire_time: datetime
    outcome: TickOutcome
    reason: str | None = None


def fire(due: Due, times: FireTimes, *, now: datetime) -> Firing:
    """Decide every time up to `now`. The same facts give the same answer."""
    if due.schedule.suspend:
        return Firing(starts=(), ticks=(), last_fire_time=due.last_fire_time, next_start=None)
    backlog = _read_backlog(due, times, now)
    decided = _suspended(backlog) if due.was_suspended else _decide(due, backlog)
    return Firing(
        starts=tuple(one.fire_time for one in decided if one.outcome is TickOutcome.FIRED),
        ticks=tuple(_ticks(decided, counts_all=backlog.too_old is None)),
        last_fire_time=_last_fire_time(due, backlog),
        next_start=backlog.next_start,
    )


def jitter_of(uid: UUID, fire_time: datetime, jitter: timedelta) -> timedelta:
    """How much later than its time a run starts, in [0, jitter), in whole seconds.

    Always the same for the same schedule and time.
    """
    seconds = jitter // _SECOND
    if not seconds:
        return timedelta()
    name = f"{uid} {fire_time.astimezone(UTC).isoformat()}"
    return timedelta(seconds=int(sha256_hex(name.encode())[:16], 16) % seconds)


def _read_backlog(due: Due, times: FireTimes, now: datetime) -> _Backlog:
    """The undecided times whose start has come, up to the first whose start has not."""
    schedule = due.schedule
    window = max(schedule.catchup_window, schedule.jitter + _ON_TIME)
    too_old = _first_too_old(due, times, now=now, horizon=now - window)
    horizon = max(due.last_fire_time, now - window)
    start = horizon
    pending: list[_Pending] = []
    upcoming = times.after(schedule, created_at=due.created_at, after=horizon)
    for fire_time in islice(upcoming, MOST_STEPS + 1):
        start = max(start, fire_time + jitter_of(due.uid, fire_time, schedule.jitter))
        if start > now or len(pending) == MOST_STEPS:
            return _Backlog(pending=pending, too_old=too_old, horizon=horizon, next_start=start)
        pending.append(_Pending(fire_time=fire_time, lateness=now - start))
    return _Backlog(pending=pending, too_old=too_old, horizon=horizon, next_start=None)


def _first_too_old(
    due: Due, times: FireTimes, *, now: datetime, horizon: datetime
) -> _Pending | None:
    """The first undecided time, if it is not after the horizon."""
    if due.last_fire_time >= horizon:
        return None
    undecided = times.after(due.schedule, created_at=due.created_at, after=due.last_fire_time)
    first = next(undecided, None)
    if first is None or first > horizon:
        return None
    return _Pending(fire_time=first, lateness=now - first)


def _last_fire_time(due: Due, backlog: _Backlog) -> datetime:
    if backlog.pending:
        return backlog.pending[-1].fire_time
    return backlog.horizon if backlog.too_old else due.last_fire_time


def _suspended(backlog: _Backlog) -> list[_Decided]:
    every = [*([backlog.too_old] if backlog.too_old else []), *backlog.pending]
    return [
        _Decided(
            fire_time=one.fire_time,
            outcome=TickOutcome.SUSPENDED,
            reason="the schedule was suspended",
        )
        for one in every
    ]


def _decide(due: Due, backlog: _Backlog) -> list[_Decided]:
    schedule = due.schedule
    candidates = _candidates(schedule, backlog.pending)
    started = {one.fire_time for one in _without_overlap(due, candidates)}
    overlapping = {one.fire_time for one in candidates} - started
    decided = []
    if backlog.too_old:
        length = duration_text(schedule.catchup_window)
        until = f"{backlog.horizon.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        window = f"this time and all up to {until} are more than {length} late (catchup_window)"
        decided.append(_missed(schedule, backlog.too_old, reason=window))
    for one in backlog.pending:
        if one.fire_time in started:
            decided.append(_Decided(fire_time=one.fire_time, outcome=TickOutcome.FIRED))
        elif one.fire_time in overlapping:
            decided.append(_overlapping(schedule, one))
        else:
            decided.append(_missed(schedule, one, reason=_catchup_reason(schedule)))
    return decided


def _candidates(schedule: Schedule, pending: Sequence[_Pending]) -> Sequence[_Pending]:
    """The times that start as far as lateness is concerned, oldest first."""
    in_time = [one for one in pending if not _is_past_deadline(schedule, one)]
    late = [one for one in in_time if one.lateness > _ON_TIME]
    on_time = in_time[len(late) :]
    most_late = _most_late(schedule, on_time=len(on_time))
    return [*late[max(0, len(late) - most_late) :], *on_time]


def _most_late(schedule: Schedule, *, on_time: int) -> int:
    """How many late times start at most, beside those on time."""
    match schedule.catchup:
        case Catchup.NONE:
            return 0
        case Catchup.LATEST:
            return 0 if on_time else 1
        case Catchup.ALL:
            return max(0, schedule.max_catchup - on_time)


def _is_past_deadline(schedule: Schedule, one: _Pending) -> bool:
    deadline = schedule.starting_deadline
    return deadline is not None and one.lateness > deadline


def _without_overlap(due: Due, candidates: Sequence[_Pending]) -> Sequence[_Pending]:
    """The candidates that the concurrency policy lets start."""
    match due.schedule.concurrency_policy:
        case ConcurrencyPolicy.ALLOW:
            return candidates
        case ConcurrencyPolicy.FORBID:
            return [] if due.active_runs else candidates[:1]
        case ConcurrencyPolicy.REPLACE:
            return candidates[-1:]


def _overlapping(schedule: Schedule, one: _Pending) -> _Decided:
    reason = "a run of this schedule had not ended"
    if schedule.concurrency_policy is ConcurrencyPolicy.REPLACE:
        reason = "a newer time starts in its place"
    return _Decided(fire_time=one.fire_time, outcome=TickOutcome.SKIPPED_OVERLAP, reason=reason)


def _missed(schedule: Schedule, one: _Pending, *, reason: str) -> _Decided:
    outcome = TickOutcome.MISSED_CATCHUP
    if schedule.starting_deadline is not None and _is_past_deadline(schedule, one):
        outcome = TickOutcome.MISSED_DEADLINE
        reason = f"more than {duration_text(schedule.starting_deadline)} late (starting_deadline)"
    return _Decided(fire_time=one.fire_time, outcome=outcome, reason=reason)


def _catchup_reason(schedule: Schedule) -> str:
    starts = {
        Catchup.NONE: "such times do not start (catchup: none)",
        Catchup.LATEST: "only the newest such time starts (catchup: latest)",
        Catchup.ALL: f"only the newest {schedule.max_catchup} such times start (max_catchup)",
    }
    return "the platform or its database was away or busy at this time; " + starts[schedule.catchup]


def _ticks(decided: Sequence[_Decided], *, counts_all: bool) -> Iterator[Tick]:
    """One tick for each start, and one for each range of times with the same other outcome."""
    for outcome, grouped in groupby(decided, key=lambda one: one.outcome):
        group = list(grouped)
        if outcome is TickOutcome.FIRED:
            yield from (Tick(fire_time=one.fire_time, outcome=outcome) for one in group)
            continue
        reason = group[-1].reason
        if not counts_all and group[0] is decided[0]:
            reason = f"{reason}; at least this many, times before the window are not counted"
        yield Tick(
            fire_time=group[-1].fire_time,
            outcome=outcome,
            first_fire_time=group[0].fire_time if len(group) > 1 else None,
            missed=len(group),
            reason=reason,
        )
