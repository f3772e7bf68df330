from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_core.runs.model import Disposition
from datarecs_core.runs.timeline import Lane, LaneState, Moment, timeline_of
from datarecs_testing.builders import NOON

SECOND = timedelta(seconds=1)
OPEN, DONE, ERRORED, LOST = LaneState.OPEN, LaneState.DONE, LaneState.ERRORED, LaneState.LOST
LEDGER = {"attempt": 1, "extraction_index": 0}
ROWS = {"attempt": 1, "stage_name": "rows"}
KILLED = {"code": "CRASHED", "message": "killed"}


def at(second: int, name: str, **data: object) -> Moment:
    """The line of that number, so many seconds after noon."""
    return Moment(
        sequence=second,
        name=name,
        time=NOON + second * SECOND,
        data=data,
        disposition=Disposition.HISTORY,
    )


def shown(lane: Lane) -> tuple[str, int, int | None, LaneState]:
    end = None if lane.end is None else (lane.end - NOON) // SECOND
    return lane.name, (lane.start - NOON) // SECOND, end, lane.state


def lanes(*moments: Moment) -> list[tuple[str, int, int | None, LaneState]]:
    return [shown(lane) for lane in timeline_of(moments).lanes]


def test_a_run_waits_reads_compares_and_ends() -> None:
    assert lanes(
        at(1, "run.triggered"),
        at(2, "run.queued"),
        at(3, "run.stage.started", **ROWS),
        at(4, "run.extraction.started", **LEDGER),
        at(5, "run.extraction.completed", **LEDGER),
        at(6, "run.comparison.started", **ROWS),
        at(7, "run.rows_processed", **ROWS),
        at(8, "run.comparison.completed", **ROWS),
        at(9, "run.stage.completed", **ROWS),
        at(10, "run.completed", attempt=1),
        at(11, "run.finalised", result="MATCHED"),
    ) == [
        ("queue", 1, 3, DONE),
        ("attempt 1", 3, 10, DONE),
        ("rows", 3, 9, DONE),
        ("extraction 0", 4, 5, DONE),
        ("rows", 6, 8, DONE),
    ]


def test_a_lost_attempt_ends_what_it_began_and_the_run_waits_again() -> None:
    assert lanes(
        at(1, "run.triggered"),
        at(2, "run.extraction.started", **LEDGER),
        at(3, "attempt_lost", attempt=1, loss="EXPIRED"),
        at(4, "run.extraction.started", **LEDGER | {"attempt": 2}),
    ) == [
        ("queue", 1, 2, DONE),
        ("attempt 1", 2, 3, LOST),
        ("extraction 0", 2, 3, LOST),
        ("queue", 3, 4, DONE),
        ("attempt 2", 4, None, OPEN),
        ("extraction 0", 4, None, OPEN),
    ]


def test_an_error_is_recorded_at_its_step_and_with_the_run() -> None:
    timeline = timeline_of(
        [
            at(1, "run.triggered"),
            at(2, "run.extraction.started", **LEDGER),
            at(3, "run.extraction.errored", **LEDGER, error=KILLED),
            at(4, "run.errored", attempt=1, error=KILLED),
            at(5, "run.finalised", error=KILLED),
        ]
    )
    assert [shown(lane)[3] for lane in timeline.lanes] == [DONE, ERRORED, ERRORED]
    assert [lane.error for lane in timeline.lanes] == [None, KILLED, KILLED]


@pytest.mark.parametrize(
    ("name", "data", "state"),
    [
        ("run.cancelled", {}, LaneState.CANCELLED),
        ("run.queue_errored", {"error": KILLED}, ERRORED),
        ("run.finalised", {"error": KILLED}, ERRORED),
    ],
)
def test_a_run_that_never_started_has_one_lane(
    name: str, data: Mapping[str, object], state: LaneState
) -> None:
    assert lanes(at(1, "run.triggered"), at(2, name, **data)) == [("queue", 1, 2, state)]


def test_gaps_late_and_synthesised_facts_are_marked_and_make_no_lane() -> None:
    late = at(6, "run.extraction.started", **LEDGER)
    events = [
        at(1, "run.triggered"),
        at(4, "run.cancelled"),
        replace(at(5, "run.completed", attempt=1), disposition=Disposition.LATE),
        replace(late, disposition=Disposition.STALE_ATTEMPT),
        replace(at(7, "cancel_forced"), disposition=Disposition.SYNTHESISED),
    ]
    timeline = timeline_of(events)
    assert [lane.name for lane in timeline.lanes] == ["queue"]
    assert (timeline.gaps, timeline.late, timeline.synthesised) == ((2, 3), (5, 6), (7,))


def test_an_empty_history_has_no_lane() -> None:
    timeline = timeline_of([])
    assert (timeline.lanes, timeline.gaps) == ((), ())
