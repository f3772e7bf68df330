"""When a run waited, tried, read and compared, from its history alone.

A pure function of `run_event`. Times that are not in the history stay open, and numbers that are
missing in it are listed. Separate from `decide`, because nothing is decided here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from datarecs_core.runs.model import Disposition


class LaneKind(StrEnum):
    QUEUE = "queue"
    ATTEMPT = "attempt"
    EXTRACTION = "extraction"
    STAGE = "stage"
    COMPARISON = "comparison"


class LaneState(StrEnum):
    OPEN = "OPEN"
    DONE = "DONE"
    ERRORED = "ERRORED"
    CANCELLED = "CANCELLED"
    LOST = "LOST"
    """The worker vanished or gave the run back: what was begun in the attempt has no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One line of a run's history."""

    sequence: int
    name: str
    """The type without its prefix, or the name of a synthesised fact."""
    time: datetime
    data: Mapping[str, object]
    disposition: Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A part of the run with a start."""

    kind: LaneKind
    name: str
    """`queue`, `attempt 1`, `extraction 0`, or the stage's name."""
    attempt: int | None = None
    start: datetime
    end: datetime | None = None
    state: LaneState = LaneState.OPEN
    error: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    lanes: tuple[Lane, ...]
    """In the order in which they began."""
    gaps: tuple[int, ...]
    """Sequence numbers that are missing before the last one."""
    late: tuple[int, ...]
    """Of facts after the end or from an ended attempt; they have no lane."""
    synthesised: tuple[int, ...]
    """Of facts that were not reported but concluded by the platform."""


_LATE = {Disposition.LATE, Disposition.CONFLICT, Disposition.STALE_ATTEMPT}
_PARTS = (LaneKind.EXTRACTION, LaneKind.STAGE, LaneKind.COMPARISON)
_ENDS = {"completed": LaneState.DONE, "errored": LaneState.ERRORED}
_CLOSES = {
    "run.cancelled": LaneState.CANCELLED,
    "run.queue_errored": LaneState.ERRORED,
    "run.finalised": LaneState.DONE,
}


def timeline_of(history: Iterable[Moment]) -> Timeline:
    """The lanes of a run.

    Args:
        history: in order of sequence, from the first line on.
    """
    moments = tuple(history)
    lanes = _Lanes()
    for moment in moments:
        if moment.disposition not in _LATE:
            lanes.take(moment)
    known = {moment.sequence for moment in moments}
    return Timeline(
        lanes=tuple(lanes.all),
        gaps=tuple(number for number in range(1, max(known, default=0)) if number not in known),
        late=_numbers(moments, _LATE),
        synthesised=_numbers(moments, {Disposition.SYNTHESISED}),
    )


def _numbers(moments: Iterable[Moment], dispositions: set[Disposition]) -> tuple[int, ...]:
    return tuple(moment.sequence for moment in moments if moment.disposition in dispositions)


@dataclass(slots=True)
class _Lanes:
    all: list[Lane] = field(default_factory=list)
    attempt: int | None = None

    def take(self, moment: Moment) -> None:
        match moment.name:
            case "run.triggered":
                self._begin(LaneKind.QUEUE, "queue", moment)
            case "attempt_lost":
                self._end_all(moment, LaneState.LOST)
                self._begin(LaneKind.QUEUE, "queue", replace(moment, data={}))
            case "run.completed" | "run.errored":
                self._tried(moment)
                state = _ENDS[moment.name.removeprefix("run.")]
                self._end(LaneKind.ATTEMPT, f"attempt {self.attempt}", moment, state)
            case name if name in _CLOSES:
                errored = moment.data.get("error") is not None
                self._end_all(moment, LaneState.ERRORED if errored else _CLOSES[name])
            case _:
                self._part(moment)

    def _part(self, moment: Moment) -> None:
        """Begin or end of an extraction, a stage or a comparison."""
        kind, _, what = moment.name.removeprefix("run.").partition(".")
        if kind not in _PARTS:
            return
        index = moment.data.get("extraction_index")
        stage = moment.data.get("stage_name")
        name = str(stage or "") if index is None else f"extraction {index}"
        self._tried(moment)
        if what == "started":
            self._begin(LaneKind(kind), name, moment)
        elif what in _ENDS:
            self._end(LaneKind(kind), name, moment, _ENDS[what])

    def _tried(self, moment: Moment) -> None:
        """The first event of an attempt ends the waiting."""
        said = moment.data.get("attempt")
        attempt = said if isinstance(said, int) else self.attempt or 1
        if attempt != self.attempt:
            self.attempt = attempt
            self._end(LaneKind.QUEUE, "queue", moment, LaneState.DONE)
            self._begin(LaneKind.ATTEMPT, f"attempt {attempt}", moment)

    def _begin(self, kind: LaneKind, name: str, moment: Moment) -> None:
        attempt = None if kind is LaneKind.QUEUE else self.attempt
        self.all.append(Lane(kind=kind, name=name, attempt=attempt, start=moment.time))

    def _end(self, kind: LaneKind, name: str, moment: Moment, state: LaneState) -> None:
        for at in reversed(range(len(self.all))):
            lane = self.all[at]
            if (lane.kind, lane.name, lane.state) == (kind, name, LaneState.OPEN):
                self.all[at] = _ended(lane, moment, state)
                return

    def _end_all(self, moment: Moment, state: LaneState) -> None:
        self.all = [
            _ended(lane, moment, state) if lane.state is LaneState.OPEN else lane
            for lane in self.all
        ]


def _ended(lane: Lane, moment: Moment, state: LaneState) -> Lane:
    error = moment.data.get("error")
    lane_error = error if state is LaneState.ERRORED and isinstance(error, Mapping) else None
    return replace(lane, end=moment.time, state=state, error=lane_error)
