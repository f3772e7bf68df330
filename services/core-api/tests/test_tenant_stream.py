"""The events of a whole tenant as a stream: each once, in commit order, from where one left off."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest
from starlette.testclient import TestClient
from starlette.types import Message
from structlog.typing import EventDict

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.feed import EventFilter, FeedBatch, FeedEntry
from datarecs_core.access.permissions import Role, permissions_of
from datarecs_core.access.principal import Principal
from datarecs_core.values import TenantId
from datarecs_core_api import feed as feed_module
from datarecs_core_api.feed import BUFFER, PAGE, PAUSE, POLL, Buffer, Feed
from datarecs_core_api.following import MAX_PER_PRINCIPAL, MAX_PER_TENANT, LoopWake, Pace
from datarecs_core_api.following import Following as Followers
from datarecs_core_api.problems import ProblemError
from datarecs_core_api.tenant_live import RunEventForm
from datarecs_memory.change_feed import MemoryChangeFeed
from datarecs_runtime.clock import Latch
from datarecs_testing.api import PLACES, ApiHouse, MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import ManualClock
from datarecs_testing.live_views import Frame, a_followed_run, frames, record
from datarecs_testing.metrics import RecordedMetrics

RunBuffer = Buffer[FeedEntry, EventFilter]
PATH = "/api/v1/events/stream"
FORM = RunEventForm(PLACES)
TRIGGERED = "io.datarecs.reconciliation.run.triggered"
NEVER = timedelta(minutes=10)
LONG = Pace(poll=NEVER, ping=NEVER, check=NEVER)
"""Only notifications wake anybody."""
QUICK = timedelta(milliseconds=5)


@dataclass(frozen=True)
class Following:
    lines: Iterator[str]
    frames: Iterator[Frame]

    def next(self, count: int) -> list[Frame]:
        return [next(self.frames) for _ in range(count)]

    def numbers(self, count: int) -> list[int]:
        return [number_of(one.id) for one in self.next(count)]


@contextmanager
def following(caller: TestClient, query: str = "", **headers: str) -> Iterator[Following]:
    """A stream that has begun: what is committed from here on belongs to it."""
    with caller.stream("GET", f"{PATH}{query}", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        lines = answer.iter_lines()
        while (line := next(lines)).startswith("retry") or not line:
            pass
        if not line.startswith("event"):  # the mark of its place
            yield Following(lines, frames(lines))
        else:
            rest = chained(line, lines)
            yield Following(rest, frames(rest))


def chained(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def number_of(place: str | None, tenant: TenantId = A_TENANT) -> int:
    number = PLACES.read(tenant, place or "")
    assert number is not None
    return number


def place_of(number: int) -> str:
    return PLACES.write(A_TENANT, number)


def a_house(pace: Pace = LONG) -> MemoryApiHouse:
    return memory_api(pace=pace)


def rvs(house: MemoryApiHouse, tenant: TenantId = A_TENANT) -> list[int]:
    """Every number of the tenant's events."""
    histories = house.store.committed(tenant).history.values()
    return sorted(line.rv for lines in histories for line in lines)


def another_run(house: MemoryApiHouse, tenant: TenantId = A_TENANT) -> str:
    answer = house.caller(tenant).post("/api/v1/jobs/ledger-vs-exports/runs")
    return str(answer.headers["Location"])


