"""The status of a sink: what it claims of the tasks, the last commit and the records between."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.resources.conditions import Condition, Truth
from datarecs_core.resources.sink_conditions import (
    MOST_FOLLOWED,
    Uncommitted,
    follow_uncommitted,
    has_begun,
    lag,
    partition_views,
    sink_conditions,
    sink_details,
    written_uncommitted,
)
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    PartitionState,
    SinkState,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.declared import CommitRecord, SinkStatus, SinkWish, TaskStatus
from datarecs_core.sink.definition import CommitPolicy, SinkTable, SinkTarget

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
FIRST, SECOND_PART = SourcePartition("orders", 0), SourcePartition("orders", 1)
SINK = SinkTable(
    connection="kafka",
    topics=("orders",),
    tables=(SinkTarget(catalog="lake", namespace=("sales",), name="orders"),),
    commit=CommitPolicy(interval=MINUTE),
)
COMMIT = CommitRecord(
    commit_id=UUID(int=7),
    epoch=2,
    completed_at=NOON - MINUTE,
    is_partial=False,
    control_offset=9,
    valid_through=None,
    records=10,
)


def stored(
    *reports: TaskReport | None,
    held: int | None = None,
    accepted: Mapping[SourcePartition, int] | None = None,
    last: CommitRecord | None = COMMIT,
) -> SinkStatus:
    tasks = tuple(
        TaskStatus(number=at, is_held=held is None or at < held, report=report)
        for at, report in enumerate(reports)
    )
    partitions = {name: PartitionState(accepted=one) for name, one in (accepted or {}).items()}
    return SinkStatus(
        wished=SinkWish(tasks=len(tasks), wish=TaskWish.RUN, revision="a"),
        state=SinkState(epoch=2, checkpoint=Checkpoint(partitions=partitions)),
        tasks=tasks,
        last_commit=last,
        last_written=last,
    )


def read(position: int, *, end: int | None = None, of: SourcePartition = FIRST) -> TaskReport:
    return TaskReport(positions={of: position}, ends={of: position if end is None else end})


def conditions(
    status: SinkStatus, uncommitted: Uncommitted | None = None
) -> Mapping[str, Condition]:
    return {one.type: one for one in sink_conditions(SINK, status, uncommitted, now=NOON)}


def claims(status: SinkStatus) -> Mapping[str, tuple[Truth, str]]:
    return {name: (one.status, one.reason) for name, one in conditions(status).items()}


def test_a_sink_that_commits_in_time_is_ready() -> None:
    assert claims(stored(read(5), accepted={FIRST: 5})) == {
        "Ready": (Truth.TRUE, "Running"),
        "Committing": (Truth.TRUE, "Complete"),
        "Lagging": (Truth.FALSE, "InTime"),
        "Fenced": (Truth.FALSE, "NoVoteRefused"),
    }


@pytest.mark.parametrize("last", [None, COMMIT], ids=["new", "resumed"])
def test_a_sink_without_a_slot_says_that_it_waits_for_one(last: CommitRecord | None) -> None:
    before = conditions(stored(None, read(1), held=0, last=last))
    committing = before["Committing"]
    assert (before["Ready"].status, before["Ready"].reason) == (Truth.UNKNOWN, "NoProcess")
    assert (committing.status, committing.reason) == (Truth.UNKNOWN, "WaitingForSlot")
    for condition in (before["Ready"], committing):
        assert "start another process of the service, or raise its" in condition.message


def test_a_sink_that_runs_has_no_commit_before_the_first_one() -> None:
    assert claims(stored(None, last=None))["Committing"] == (Truth.UNKNOWN, "NoCommitYet")


def test_a_sink_with_some_of_its_tasks_is_ready_and_says_what_the_others_need() -> None:
    shown = conditions(stored(read(1), None, None, held=1))
    assert shown["Ready"].status is Truth.TRUE
    assert shown["Ready"].message == (
        "1 of 3 tasks run; for more, start another process of the service, or raise its"
        " DATARECS_SINK__MAX_TASKS"
    )
    assert shown["Committing"].status is Truth.TRUE


def test_a_paused_sink_at_rest_waits_for_no_slot() -> None:
    status = stored(read(1), held=0)
    resting = tuple(replace(one, is_resting=True) for one in status.tasks)
    assert claims(replace(status, tasks=resting))["Committing"] == (Truth.TRUE, "Complete")


def test_a_sink_with_resting_tasks_alone_is_paused_and_needs_no_process() -> None:
    status = stored(read(1), read(1, of=SECOND_PART), held=0)
    resting = tuple(replace(one, is_resting=True) for one in status.tasks)
    assert claims(replace(status, tasks=resting))["Ready"] == (Truth.TRUE, "Paused")
    running = (resting[0], replace(status.tasks[1], is_held=True))
    ready = conditions(replace(status, tasks=running))["Ready"]
    assert (ready.status, ready.message) == (Truth.TRUE, "")


def test_a_halted_task_makes_the_sink_fail_with_its_remedy() -> None:
    waiting = TaskReport(error_code="BROKER_TIMEOUT", error="no answer")
    halted = TaskReport(error_code="BAD_RECORD", error="orders/0 at 7: a: no int.", is_halted=True)
    shown = conditions(stored(waiting, halted))
    assert (shown["Ready"].status, shown["Ready"].reason) == (Truth.FALSE, "Halted")
    assert shown["Ready"].message.startswith("BAD_RECORD: orders/0 at 7: a: no int. Correct the")
    assert shown["Ready"].message.endswith("`datarecs sink retry` begins again.")
    assert shown["Committing"].status is Truth.FALSE


def test_a_failed_task_that_goes_on_by_itself_needs_no_retry() -> None:
    ready = conditions(stored(TaskReport(error_code="OTHER", error="refused")))["Ready"]
    assert (ready.reason, ready.message) == ("TaskFailed", "OTHER: refused.")


def test_a_partial_commit_is_no_complete_one() -> None:
    partial = replace(COMMIT, is_partial=True)
    assert claims(stored(read(1), last=partial))["Committing"] == (Truth.FALSE, "Partial")


@pytest.mark.parametrize(("age", "is_late"), [(5 * MINUTE, False), (5 * MINUTE + SECOND, True)])
def test_records_are_late_after_five_intervals(age: timedelta, *, is_late: bool) -> None:
    waiting = Uncommitted(since=NOON - age, positions={FIRST: 5})
    lagging = conditions(stored(read(5)), waiting)["Lagging"]
    assert lagging.status is Truth.of(is_late)


@pytest.mark.parametrize(("age", "is_shown"), [(HOUR - SECOND, True), (HOUR, False)])
def test_a_refused_vote_is_shown_for_an_hour(age: timedelta, *, is_shown: bool) -> None:
    status = replace(stored(read(5)), fenced_at=NOON - age)
    assert conditions(status)["Fenced"].status is Truth.of(is_shown)


def test_uncommitted_records_are_as_old_as_the_first_time_they_were_seen() -> None:
    seen = follow_uncommitted(None, stored(read(5), accepted={FIRST: 3}), now=NOON)
    assert seen == Uncommitted(since=NOON, positions={FIRST: 5})
    more = stored(read(9), accepted={FIRST: 4})
    assert follow_uncommitted(seen, more, now=NOON + MINUTE) == seen


def test_newer_records_are_followed_once_the_older_ones_are_committed() -> None:
    seen = Uncommitted(since=NOON, positions={FIRST: 5})
    later = stored(read(9), accepted={FIRST: 5})
    assert follow_uncommitted(seen, later, now=NOON + MINUTE) == Uncommitted(
        since=NOON + MINUTE, positions={FIRST: 9}
    )
    assert follow_uncommitted(seen, stored(read(9), accepted={FIRST: 9}), now=NOON) is None


def test_one_partition_that_waits_is_not_hidden_by_another_one_that_moves() -> None:
    both = TaskReport(positions={FIRST: 5, SECOND_PART: 5})
    seen = follow_uncommitted(None, stored(both), now=NOON)
    moved = stored(TaskReport(positions={FIRST: 90, SECOND_PART: 5}), accepted={FIRST: 90})
    assert follow_uncommitted(seen, moved, now=NOON + HOUR) == Uncommitted(
        since=NOON, positions={SECOND_PART: 5}
    )


def test_a_status_follows_a_bounded_number_of_partitions() -> None:
    many = TaskReport(positions={SourcePartition("orders", at): 1 for at in range(1_000)})
    seen = follow_uncommitted(None, stored(many), now=NOON)
    assert seen is not None
    assert len(seen.positions) == MOST_FOLLOWED


def test_what_is_followed_is_read_back_from_the_status() -> None:
    seen = Uncommitted(since=NOON, positions={FIRST: 5, SECOND_PART: 6})
    status = dict(sink_details(stored(read(5)), seen))
    assert status["uncommitted"] == {
        "since": "2026-11-27T12:00:00.000000Z",
        "positions": {"orders": {"0": 5, "1": 6}},
    }
    assert written_uncommitted(status) == seen


@pytest.mark.parametrize("status", [{}, {"uncommitted": 3}, {"uncommitted": {"since": "x"}}])
def test_a_status_without_followed_records_is_read(status: Mapping[str, object]) -> None:
    assert written_uncommitted(status) is None


def test_the_figures_of_a_status() -> None:
    failing = replace(
        read(5, end=12),
        error_code="COMMIT_FAILED",
        error="409",
        unrouted=1,
        dropped_fields=2,
        tombstones=3,
    )
    status = stored(failing, None, held=1, accepted={FIRST: 3})
    checkpoint = replace(status.state.checkpoint, valid_through=NOON)
    status = replace(status, state=replace(status.state, checkpoint=checkpoint), dead_letters=2)
    assert dict(sink_details(status, None)) == {
        "last_commit_id": str(UUID(int=7)),
        "last_commit_at": "2026-11-27T11:59:00.000000Z",
        "valid_through_ts": "2026-11-27T12:00:00.000000Z",
        "lag": 9,
        "epoch": 2,
        "dead_letters": 2,
        "unrouted": 1,
        "dropped_fields": 2,
        "tombstones": 3,
        "tasks": 2,
        "workers": 1,
        "last_error": {"code": "COMMIT_FAILED", "message": "409"},
    }


def test_a_sink_that_never_ran_has_figures_without_values() -> None:
    assert dict(sink_details(SinkStatus(), None)) == {
        "lag": 0,
        "epoch": 0,
        "dead_letters": 0,
        "unrouted": 0,
        "dropped_fields": 0,
        "tombstones": 0,
        "tasks": 0,
        "workers": 0,
    }


def test_the_lag_of_a_partition_that_was_never_committed_counts_from_its_position() -> None:
    assert lag(stored(read(100, end=120))) == 20


def test_a_partition_that_has_moved_counts_with_the_newest_offsets() -> None:
    assert lag(stored(read(5, end=10), read(7, end=12), accepted={FIRST: 4})) == 8


def test_partitions_are_listed_with_everything_known_of_them() -> None:
    views = partition_views(stored(read(7, end=9, of=SECOND_PART), accepted={FIRST: 3}))
    assert [(one.partition, one.accepted, one.position, one.end) for one in views] == [
        (FIRST, 3, None, None),
        (SECOND_PART, None, 7, 9),
    ]


def test_a_commit_without_a_snapshot_is_not_the_last_one() -> None:
    status = replace(stored(read(5)), last_written=None)
    assert "last_commit_at" not in dict(sink_details(status, None))


def test_a_sink_has_begun_with_its_lineage_or_with_positions() -> None:
    new = replace(stored(None), last_commit=None)
    lineage = Lineage(cluster_id="c", topic_id="t", group="g")
    state = replace(new.state, checkpoint=Checkpoint(lineage=lineage))
    assert has_begun(replace(new, state=state))
    assert has_begun(stored(None, accepted={FIRST: 3}))
    assert not has_begun(replace(new, state=replace(new.state, checkpoint=Checkpoint())))
    assert not has_begun(SinkStatus())
