"""The history of a run, as JSON pages and as a stream: each entry once, in order, `end` last."""

import asyncio
import json
import threading
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Scope
from structlog.typing import EventDict

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.access.permissions import Role, permissions_of
from datarecs_core_api.following import MAX_PER_PRINCIPAL, Pace
from datarecs_memory.queries import MemoryQueries
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT, a_run
from datarecs_testing.live_views import Frame, a_followed_run, end, frames, record

STREAM = {"Accept": "text/event-stream"}
NEVER = timedelta(minutes=10)
LONG = Pace(poll=NEVER, ping=NEVER, check=NEVER)
"""Only notifications wake anybody."""


def followed(caller: TestClient, url: str, **headers: str) -> list[Frame]:
    """Everything of a stream that ends by itself."""
    with caller.stream("GET", url, headers={**STREAM, **headers}) as answer:
        assert answer.status_code == 200
        return list(frames(answer.iter_lines()))


def a_house(pace: Pace = LONG) -> MemoryApiHouse:
    return memory_api(pace=pace)


def a_scope(path: str, headers: dict[str, str]) -> Scope:
    """A GET as the server hands it on."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
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


class TestAPage:
    def test_shows_entries_as_cloud_events(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        (entry,) = house.caller().get(f"{run}/events").json()["items"]
        (row,) = (
            one.row
            for one in house.store.committed(A_TENANT).outbox.values()
            if one.row.partition_key == run.rpartition("/")[2]
        )
        sent = {name.removeprefix("ce_"): value.decode() for name, value in row.headers}
        sent["datacontenttype"] = sent.pop("content-type")
        attributes = {name: entry[name] for name in sent.keys() & entry.keys()}
        assert attributes == {name: sent[name] for name in attributes}
        assert attributes.keys() >= {"id", "source", "type", "subject", "runsequence", "dataschema"}
        assert json.loads(row.data) == entry["data"]
        assert entry["disposition"] == "APPLIED"

    def test_goes_on_after_a_number(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run, 4)
        ana = house.caller()
        first = ana.get(f"{run}/events?limit=3").json()
        rest = ana.get(f"{run}/events?limit=3&after={first['next']}").json()
        numbers = [int(one["runsequence"]) for one in first["items"] + rest["items"]]
        assert numbers == [1, 2, 3, 4, 5]
        assert rest["next"] is None
        assert ana.get(f"{run}/events?after=99").json() == {"items": [], "next": None}

    def test_writes_numbers_digit_for_digit(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        value = Decimal("12345678901234567.890")
        record(house, run, data={"tolerance_value": value, "none": None, "list": [value, True]})
        text = house.caller().get(f"{run}/events?after=1").text
        assert '"tolerance_value":12345678901234567.890,' in text
        assert '"none":null,"list":[12345678901234567.890,true]' in text

    @pytest.mark.parametrize("after", ["-1", "x", "9223372036854775808"])
    def test_refuses_a_number_no_entry_has(self, after: str) -> None:
        house = a_house()
        run = a_followed_run(house)
        assert house.caller().get(f"{run}/events?after={after}").status_code == 422

    @pytest.mark.parametrize(
        ("accept", "status"),
        [
            ("application/json", 200),
            ("text/html, application/*;q=0.5", 200),
            ("*/*", 200),
            ("text/html", 406),
            ("application/xml", 406),
        ],
    )
    def test_is_what_the_caller_accepts(self, accept: str, status: int) -> None:
        house = a_house()
        run = a_followed_run(house)
        answer = house.caller().get(f"{run}/events", headers={"Accept": accept})
        assert answer.status_code == status
        assert (answer.json().get("code") == "DR4007") is (status == 406)


class TestAStream:
    @pytest.mark.case("L42", "U34")
    def test_sends_everything_once_and_the_end_last(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run, 450)
        end(house, run)
        events = followed(house.caller(), f"{run}/events")
        assert [one.id for one in events if one.event == "event"] == [
            str(number) for number in range(1, 452)
        ]
        assert events[-1] == Frame("end", None, {"status": "COMPLETED", "result": "MATCHED"})
        snapshots = [one.data["status"] for one in events if one.event == "run"]
        assert snapshots == ["COMPLETED"]

    @pytest.mark.case("L42", "U34")
    @pytest.mark.parametrize(
        ("query", "header", "first"),
        [("?after=2", None, 3), ("", "4", 5), ("?after=1", "4", 5), ("?after=1", "\u00b2", 2)],
    )
    def test_goes_on_after_what_the_client_has_seen(
        self, query: str, header: str | None, first: int
    ) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run, 5)
        end(house, run)
        headers = {} if header is None else {"Last-Event-ID": header.encode("latin-1")}
        events = followed(house.caller(), f"{run}/events{query}", **headers)  # type: ignore[arg-type]  # raw bytes
        assert [one.id for one in events if one.id] == [str(number) for number in range(first, 7)]

    @pytest.mark.parametrize("seen", ["6", "9223372036854775808", "9" * 4000])
    @pytest.mark.case("U34")
    def test_ends_at_once_for_a_client_that_has_seen_all(self, seen: str) -> None:
        house = a_house()
        run = a_followed_run(house)
        end(house, run)
        events = followed(house.caller(), f"{run}/events", **{"Last-Event-ID": seen})
        assert [one.event for one in events] == ["run", "end"]

    @pytest.mark.case("L42")
    def test_is_woken_by_each_commit(self) -> None:
        house = a_house(LONG)
        run = a_followed_run(house)
        with house.caller().stream("GET", f"{run}/events", headers=STREAM) as answer:
            events = frames(answer.iter_lines())
            assert [next(events).event, next(events).event] == ["event", "run"]
            record(house, run)
            assert next(events).id == "2"
            end(house, run)
            assert [one.event for one in events] == ["run", "end"]

    @pytest.mark.case("L42")
    def test_finds_changes_without_a_notification(self) -> None:
        house = a_house()
        deaf = memory_api(
            unit=house.unit,
            queries=house.queries,
            finder=house.finder,
            pace=Pace(poll=timedelta(milliseconds=5)),
        )
        run = a_followed_run(house)
        with deaf.caller().stream("GET", f"{run}/events", headers=STREAM) as answer:
            events = frames(answer.iter_lines())
            next(events)
            record(house, run)
            end(house, run)
            assert [one.event for one in events][-3:] == ["event", "run", "end"]

    def test_pings_while_nothing_happens(self) -> None:
        house = a_house(Pace(poll=timedelta(milliseconds=5), ping=timedelta(milliseconds=10)))
        run = a_followed_run(house)
        with house.caller().stream("GET", f"{run}/events", headers=STREAM) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "retry: 2000"
            assert ": ping" in lines
            assert ": ping" in lines
            end(house, run)
            assert any(line == "event: end" for line in lines)

    def test_is_not_to_be_buffered_or_stored(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        end(house, run)
        with house.caller().stream("GET", f"{run}/events", headers=STREAM) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["x-accel-buffering"] == "no"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"

    @pytest.mark.case("X20")
    def test_ends_when_the_key_is_revoked(self) -> None:
        house = a_house(Pace(poll=timedelta(milliseconds=5), check=timedelta(milliseconds=5)))
        run = a_followed_run(house)
        key = house.key(permissions=permissions_of([Role.VIEWER]))
        with house.bearing(key).stream("GET", f"{run}/events", headers=STREAM) as answer:
            events = frames(answer.iter_lines())
            next(events)
            with house.unit.begin(A_TENANT) as tx:
                tx.api_keys.revoke(key[4:16])
            assert "end" not in {one.event for one in events}

    def test_ends_when_the_process_drains(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with house.caller().stream("GET", f"{run}/events", headers=STREAM) as answer:
            events = frames(answer.iter_lines())
            next(events)
            house.following.end()
            assert "end" not in {one.event for one in events}

    def test_ends_when_the_database_goes_away(self) -> None:
        house = a_house()
        run = a_followed_run(house)

        class Gone(MemoryQueries):
            def run_events(self, *_: object, **__: object) -> list[HistoryEntry]:
                raise StoreUnavailableError(cause="gone")

        broken = memory_api(unit=house.unit, finder=house.finder, queries=Gone(house.store))
        assert followed(broken.caller(), f"{run}/events") == []

    def test_that_breaks_off_leaves_a_trace_for_us_alone(self, logs: list[EventDict]) -> None:
        house = a_house()
        run = a_followed_run(house)

        class Defective(MemoryQueries):
            def run_events(self, *_: object, **__: object) -> list[HistoryEntry]:
                raise RuntimeError("hunter2")

        broken = memory_api(unit=house.unit, finder=house.finder, queries=Defective(house.store))
        with pytest.raises(RuntimeError):
            followed(broken.caller(), f"{run}/events")
        assert [one["event"] for one in logs].count("answer_broken_off") == 1

    @pytest.mark.case("X34")
    def test_is_one_of_twenty_of_a_principal(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        ana = house.caller()
        with ExitStack() as stack:
            for _ in range(MAX_PER_PRINCIPAL):
                answer = stack.enter_context(ana.stream("GET", f"{run}/events", headers=STREAM))
                assert answer.status_code == 200
            refused = ana.get(f"{run}/events", headers=STREAM)
            assert (refused.status_code, refused.json()["code"]) == (429, "DR4016")
            bob = house.caller(owner="u-bob")
            with bob.stream("GET", f"{run}/events", headers=STREAM) as answer:
                assert answer.status_code == 200
            assert house.metrics.last("feed_connections", kind="sse") == MAX_PER_PRINCIPAL
            end(house, run)
        assert followed(ana, f"{run}/events")
        assert house.metrics.last("feed_connections", kind="sse") == 0

    @pytest.mark.case("X04")
    def test_of_another_tenants_run_is_an_unknown_run(self) -> None:
        house = a_house()
        run = a_followed_run(house, B_TENANT)
        foreign = house.caller().get(f"{run}/events", headers=STREAM)
        unknown = house.caller().get(f"/api/v1/runs/{a_run().run_id}/events", headers=STREAM)
        assert foreign.status_code == unknown.status_code == 404
        assert foreign.json()["detail"] == unknown.json()["detail"]

    def test_of_one_run_is_not_woken_into_another(self) -> None:
        house = a_house()
        one, other = a_followed_run(house), ""
        other = house.caller().post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"]
        end(house, one)
        record(house, other)
        numbers = {frame.data.get("subject") for frame in followed(house.caller(), f"{one}/events")}
        assert f"run/{other.rpartition('/')[2]}" not in numbers

    @pytest.mark.case("U34")
    def test_is_the_same_from_every_replica(self) -> None:
        house = a_house()
        other = memory_api(unit=house.unit, finder=house.finder, queries=house.queries)
        run = a_followed_run(house)
        record(house, run, 10)
        end(house, run)
        events = [followed(one.caller(), f"{run}/events") for one in (house, other)]
        assert events[0] == events[1]

    @pytest.mark.case("U34")
    def test_lets_a_reader_go_that_takes_nothing(self) -> None:
        house = a_house(Pace(poll=NEVER, patience=timedelta(milliseconds=20)))
        run = a_followed_run(house)
        record(house, run, 10)
        taken: list[Message] = []

        async def stuck(message: Message) -> None:
            taken.append(message)
            if len(taken) > 3:
                await asyncio.Event().wait()

        headers = {"authorization": f"Bearer {house.key()}", "accept": "text/event-stream"}
        scope = a_scope(f"{run}/events", headers)
        asyncio.run(house.app(scope, nothing_more, stuck))
        assert b"id: 2" in taken[-1]["body"]
        end(house, run)
        rest = followed(house.caller(), f"{run}/events", **{"Last-Event-ID": "1"})
        assert [one.id for one in rest if one.id] == [str(number) for number in range(2, 12)]

    def test_leaves_nothing_behind(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with house.caller().stream("GET", f"{run}/events", headers=STREAM) as answer:
            next(frames(answer.iter_lines()))
        assert not house.following._waiting  # noqa: SLF001  nothing else shows a leak
        assert not house.following._streams  # noqa: SLF001  the same

    def test_serves_two_readers_alike(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        ids: list[list[str | None]] = []

        def follow() -> None:
            ids.append([one.id for one in followed(house.caller(), f"{run}/events") if one.id])

        readers = [threading.Thread(target=follow) for _ in range(3)]
        for reader in readers:
            reader.start()
        record(house, run, 30)
        end(house, run)
        for reader in readers:
            reader.join(timeout=30)
        assert ids == [[str(number) for number in range(1, 32)]] * 3


def test_the_head_of_a_stream_ends() -> None:
    house = a_house()
    run = a_followed_run(house)
    answer = house.caller().head(f"{run}/events", headers=STREAM)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.content == b""