class TestFromNowOn:
    @pytest.mark.case("L42")
    def test_sends_each_event_once_in_commit_order(self) -> None:
        house = a_house()
        one = a_followed_run(house)
        with following(house.caller()) as stream:
            other = another_run(house)
            record(house, one)
            record(house, other, 2)
            events = stream.next(4)
        assert [number_of(frame.id) for frame in events] == rvs(house)[1:]
        assert {frame.event for frame in events} == {"event"}
        assert [frame.data["subject"] for frame in events] == [
            f"run/{run.rpartition('/')[2]}" for run in (other, one, other, other)
        ]

    def test_sends_events_like_their_stream(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with following(house.caller()) as stream:
            record(house, run)
            (frame,) = stream.next(1)
        page = house.caller().get(f"{run}/events?after=1").json()
        assert page["items"] == [frame.data]

    def test_begins_with_a_number_from_which_a_browser_goes_on(self) -> None:
        house = a_house()
        a_followed_run(house)
        with house.caller().stream("GET", PATH) as answer:
            lines = answer.iter_lines()
            opening = [next(lines) for _ in range(4)]
        assert opening == ["retry: 2000", "", f"id: {place_of(rvs(house)[-1])}", ""]

    @pytest.mark.case("X04")
    def test_sends_nothing_of_another_tenant(self) -> None:
        house = a_house()
        ours, theirs = a_followed_run(house), a_followed_run(house, B_TENANT)
        with following(house.caller()) as stream:
            for _ in range(10):
                record(house, theirs, tenant=B_TENANT)
                record(house, ours)
            events = stream.next(10)
        assert {frame.data["tenantid"] for frame in events} == {str(A_TENANT)}

    def test_sends_only_the_requested_types(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with following(house.caller(), f"?type=x&type={TRIGGERED}") as stream:
            record(house, run, 3)
            another_run(house)
            (frame,) = stream.next(1)
        assert frame.data["type"] == TRIGGERED

    @pytest.mark.case("X29")
    @pytest.mark.parametrize("name", ["", "a%00b", "%F0%9F%98%80", "A", 101 * "a"])
    def test_refuses_what_no_type_is_called(self, name: str) -> None:
        assert a_house().caller().get(f"{PATH}?type={name}").status_code == 422

    def test_sends_only_events_of_the_requested_job(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        job_id = house.caller().get(run).json()["job_id"]
        nobodys = "019bc000-0000-7000-8000-0000000ffffe"
        with (
            following(house.caller(), f"?job_id={job_id}") as stream,
            following(house.caller(), f"?job_id={nobodys}") as silent,
        ):
            record(house, run)
            (frame,) = stream.next(1)
            house.following.end()
            assert list(silent.frames) == []
        assert frame.data["type"] == "attempt_lost"

    def test_serves_many_clients_alike(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with following(house.caller()) as first, following(house.caller()) as second:
            record(house, run, 30)
            assert first.numbers(30) == second.numbers(30) == rvs(house)[1:]


class TestFromANumber:
    @pytest.mark.case("L42", "U34")
    @pytest.mark.parametrize("by_header", [True, False])
    def test_goes_on_behind_it(self, *, by_header: bool) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run, 2 * PAGE + 50)
        seen = place_of(rvs(house)[9])
        query, headers = (
            ("?after=0", {"Last-Event-ID": seen}) if by_header else (f"?after={seen}", {})
        )
        with following(house.caller(), query, **headers) as stream:
            missed = stream.numbers(2 * PAGE + 41)
            record(house, run, 3)
            assert missed + stream.numbers(3) == rvs(house)[10:]

    def test_goes_on_behind_it_among_the_wanted_types(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run, 10)
        another_run(house)
        with following(house.caller(), f"?after=0&type={TRIGGERED}") as stream:
            events = stream.next(2)
        assert {frame.data["type"] for frame in events} == {TRIGGERED}

    @pytest.mark.case("L42")
    def test_loses_nothing_that_is_written_while_it_resumes(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run, 3 * BUFFER)
        writing = threading.Thread(target=record, args=(house, run, 3 * BUFFER))
        writing.start()
        with following(house.caller(), "?after=0") as stream:
            events = stream.numbers(6 * BUFFER + 1)
        writing.join()
        assert events == rvs(house)

    @pytest.mark.case("L42")
    def test_that_is_older_than_a_day_begins_again(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run)
        house.clock.advance(timedelta(hours=24, seconds=1))
        record(house, run)
        key = house.caller()
        with following(key, **{"Last-Event-ID": place_of(rvs(house)[0])}) as stream:
            (frame,) = stream.next(1)
            assert frame == Frame(
                "reset", place_of(rvs(house)[-1]), {"after": place_of(rvs(house)[-1])}
            )
            record(house, run)
            assert stream.numbers(1) == rvs(house)[-1:]
        record(house, run)
        with following(key, **{"Last-Event-ID": str(frame.id)}) as stream:
            assert stream.numbers(2) == rvs(house)[-2:]

    def test_that_was_not_delivered_begins_again(self) -> None:
        house = a_house()
        a_followed_run(house)
        with following(house.caller(), f"?after={place_of(99_999)}") as stream:
            assert stream.next(1)[0].event == "reset"

    @pytest.mark.parametrize("after", ["-1", "x", "7", 22 * "é", 23 * "a"])
    def test_that_no_event_has_is_refused(self, after: str) -> None:
        assert a_house().caller().get(f"{PATH}?after={after}").status_code == 422

    @pytest.mark.case("X03")
    @pytest.mark.parametrize("header", ["x", "-3", "\u00b2", "88121", PLACES.write(B_TENANT, 1)])
    def test_that_is_no_place_of_the_tenant_begins_again(self, header: str) -> None:
        house = a_house()
        run = a_followed_run(house)
        headers = {"Last-Event-ID": header.encode("latin-1")}
        with following(house.caller(), **headers) as stream:  # type: ignore[arg-type]  # raw bytes
            assert stream.next(1)[0].event == "reset"
            record(house, run)
            assert stream.numbers(1) == rvs(house)[-1:]


class TestItsLife:
    def test_pings_while_nothing_happens(self) -> None:
        house = a_house(Pace(poll=QUICK, ping=2 * QUICK))
        with following(house.caller()) as stream:
            assert next(line for line in stream.lines if line) == ": ping"

    def test_a_ping_moves_the_place_of_a_client_with_few_events(self) -> None:
        house = a_house(Pace(poll=QUICK, ping=2 * QUICK))
        run = a_followed_run(house)
        with following(house.caller(), "?type=x") as stream:
            record(house, run)
            assert f"id: {place_of(rvs(house)[-1])}" in stream.lines

    @pytest.mark.case("X20")
    def test_ends_when_the_key_is_revoked(self) -> None:
        house = a_house(Pace(poll=QUICK, check=QUICK))
        key = house.key(permissions=permissions_of([Role.VIEWER]))
        with following(house.bearing(key)) as stream:
            with house.unit.begin(A_TENANT) as tx:
                tx.api_keys.revoke(key[4:16])
            assert list(stream.frames) == []

    def test_ends_when_the_process_drains(self) -> None:
        house = a_house()
        with following(house.caller()) as stream:
            house.following.end()
            assert list(stream.frames) == []

    def test_ends_when_the_database_goes_away(self) -> None:
        class Gone(MemoryChangeFeed):
            def head(self) -> int:
                raise StoreUnavailableError(cause="gone")

        house = a_house()
        broken = memory_api(unit=house.unit, finder=house.finder, changes=Gone(house.store))
        with broken.caller().stream("GET", PATH) as answer:
            assert list(answer.iter_lines()) == ["retry: 2000", ""]

    @pytest.mark.case("X34")
    def test_is_one_of_twenty_of_a_principal(self) -> None:
        house = a_house()
        ana = house.caller()
        with ExitStack() as stack:
            for _ in range(MAX_PER_PRINCIPAL):
                stack.enter_context(following(ana))
            refused = ana.get(PATH)
            assert (refused.status_code, refused.json()["code"]) == (429, "DR4016")
            assert house.metrics.last("feed_connections", kind="sse") == MAX_PER_PRINCIPAL

    @pytest.mark.case("X34")
    def test_of_one_tenant_leaves_places_to_the_others(self) -> None:
        """However many keys it has."""
        places = Followers(RecordedMetrics())
        with ExitStack() as stack:
            for number in range(MAX_PER_TENANT):
                caller = Principal(tenant_id=A_TENANT, subject=f"key:{number}")
                stack.enter_context(places.place(caller, kind="sse"))
            with pytest.raises(ProblemError, match="too many streams"):
                stack.enter_context(
                    places.place(Principal(tenant_id=A_TENANT, subject="key:new"), kind="sse")
                )
            stack.enter_context(
                places.place(Principal(tenant_id=B_TENANT, subject="key:new"), kind="sse")
            )

    def test_leaves_nothing_behind(self) -> None:
        house = a_house()
        with following(house.caller()):
            pass
        assert not house.feed._buffers  # noqa: SLF001  nothing else shows a leak
        assert not house.following._waiting  # noqa: SLF001  the same
        assert not house.following._streams  # noqa: SLF001  the same

    @pytest.mark.parametrize("accept", ["text/html", "application/json"])
    def test_is_a_stream_or_nothing(self, accept: str) -> None:
        answer = a_house().caller().get(PATH, headers={"Accept": accept})
        assert (answer.status_code, answer.json()["code"]) == (406, "DR4007")

    def test_needs_a_key_that_may_read(self) -> None:
        house = a_house()
        assert house.bearing(None).get(PATH).status_code == 401
        trigger_only = house.key(permissions=["run.trigger"])
        assert house.bearing(trigger_only).get(PATH).status_code == 403

    def test_has_a_head_that_ends(self) -> None:
        answer = a_house().caller().head(PATH)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"].startswith("text/event-stream")


class TestASlowReader:
    def test_is_let_go_when_it_is_256_frames_behind(self) -> None:
        """Its connection takes nothing; it comes back with the last number it has got."""
        house = a_house()
        run = a_followed_run(house)
        taken: list[Message] = []
        begun, stuck, free = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def send(message: Message) -> None:
            taken.append(message)
            if message.get("body", b"").startswith(b"id: "):
                begun.set()
            if b"event: event" in message.get("body", b"") and not free.is_set():
                stuck.set()
                await free.wait()

        async def one_slow_client() -> None:
            serving = asyncio.create_task(house.app(a_scope(house), nothing_more, send))
            await begun.wait()
            await asyncio.to_thread(record, house, run)
            await stuck.wait()
            await asyncio.to_thread(record, house, run, BUFFER + 1)
            free.set()
            await serving

        asyncio.run(one_slow_client())
        bodies = b"".join(message.get("body", b"") for message in taken)
        assert bodies.count(b"event: event") == 1
        assert taken[-1]["more_body"] is False
        seen = bodies.rpartition(b"id: ")[2].partition(b"\n")[0].decode()
        with following(house.caller(), **{"Last-Event-ID": seen}) as stream:
            assert stream.numbers(BUFFER + 1) == rvs(house)[2:]

    def test_may_be_256_frames_behind(self) -> None:
        house = a_house()
        run = a_followed_run(house)

        async def full() -> RunBuffer:
            buffer = Buffer(FORM, A_TENANT, EventFilter(), LoopWake())
            house.feed.join(buffer)
            await asyncio.to_thread(record, house, run, BUFFER)
            return buffer

        buffer = asyncio.run(full())
        assert not buffer.is_lost
        assert [rv for rv, _ in buffer.taken()[0]] == rvs(house)[1:]


def a_scope(house: ApiHouse) -> dict[str, object]:
    """A GET of the stream as the server hands it on."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": "GET",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {house.key()}".encode())],
        "client": ("192.0.2.7", 50_000),
        "server": ("api.test", 80),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }


async def nothing_more() -> Message:
    """A client that stays and sends no more."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


class HeldUp:
    """A feed whose newest event waits for an older transaction, which is not announced."""

    def __init__(self, held_reads: int) -> None:
        self.held_reads_left, self.read_count = held_reads, 0

    def head(self) -> int:
        return 0

    def read_after(self, *, after: int, limit: int) -> FeedBatch:
        del limit
        self.read_count += 1
        self.held_reads_left -= 1
        held = self.held_reads_left > 0
        entries = () if held or after else ((A_TENANT, 1),)
        return FeedBatch(entries=entries, ended=10 if held else 20, begun=20)

    def entries(self, tenant: TenantId, where: EventFilter, **span: int) -> list[FeedEntry]:
        del tenant, where, span
        return []

    def is_expired(self, tenant: TenantId, after: int, *, age: timedelta) -> bool:
        del tenant, after, age
        return False


class Waits(ManualClock):
    """Records how long the loop waits, and ends it after enough waits."""

    def __init__(self, stop: Latch, enough: int) -> None:
        super().__init__(by_itself=True)
        self.waited: list[timedelta] = []
        self._stop, self._enough = stop, enough

    def wait(self, duration: timedelta, *, until: object = None) -> bool:
        del until
        self.waited.append(duration)
        if len(self.waited) >= self._enough:
            self._stop.set()
        self.advance(duration)
        return False


class TestTheLoop:
    def run(self, source: HeldUp, *, enough: int, hint: bool = True) -> list[timedelta]:
        stop = Latch()
        clock = Waits(stop, enough)
        feed = Feed(source, clock, RecordedMetrics(), form=FORM)

        async def joined() -> None:
            feed.join(Buffer(FORM, A_TENANT, EventFilter(), LoopWake()))

        asyncio.run(joined())
        if hint:
            feed.hint()
        feed.run(stop)
        return clock.waited

    def test_reads_again_soon_while_an_announced_event_is_delayed(self) -> None:
        waited = self.run(HeldUp(held_reads=5), enough=10)
        assert waited[::2] == [PAUSE] * 5
        assert waited[1::2] == [PAUSE, 2 * PAUSE, 4 * PAUSE, 8 * PAUSE, POLL]

    def test_waits_a_second_when_nothing_was_announced(self) -> None:
        assert self.run(HeldUp(held_reads=5), enough=2, hint=False) == [PAUSE, POLL]

    def test_reads_nothing_without_followers(self) -> None:
        stop, source = Latch(), HeldUp(held_reads=1)
        feed = Feed(source, Waits(stop, 4), RecordedMetrics(), form=FORM)
        feed.hint()
        feed.run(stop)
        assert source.read_count == 0

    def test_waits_for_a_database_that_is_away(self, logs: list[EventDict]) -> None:
        class Away(HeldUp):
            def read_after(self, *, after: int, limit: int) -> FeedBatch:
                if self.read_count < 2:
                    self.read_count += 1
                    raise StoreUnavailableError(cause="gone")
                return super().read_after(after=after, limit=limit)

        waited = self.run(Away(held_reads=1), enough=4)
        assert waited == [POLL, POLL, PAUSE, POLL]
        assert [one["event"] for one in logs] == ["feed_waits"] * 2

    def test_reports_how_far_it_is_behind(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with following(house.caller()) as stream:
            late = house.clock.now() - timedelta(seconds=3)
            record(house, run, time=late)
            stream.next(1)
        assert house.metrics.last("feed_lag_seconds") == 3.0

    def test_sends_no_event_twice_after_reading_again(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run)
        broken = {B_TENANT}

        class HalfGone(MemoryChangeFeed):
            def entries(
                self, tenant: TenantId, where: EventFilter, *, after: int, upto: int, limit: int
            ) -> list[FeedEntry]:
                if tenant in broken:
                    raise StoreUnavailableError(cause="gone")
                return super().entries(tenant, where, after=after, upto=upto, limit=limit)

        feed = Feed(HalfGone(house.store), house.clock, RecordedMetrics(), form=FORM)

        async def joined() -> list[RunBuffer]:
            buffers = [Buffer(FORM, one, EventFilter(), LoopWake()) for one in (A_TENANT, B_TENANT)]
            for buffer in buffers:
                feed.join(buffer)
            return buffers

        ours, theirs = asyncio.run(joined())
        record(house, run)
        record(house, a_followed_run(house, B_TENANT), tenant=B_TENANT)
        with pytest.raises(StoreUnavailableError):
            feed.read()
        broken.clear()
        feed.read()
        assert [rv for rv, _ in ours.taken()[0]] == rvs(house)[-1:]
        assert [rv for rv, _ in theirs.taken()[0]] == rvs(house, B_TENANT)


def test_a_page_is_smaller_than_the_buffer() -> None:
    assert feed_module.PAGE < feed_module.BUFFER
