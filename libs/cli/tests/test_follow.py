"""Following a run: nothing twice, nothing left out, whatever happens to the connection."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest

from datarecs_cli.client import Api
from datarecs_cli.config import Access
from datarecs_cli.follow import (
    Dropped,
    Ended,
    Happened,
    Pump,
    Quiet,
    Seen,
    Snapshot,
    follow,
    frames,
)
from datarecs_cli.refusals import RefusedError, ServerUnreachableError
from datarecs_core.errors.api import ApiCode
from datarecs_testing.clock import ManualClock
from datarecs_testing.scripted_api import (
    API_KEY,
    RUN_ID,
    SERVER,
    Reply,
    ScriptedApi,
    a_run_view,
    a_whole_stream,
    an_entry,
    frame,
    hangs_up,
    refuses,
    says,
    streams,
)

EVENTS, RUN = f"/runs/{RUN_ID}/events", f"/runs/{RUN_ID}"
TRIGGERED, QUEUED = an_entry(1, "run.triggered"), an_entry(2, "run.queued")
ENDED = a_run_view(status="COMPLETED", result="MATCHED", last_sequence=2)
WHOLE = a_whole_stream(TRIGGERED, QUEUED, run=ENDED)
BROKEN = httpx.ReadError("connection reset")


class Following:
    def __init__(self, *replies: Reply, after: int = 0) -> None:
        self.server, self.clock = ScriptedApi(), ManualClock(by_itself=True)
        self.server.on("GET", EVENTS, *replies)
        self.after = after
        access = Access(server=SERVER, api_key=API_KEY)
        self._api = Api(access, clock=self.clock, transport=self.server.transport)

    def seen(self) -> list[Seen]:
        with self._api:
            return list(follow(self._api, RUN_ID, after=self.after))

    def numbers(self) -> list[int]:
        return [one.sequence for one in self.seen() if isinstance(one, Happened)]

    def resumed_after(self) -> list[str | None]:
        return [one.headers.get("last-event-id") for one in self.server.requests_to("GET", EVENTS)]


def test_the_whole_history_then_the_end() -> None:
    seen = Following(WHOLE).seen()
    assert [type(one) for one in seen] == [Happened, Happened, Snapshot]


def test_a_broken_stream_is_resumed_behind_the_last_event() -> None:
    following = Following(streams(frame("event", TRIGGERED), BROKEN), WHOLE)
    assert following.numbers() == [1, 2]
    assert following.resumed_after() == ["0", "1"]


def test_an_event_that_comes_again_is_not_shown_again() -> None:
    following = Following(streams(frame("event", TRIGGERED), frame("event", TRIGGERED)), WHOLE)
    assert following.numbers() == [1, 2]


def test_a_stream_that_just_ends_is_a_dropped_one() -> None:
    seen = Following(streams(b"retry: 2000\n\n"), WHOLE).seen()
    assert seen[0] == Dropped("the server closed the stream")
    assert sum(isinstance(one, Happened) for one in seen) == 2


def test_pauses_grow_from_half_a_second_to_ten() -> None:
    following = Following(*[hangs_up] * 7, WHOLE)
    following.seen()
    assert following.clock.monotonic() == 0.5 + 1 + 2 + 4 + 8 + 10 + 10


def test_a_place_among_the_streams_is_waited_for() -> None:
    assert Following(refuses(429, ApiCode.TOO_MANY_REQUESTS), WHOLE).numbers() == [1, 2]


def test_a_proxys_page_in_between_is_survived() -> None:
    page = says("<html>")
    assert Following(page, streams(b"event: run\ndata: oops\n\n"), WHOLE).numbers() == [1, 2]


def test_an_unknown_run_ends_it() -> None:
    with pytest.raises(RefusedError):
        Following(refuses(404, ApiCode.NOT_FOUND)).seen()


def page(request: httpx.Request) -> httpx.Response:
    """The history by page, and no stream at all."""
    if "event-stream" in request.headers.get("accept", ""):
        raise httpx.ReadError("cut by a proxy", request=request)
    after = int(request.url.params["after"])
    items = [one for one in (TRIGGERED, QUEUED) if int(str(one["runsequence"])) > after]
    return httpx.Response(200, json={"items": items, "next": None})


def test_after_five_minutes_without_a_stream_the_history_is_polled() -> None:
    following = Following(page)
    following.server.on("GET", RUN, says(a_run_view()), says(ENDED))
    assert following.numbers() == [1, 2]
    assert following.clock.monotonic() >= 300


def test_a_server_that_never_comes_back_is_abandoned_after_ten_minutes() -> None:
    following = Following(hangs_up)
    following.server.on("GET", RUN, hangs_up)
    with pytest.raises(ServerUnreachableError):
        following.seen()
    assert 600 <= following.clock.monotonic() < 700


def test_following_may_begin_behind_an_event() -> None:
    following = Following(WHOLE, after=1)
    assert following.numbers() == [2]
    assert following.resumed_after() == ["1"]


def test_frames_are_read_as_the_standard_says() -> None:
    lines = iter(["retry: 9", "", ": ping", "event: run", "data: {", "data:  }", "", "data", ""])
    assert list(frames(lines)) == [("", "ping"), ("run", "{\n }"), ("message", "")]


def test_a_pump_hands_on_what_it_reads_and_then_the_end() -> None:
    pump = Pump(iter([Quiet(), Dropped("x")]))
    got = [pump.next(timedelta(seconds=5)) for _ in range(3)]
    assert got == [Quiet(), Dropped("x"), Ended()]


def test_a_pump_hands_on_what_ended_the_reading() -> None:
    def items() -> Iterator[Seen]:
        yield Quiet()
        raise ServerUnreachableError(server="x", reason="gone")

    pump = Pump(items())
    assert pump.next(timedelta(seconds=5)) == Quiet()
    with pytest.raises(ServerUnreachableError):
        pump.next(timedelta(seconds=5))
    assert pump.next(timedelta(seconds=0.2)) == Ended()
