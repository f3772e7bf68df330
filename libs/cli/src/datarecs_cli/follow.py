"""Follows one run from its first event to its end, across lost connections.

The stream resumes after the last received number. If it cannot be opened for five minutes, the
same history is polled. Every event is reported exactly once. Source: spec experience 3.4.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from queue import Empty, SimpleQueue
from threading import Event, Thread

from datarecs_cli.client import Api, ApiRequest, Json, path_of
from datarecs_cli.refusals import RefusedError, ServerUnreachableError, UnexpectedAnswerError
from datarecs_core.errors.base import DatarecsError
from datarecs_core.runs.model import RunStatus

FIRST_PAUSE = timedelta(seconds=0.5)
LONGEST_PAUSE = timedelta(seconds=10)
STREAM_PATIENCE_S = 300.0
"""Longest time without new events on the stream; then the history is polled."""
POLL = timedelta(seconds=5)
POLL_PATIENCE_S = 300.0
"""Longest time without any answer; then the command fails."""
PAGE = 200
_PASSING = frozenset({429, 500, 503})
"""Statuses of a server that will answer later."""


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of the run's history."""

    entry: Json

    @property
    def sequence(self) -> int:
        return int(str(self.entry["runsequence"]))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The current row of the run."""

    run: Json


@dataclass(frozen=True, slots=True)
class Dropped:
    """The connection was lost; following continues automatically."""

    reason: str


@dataclass(frozen=True, slots=True)
class Quiet:
    """A ping without a new event."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is terminal and all earlier events were reported."""


Seen = Happened | Snapshot | Dropped | Quiet


def is_terminal(run: Json) -> bool:
    return RunStatus(str(run["status"])).is_terminal


def is_passing(error: DatarecsError) -> bool:
    """Whether the same request may be answered later."""
    return not isinstance(error, RefusedError) or error.status in _PASSING


def follow(api: Api, run_id: str, *, after: int = 0) -> Iterator[Seen]:
    """All events after `after`, in order, each once; ends with the run.

    Raises:
        RefusedError: the run is unknown, or the key may not read it.
        ServerUnreachableError: no answer for five minutes of streaming and five of polling.
    """
    following = _Following(api, run_id, after)
    yield from following.streamed()
    if not following.has_ended():
        yield from following.polled()


class _Following:
    """The position of one reader."""

    def __init__(self, api: Api, run_id: str, after: int) -> None:
        self._api, self._run_id, self._after = api, run_id, after
        self._ended = False

    def has_ended(self) -> bool:
        return self._ended

    def streamed(self) -> Iterator[Seen]:
        """Read server-sent events; returns when the run or the time limit has ended."""
        clock, pause = self._api.clock, FIRST_PAUSE
        last_news = clock.monotonic()
        while not self._ended:
            reason = "the server closed the stream"
            try:
                for seen in self._frames():
                    if not isinstance(seen, Quiet):
                        last_news, pause = clock.monotonic(), FIRST_PAUSE
                    yield seen
            except (ServerUnreachableError, UnexpectedAnswerError, RefusedError) as lost:
                if not is_passing(lost):
                    raise
                reason = str(lost)
            if self.has_ended():
                return
            yield Dropped(reason)
            if clock.monotonic() - last_news >= STREAM_PATIENCE_S:
                return
            clock.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def polled(self) -> Iterator[Seen]:
        """Poll the history every five seconds."""
        clock = self._api.clock
        last_answer, version = clock.monotonic(), None
        while not self._ended:
            try:
                # Read the row first: the entries read after it include all events before its state.
                run = self._api.get("runs", self._run_id)
                yield from self._pages()
            except (ServerUnreachableError, UnexpectedAnswerError) as lost:
                if clock.monotonic() - last_answer >= POLL_PATIENCE_S:
                    raise
                yield Dropped(str(lost))
            else:
                last_answer = clock.monotonic()
                if run != version:
                    version = run
                    yield Snapshot(run)
                self._ended = is_terminal(run) and self._after >= int(str(run["last_sequence"]))
            if not self._ended:
                yield Quiet()
                clock.wait(POLL)

    def _frames(self) -> Iterator[Seen]:
        request = ApiRequest(
            method="GET",
            path=path_of("runs", self._run_id, "events"),
            headers={"Accept": "text/event-stream", "Last-Event-ID": str(self._after)},
        )
        with self._api.lines(request) as lines:
            for name, data in frames(lines):
                match name:
                    case "event":
                        yield from self._advance(_object(data, request))
                    case "run":
                        yield Snapshot(_object(data, request))
                    case "end":
                        self._ended = True
                        return
                    case _:
                        yield Quiet()

    def _pages(self) -> Iterator[Seen]:
        while True:
            page = self._api.get(
                "runs", self._run_id, "events", after=str(self._after), limit=str(PAGE)
            )
            items = page.get("items")
            for entry in items if isinstance(items, list) else []:
                yield from self._advance(entry)
            if page.get("next") is None:
                return

    def _advance(self, entry: Json) -> Iterator[Seen]:
        happened = Happened(entry)
        if happened.sequence > self._after:
            self._after = happened.sequence
            yield happened


def _object(data: str, request: ApiRequest) -> Json:
    try:
        frame = json.loads(data, parse_float=Decimal)
    except ValueError:
        frame = None
    if not isinstance(frame, dict):
        raise UnexpectedAnswerError(where=request.where, what="an event without a JSON object")
    return frame


def frames(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """(event, data) of each server-sent event; a comment is an event without a name."""
    for name, data, _ in placed_frames(lines):
        yield name, data


def placed_frames(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """(event, data, id); an id without data is an event without a name."""
    name, data, place = "message", list[str](), ""
    for line in lines:
        member, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data or place:
                yield name if data else "", "\n".join(data), place
            name, data, place = "message", [], ""
        elif not member:
            yield "", value, ""
        elif member == "event":
            name = value
        elif member == "data":
            data.append(value)
        elif member == "id":
            place = value


class Pump:
    """Reads on a second thread, so that the caller can check the time and receive Ctrl-C.

    An interrupt loses nothing: the next call continues after the last item.
    """

    def __init__(self, items: Iterator[Seen]) -> None:
        self._items = items
        self._queue: SimpleQueue[Seen | Ended | Exception] = SimpleQueue()
        self._closed = Event()
        self._thread = Thread(target=self._read, name="follow", daemon=True)
        self._thread.start()

    def next(self, within: timedelta) -> Seen | Ended | None:
        """The next item, or None if none arrives in time.

        Raises:
            DatarecsError: the error that ended the reading.
        """
        try:
            item = self._queue.get(timeout=within.total_seconds())
        except Empty:
            return None if self._thread.is_alive() or not self._queue.empty() else Ended()
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        """Stop without waiting; the thread ends at the next data from the server."""
        self._closed.set()

    def _read(self) -> None:
        try:
            for item in self._items:
                self._queue.put(item)
                if self._closed.is_set():
                    return
            self._queue.put(Ended())
        except Exception as error:  # noqa: BLE001  passed to the calling thread
            self._queue.put(error)
