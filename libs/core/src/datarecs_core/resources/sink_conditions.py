"""What is stored of a sink as the status of its declaration: conditions and fields.

Pure: the declaration, the stored state, the last written status and the time in; claims out. Which
objects the declaration names is checked by the controller.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from datarecs_core.captures.naming import joined_name
from datarecs_core.errors.sink import SinkCode
from datarecs_core.messages import shortened
from datarecs_core.resources.conditions import (
    Condition,
    ConditionType,
    Truth,
    conditions_of,
)
from datarecs_core.sink.checkpoint import TaskReport
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.decisions import TableDecision
from datarecs_core.sink.declared import SinkStatus
from datarecs_core.sink.definition import SinkTable
from datarecs_core.values import instant_text

LAG_INTERVALS = 5
"""Commit intervals after which uncommitted records are late."""
FENCED_FOR = timedelta(hours=1)
"""How long a refused vote is reported."""
FIGURES_EVERY = timedelta(minutes=1)
"""How often figures are written while the conditions stay the same."""
MOST_FOLLOWED = 64
"""Partitions with uncommitted records that a status follows."""


class StatusField(StrEnum):
    """Fields of the status of a SinkTable, besides the conditions."""

    LAST_COMMIT_ID = "last_commit_id"
    LAST_COMMIT_AT = "last_commit_at"
    VALID_THROUGH = "valid_through_ts"
    LAG = "lag"
    EPOCH = "epoch"
    DEAD_LETTERS = "dead_letters"
    UNROUTED = "unrouted"
    DROPPED_FIELDS = "dropped_fields"
    TOMBSTONES = "tombstones"
    TASKS = "tasks"
    WORKERS = "workers"
    LAST_ERROR = "last_error"
    TABLE_DECISION = "table_decision"
    UNCOMMITTED = "uncommitted"
    FIGURES_AT = "figures_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncommitted:
    """Records that were read and are not committed."""

    since: datetime
    """When they were first seen; the oldest of them are at least as old."""
    positions: Mapping[SourcePartition, int]
    """Positions read then, of partitions where not all of it is accepted yet."""

    def written(self) -> Mapping[str, object]:
        """The field of the status."""
        positions: dict[str, dict[str, int]] = {}
        for partition, position in sorted(self.positions.items()):
            positions.setdefault(partition.topic, {})[str(partition.number)] = position
        return {"since": instant_text(self.since), "positions": positions}


def written_uncommitted(status: Mapping[str, object]) -> Uncommitted | None:
    """Of a stored status; None without any."""
    written = status.get(StatusField.UNCOMMITTED)
    positions = written.get("positions") if isinstance(written, Mapping) else None
    if not isinstance(written, Mapping) or not isinstance(positions, Mapping):
        return None
    return Uncommitted(
        since=datetime.fromisoformat(str(written["since"])),
        positions={
            SourcePartition(topic=str(topic), number=int(number)): int(position)
            for topic, numbers in positions.items()
            for number, position in numbers.items()
        },
    )


def follow_uncommitted(
    before: Uncommitted | None, stored: SinkStatus, *, now: datetime
) -> Uncommitted | None:
    """What is not committed now, and since when; None if everything read is.

    Positions that were followed remain until they are accepted; then the present ones are followed
    from now on.
    """
    accepted = _accepted(stored)
    rest = {
        partition: position
        for partition, position in (before.positions.items() if before else ())
        if accepted.get(partition, 0) < position
    }
    if before is not None and rest:
        return Uncommitted(since=before.since, positions=rest)
    read = sorted(_read(stored).items())
    behind = [(one, position) for one, position in read if accepted.get(one, 0) < position]
    if not behind:
        return None
    return Uncommitted(since=now, positions=dict(behind[:MOST_FOLLOWED]))


def sink_conditions(
    sink: SinkTable, stored: SinkStatus, uncommitted: Uncommitted | None, *, now: datetime
) -> tuple[Condition, ...]:
    """Ready, Committing, Lagging and Fenced of a sink whose references are resolved.

    Args:
        sink: the declaration.
        stored: as it is now.
        uncommitted: of now, from `follow_uncommitted`.
        now: database time.
    """
    return (
        _ready(stored),
        _committing(stored),
        _lagging(sink, uncommitted, now=now),
        _fenced(stored, now=now),
    )


def sink_details(
    stored: SinkStatus, uncommitted: Uncommitted | None
) -> tuple[tuple[str, object], ...]:
    """The other fields of the status; one without a value is left out."""
    last, through = stored.last_written, stored.state.checkpoint.valid_through
    reports = tuple(_reports(stored))
    failure = failure_of(stored)
    values: Mapping[StatusField, object] = {
        StatusField.LAST_COMMIT_ID: None if last is None else str(last.commit_id),
        StatusField.LAST_COMMIT_AT: None if last is None else instant_text(last.completed_at),
        StatusField.VALID_THROUGH: None if through is None else instant_text(through),
        StatusField.LAG: lag(stored),
        StatusField.EPOCH: stored.state.epoch,
        StatusField.DEAD_LETTERS: stored.dead_letters,
        StatusField.UNROUTED: sum(one.unrouted for one in reports),
        StatusField.DROPPED_FIELDS: sum(one.dropped_fields for one in reports),
        StatusField.TOMBSTONES: sum(one.tombstones for one in reports),
        StatusField.TASKS: len(stored.tasks),
        StatusField.WORKERS: workers(stored),
        StatusField.LAST_ERROR: failure and {"code": failure.error_code, "message": failure.error},
        StatusField.TABLE_DECISION: _decision(stored.state.checkpoint.decision),
        StatusField.UNCOMMITTED: uncommitted and uncommitted.written(),
    }
    return tuple((str(name), value) for name, value in values.items() if value is not None)


def _decision(decision: TableDecision | None) -> Mapping[str, object] | None:
    if decision is None:
        return None
    return {
        "catalog": decision.catalog,
        "table": joined_name((*decision.namespace, decision.name)),
        "records": decision.records.value,
        "state": decision.state.value,
        "message": shortened(decision.message),
    }


def written_details(
    status: Mapping[str, object],
    conditions: Sequence[Condition],
    details: tuple[tuple[str, object], ...],
    *,
    now: datetime,
) -> tuple[tuple[str, object], ...]:
    """The details to write: those of the stored status while they are new enough.

    They change with every commit and every record, and each write is an event. A change of the
    conditions writes them at once.

    Args:
        status: as stored.
        conditions: to be written.
        details: of now, from `sink_details`.
        now: database time.
    """
    at, written = status.get(StatusField.FIGURES_AT), dict(status)
    conditions_before = conditions_of(written)
    is_same = all(_is_same(conditions_before.get(one.type), one) for one in conditions)
    figures = {name: one for name, one in written.items() if name not in _NO_FIGURES}
    is_new = isinstance(at, str) and now - datetime.fromisoformat(at) < FIGURES_EVERY
    if isinstance(at, str) and (figures == dict(details) or (is_same and is_new)):
        return (*figures.items(), (StatusField.FIGURES_AT.value, at))
    return (*details, (StatusField.FIGURES_AT.value, instant_text(now)))


_NO_FIGURES = ("conditions", StatusField.FIGURES_AT)


def _is_same(before: Condition | None, now: Condition) -> bool:
    return before is not None and replace(now, message=shortened(now.message)) == before


def has_begun(stored: SinkStatus) -> bool:
    """Whether a coordinator ever began, so that a vote may be waiting for its commit.

    A reset removes the lineage and leaves positions.
    """
    checkpoint = stored.state.checkpoint
    return stored.wished is not None and (
        checkpoint.lineage is not None
        or bool(checkpoint.partitions)
        or stored.last_commit is not None
    )


def workers(stored: SinkStatus) -> int:
    """Tasks that a process runs now."""
    return sum(one.is_held for one in stored.tasks)


def lag(stored: SinkStatus) -> int:
    """Records between the accepted positions and the ends that tasks have seen.

    A partition without an accepted position counts from where it is read.
    """
    accepted, read = _accepted(stored), _read(stored)
    return sum(
        max(end - accepted.get(partition, read.get(partition, end)), 0)
        for partition, end in _ends(stored).items()
    )


def failure_of(stored: SinkStatus) -> TaskReport | None:
    """The report of a task that failed, first of one that needs a person; None: no task did."""
    failed = [one for one in _reports(stored) if one.error_code]
    return min(failed, key=lambda one: not one.is_halted, default=None)


def remedy_of(failure: TaskReport) -> str:
    """What to do, by the code of the failure; empty for a code of another family."""
    code = SinkCode.__members__.get(failure.error_code)
    return "" if code is None else code.entry.remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One source partition, as people read it."""

    partition: SourcePartition
    accepted: int | None
    """Next offset to commit; None: nothing was committed yet."""
    largest: datetime | None
    """Timestamp, of all committed records."""
    position: int | None
    """Next offset to read; None: no task reads it now."""
    end: int | None
    """One past the last record, as last seen."""


def partition_views(stored: SinkStatus) -> tuple[PartitionView, ...]:
    """Every partition that is known, by topic and number."""
    known = stored.state.checkpoint.partitions
    read, ends = _read(stored), _ends(stored)
    return tuple(
        PartitionView(
            partition=one,
            accepted=known[one].accepted if one in known else None,
            largest=known[one].largest if one in known else None,
            position=read.get(one),
            end=ends.get(one),
        )
        for one in sorted({*known, *read, *ends})
    )


def _reports(stored: SinkStatus) -> Iterator[TaskReport]:
    return (one.report for one in stored.tasks if one.report is not None)


def _accepted(stored: SinkStatus) -> Mapping[SourcePartition, int]:
    return {name: one.accepted for name, one in stored.state.checkpoint.partitions.items()}


def _read(stored: SinkStatus) -> Mapping[SourcePartition, int]:
    return _largest(one.positions for one in _reports(stored))


def _ends(stored: SinkStatus) -> Mapping[SourcePartition, int]:
    return _largest(one.ends for one in _reports(stored))


def _largest(reports: Iterator[Mapping[SourcePartition, int]]) -> Mapping[SourcePartition, int]:
    """A partition that has moved is in the reports of two tasks for a while."""
    largest: dict[SourcePartition, int] = {}
    for offsets in reports:
        for partition, offset in offsets.items():
            largest[partition] = max(offset, largest.get(partition, offset))
    return largest


def _ready(stored: SinkStatus) -> Condition:
    name, running = ConditionType.READY, workers(stored)
    failure = failure_of(stored)
    if failure is not None:
        reason = "Halted" if failure.is_halted else "TaskFailed"
        return Condition(type=name, status=Truth.FALSE, reason=reason, message=_words_of(failure))
    if stored.tasks and all(one.is_resting for one in stored.tasks):
        message = "everything that was read is committed; no task runs until the sink goes on"
        return Condition(type=name, status=Truth.TRUE, reason="Paused", message=message)
    if not running:
        return Condition(
            type=name,
            status=Truth.UNKNOWN,
            reason="NoProcess",
            message="no process of iceberg-sink runs the tasks of this sink yet; if that lasts"
            f" longer than a minute, {_MORE_SLOTS}",
        )
    waiting = _waiting(stored)
    message = f"{running} of {len(stored.tasks)} tasks run; for more, {_MORE_SLOTS}"
    return Condition(
        type=name, status=Truth.TRUE, reason="Running", message=message if waiting else ""
    )


_MORE_SLOTS = "start another process of the service, or raise its DATARECS_SINK__MAX_TASKS"


def _waiting(stored: SinkStatus) -> int:
    """Tasks that have something to do and no process."""
    return sum(not one.is_held and not one.is_resting for one in stored.tasks)


def _words_of(failure: TaskReport) -> str:
    words = f"{failure.error_code}: {failure.error.rstrip('.')}. {remedy_of(failure)}".rstrip()
    return f"{words} `datarecs sink retry` begins again." if failure.is_halted else words


def _committing(stored: SinkStatus) -> Condition:
    name, last, failure = ConditionType.COMMITTING, stored.last_commit, failure_of(stored)
    if failure is not None:
        message = _words_of(failure)
        return Condition(type=name, status=Truth.FALSE, reason="TaskFailed", message=message)
    if _waiting(stored) and not workers(stored):
        message = (
            "nothing is read or committed while no process of iceberg-sink has a free slot for a"
            f" task of this sink; if that lasts longer than a minute, {_MORE_SLOTS}"
        )
        return Condition(type=name, status=Truth.UNKNOWN, reason="WaitingForSlot", message=message)
    if last is None:
        message = "no commit yet; the first one follows after the commit interval"
        return Condition(type=name, status=Truth.UNKNOWN, reason="NoCommitYet", message=message)
    if last.is_partial:
        message = "some partition had no vote when the last commit was made; its records follow"
        return Condition(type=name, status=Truth.FALSE, reason="Partial", message=message)
    return Condition(type=name, status=Truth.TRUE, reason="Complete")


def _lagging(sink: SinkTable, uncommitted: Uncommitted | None, *, now: datetime) -> Condition:
    name, limit = ConditionType.LAGGING, LAG_INTERVALS * sink.commit.interval
    if uncommitted is None or now - uncommitted.since <= limit:
        return Condition(type=name, status=Truth.FALSE, reason="InTime")
    return Condition(
        type=name,
        status=Truth.TRUE,
        reason="UncommittedRecords",
        message=f"records were read and are not committed since {instant_text(uncommitted.since)},"
        f" which is more than {LAG_INTERVALS} commit intervals",
    )


def _fenced(stored: SinkStatus, *, now: datetime) -> Condition:
    name, at = ConditionType.FENCED, stored.fenced_at
    if at is None or now - at >= FENCED_FOR:
        return Condition(type=name, status=Truth.FALSE, reason="NoVoteRefused")
    return Condition(
        type=name,
        status=Truth.TRUE,
        reason="VoteRefused",
        message=f"a vote was refused at {instant_text(at)}: a task was replaced or had read from"
        " another place; its records were read again, none is lost or doubled",
    )
