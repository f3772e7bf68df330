"""WebSockets: admitted once by a ticket, with the events of a run's stream, ended with a reason."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse, WebSocketTestSession
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect
from structlog.typing import EventDict

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.access.permissions import Role, permissions_of
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, TenantId
from datarecs_core_api.following import MAX_PER_PRINCIPAL, Pace
from datarecs_core_api.shell import SECURITY_HEADERS
from datarecs_core_api.sockets import MAX_SUBSCRIPTIONS
from datarecs_core_api.tickets import is_same_origin
from datarecs_memory.queries import MemoryQueries
from datarecs_runtime.api_sections import Limits
from datarecs_testing.api import BASE_URL, UNHINDERED, ApiHouse, MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.live_views import a_followed_run, end, record

NEVER = timedelta(minutes=10)
LONG = Pace(poll=NEVER, ping=NEVER, check=NEVER)
QUICK = timedelta(milliseconds=5)


def a_house(pace: Pace = LONG, *, limits: Limits = UNHINDERED) -> MemoryApiHouse:
    return memory_api(pace=pace, limits=limits)


def a_ticket(caller: TestClient) -> str:
    answer = caller.post("/api/v1/ws-tickets")
    assert answer.status_code == 201
    return str(answer.json()["ticket"])


@contextmanager
def opened(
    house: ApiHouse, ticket: str | None = None, **headers: str
) -> Iterator[WebSocketTestSession]:
    """A socket of a client that has a ticket and no key, as a browser."""
    ticket = a_ticket(house.caller()) if ticket is None else ticket
    query = f"?ticket={ticket}" if ticket else ""
    with house.bearing(None).websocket_connect(f"/api/v1/ws{query}", headers=headers) as socket:
        yield socket


def refused(house: ApiHouse, ticket: str | None = None, **headers: str) -> tuple[int, str]:
    """Status and code of the answer to an upgrade."""
    with pytest.raises(WebSocketDenialResponse) as denial, opened(house, ticket, **headers):
        pass
    assert denial.value.headers["content-type"] == "application/problem+json"
    for name, value in SECURITY_HEADERS.items():
        assert denial.value.headers[name] == value
    assert denial.value.headers["x-request-id"]
    return denial.value.status_code, denial.value.json()["code"]


def subscribe(socket: WebSocketTestSession, run: str, **place: object) -> None:
    socket.send_text(json.dumps({"subscribe": {"run_id": run.rpartition("/")[2], **place}}))


def read_messages(socket: WebSocketTestSession, count: int) -> list[dict[str, Any]]:
    return [json.loads(socket.receive_text()) for _ in range(count)]


def ended(socket: WebSocketTestSession) -> int:
    """The code of the close that comes next."""
    with pytest.raises(WebSocketDisconnect) as closed:
        socket.receive_text()
    return closed.value.code


class TestATicket:
    def test_is_shown_once_and_stored_as_a_hash(self) -> None:
        house = a_house()
        ticket = a_ticket(house.caller())
        (stored,) = house.store.committed(A_TENANT).tickets.values()
        assert len(ticket) == 43
        assert ticket not in repr(stored)

    def test_is_not_shown_again_with_a_repeated_key(self) -> None:
        caller = a_house().caller()
        first, second = (
            caller.post("/api/v1/ws-tickets", headers={"Idempotency-Key": "t"}) for _ in range(2)
        )
        assert second.json() == {"expires_at": first.json()["expires_at"]}

    def test_is_for_every_principal_and_needs_one(self) -> None:
        house = a_house()
        assert house.bearing(None).post("/api/v1/ws-tickets").status_code == 401
        assert a_ticket(house.caller(A_TENANT, Role.AUDITOR))

    @pytest.mark.case("X19")
    def test_lets_in_once(self) -> None:
        house = a_house()
        ticket = a_ticket(house.caller())
        with opened(house, ticket):
            pass
        assert refused(house, ticket) == (401, "DR6011")

    @pytest.mark.case("X19")
    def test_lasts_thirty_seconds(self) -> None:
        house = a_house()
        ticket = a_ticket(house.caller())
        house.clock.advance(timedelta(seconds=31))
        assert refused(house, ticket) == (401, "DR6011")

    @pytest.mark.case("X19")
    def test_of_another_principal_is_none(self) -> None:
        house = a_house()
        bob = f"Bearer {house.key(owner='u-bob')}"
        assert refused(house, a_ticket(house.caller()), Authorization=bob) == (401, "DR6011")
        caller = house.caller()
        ana = str(caller.headers["Authorization"])
        with opened(house, a_ticket(caller), Authorization=ana):
            pass

    @pytest.mark.parametrize("ticket", ["", "x", 43 * "x", 43 * "é", 4000 * "x"])
    def test_that_was_never_issued_admits_no_socket(self, ticket: str) -> None:
        assert refused(a_house(), ticket) == (401, "DR6011")

    def test_of_a_revoked_key_is_none(self) -> None:
        house = a_house()
        key = house.key()
        ticket = a_ticket(house.bearing(key))
        with house.unit.begin(A_TENANT) as tx:
            tx.api_keys.revoke(key[4:16])
        assert refused(house, ticket) == (401, "DR6011")

    def test_of_a_key_that_may_not_read_admits_no_socket(self) -> None:
        house = a_house()
        ticket = a_ticket(house.bearing(house.key(permissions=["run.trigger"])))
        assert refused(house, ticket) == (403, "DR6012")
        assert house.store.committed(A_TENANT).audit[-1].row.action == "access.refuse"

    def test_is_guessed_ten_times_a_minute_at_most(self) -> None:
        house = a_house()
        answers = [refused(house, 43 * "x")[0] for _ in range(11)]
        assert answers == [401] * 10 + [429]
        assert house.metrics.total("auth_failures_total", reason="ticket") == 10

    @pytest.mark.case("X12")
    def test_is_no_place_for_a_key(self) -> None:
        house = a_house()
        assert refused(house, house.key()) == (400, "DR6010")

    def test_is_in_no_log(self, logs: list[EventDict]) -> None:
        house = a_house()
        ticket = a_ticket(house.caller())
        with opened(house, ticket):
            pass
        refused(house, ticket)
        assert ticket not in repr(logs)


class TestTheOrigin:
    @pytest.mark.case("X19")
    @pytest.mark.parametrize(
        "origin", ["http://evil.example", "https://api.test", "http://api.test:81", "null", ""]
    )
    def test_of_a_foreign_page_is_refused(self, origin: str) -> None:
        house = a_house()
        ticket = a_ticket(house.caller())
        assert refused(house, ticket, Origin=origin) == (403, "DR6012")
        with opened(house, ticket):  # nothing was used up
            pass

    def test_of_the_same_origin_is_let_in(self) -> None:
        with opened(a_house(), Origin=BASE_URL):
            pass

    @pytest.mark.parametrize(
        ("origin", "base_url", "same"),
        [
            ("https://d.example", "https://d.example/", True),
            ("https://D.example:443", "https://d.example", True),
            ("https://d.example:444", "https://d.example", False),
            ("https://d.example.other.example", "https://d.example", False),
            ("https://d.example", None, False),
            ("null", "null", False),
            ("http://[", "https://d.example", False),
            ("http://h:x", "http://h:x", False),
        ],
    )
    def test_is_scheme_host_and_port(
        self, origin: str, base_url: str | None, *, same: bool
    ) -> None:
        assert is_same_origin(origin, base_url) is same


class TestASubscription:
    @pytest.mark.case("L42")
    def test_sends_the_events_of_the_stream(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        run_id = run.rpartition("/")[2]
        record(house, run)
        with opened(house) as socket:
            subscribe(socket, run)
            first = read_messages(socket, 3)
            record(house, run)
            second = read_messages(socket, 1)
            end(house, run)
            last = read_messages(socket, 2)
        page = house.caller().get(f"{run}/events").json()["items"]
        frames = first[:2] + second
        assert frames == [
            {"event": "event", "run_id": run_id, "id": number, "data": page[number - 1]}
            for number in (1, 2, 3)
        ]
        assert [one["event"] for one in [first[2], *last]] == ["run", "run", "end"]
        assert last[1]["data"] == {"status": "COMPLETED", "result": "MATCHED"}

    def test_begins_behind_a_number(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        record(house, run, 450)
        with opened(house) as socket:
            subscribe(socket, run, after=3)
            numbers = [one.get("id") for one in read_messages(socket, 449)]
        assert sorted(filter(None, numbers)) == list(range(4, 452))

    def test_is_allowed_beside_others(self) -> None:
        house = a_house()
        runs = [a_followed_run(house)]
        runs += [
            str(house.caller().post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"])
            for _ in range(2)
        ]
        with opened(house) as socket:
            for run in runs:
                subscribe(socket, run, after=1)
            assert {one["event"] for one in read_messages(socket, 3)} == {"run"}
            for run in runs:
                record(house, run)
            seen = {one["run_id"] for one in read_messages(socket, 3)}
        assert seen == {run.rpartition("/")[2] for run in runs}

    def test_again_begins_again(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with opened(house) as socket:
            subscribe(socket, run)
            read_messages(socket, 2)
            subscribe(socket, run)
            read_messages(socket, 2)
            record(house, run)
            assert read_messages(socket, 1)[0]["id"] == 2
            end(house, run)
            assert [one["event"] for one in read_messages(socket, 2)] == ["run", "end"]

    @pytest.mark.case("X04")
    def test_of_another_tenants_run_is_of_an_unknown_one(self) -> None:
        house = a_house()
        theirs = a_followed_run(house, B_TENANT)
        nobodys = "/019bc000-0000-7000-8000-0000000ffffe"
        with opened(house) as socket:
            for run in (theirs, nobodys):
                subscribe(socket, run)
                (frame,) = read_messages(socket, 1)
                assert frame == {
                    "event": "error",
                    "run_id": run.rpartition("/")[2],
                    "data": {
                        "code": "DR4004",
                        "reason": "NOT_FOUND",
                        "detail": "there is no such run",
                    },
                }

    def test_is_one_of_twenty_of_a_socket(self) -> None:
        house = a_house()
        runs = [a_followed_run(house)]
        caller = house.caller()
        runs += [
            str(caller.post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"])
            for _ in range(MAX_SUBSCRIPTIONS)
        ]
        with opened(house) as socket:
            for run in runs:
                subscribe(socket, run, after=1)
            frames = read_messages(socket, MAX_SUBSCRIPTIONS + 1)
        (error,) = [one for one in frames if one["event"] == "error"]
        assert (error["run_id"], error["data"]["code"]) == (runs[-1].rpartition("/")[2], "DR4016")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "no json",
            "[]",
            "{}",
            '{"subscribe": {}}',
            '{"subscribe": {"run_id": "x"}}',
            '{"subscribe": {"run_id": "019BC000-0000-7000-8000-0000000FFFFE"}}',
            '{"subscribe": {"run_id": "019bc000-0000-7000-8000-0000000ffffe", "after": -1}}',
            '{"subscribe": {"run_id": "019bc000-0000-7000-8000-0000000ffffe", "after": 1.0}}',
            '{"subscribe": {"run_id": "019bc000-0000-7000-8000-0000000ffffe", "tenant_id": 1}}',
            100 * "[",
        ],
    )
    def test_that_is_not_valid_ends_it(self, text: str) -> None:
        with opened(a_house()) as socket:
            socket.send_text(text)
            assert ended(socket) == 1008

    def test_in_bytes_is_not_understood(self) -> None:
        with opened(a_house()) as socket:
            socket.send_bytes(b"{}")
            assert ended(socket) == 1008


class TestItsEnd:
    def test_comes_when_the_process_drains(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with opened(house) as following, opened(house) as idle:
            subscribe(following, run)
            read_messages(following, 2)
            house.following.end()
            assert [ended(following), ended(idle)] == [1012, 1012]

    @pytest.mark.case("X20")
    @pytest.mark.parametrize("subscribed", [True, False])
    def test_comes_when_the_key_is_revoked(self, *, subscribed: bool) -> None:
        house = a_house(Pace(poll=QUICK, check=QUICK))
        run = a_followed_run(house)
        key = house.key(permissions=permissions_of([Role.VIEWER]))
        with opened(house, a_ticket(house.bearing(key))) as socket:
            if subscribed:
                subscribe(socket, run)
                read_messages(socket, 2)
            with house.unit.begin(A_TENANT) as tx:
                tx.api_keys.revoke(key[4:16])
            assert ended(socket) == 1008

    def test_comes_when_nothing_is_followed_for_long(self) -> None:
        house = a_house(Pace(poll=QUICK, patience=4 * QUICK))
        run = a_followed_run(house)
        with opened(house) as socket:
            assert ended(socket) == 1000
        with opened(house) as socket:
            subscribe(socket, run)
            read_messages(socket, 2)
            record(house, run, 20)
            read_messages(socket, 20)
            end(house, run)
            read_messages(socket, 2)
            assert ended(socket) == 1000

    @pytest.mark.parametrize("method", ["run", "run_events"])
    def test_comes_when_the_database_goes_away(self, method: str) -> None:
        class Gone(MemoryQueries):
            def run(self, tenant: TenantId, run_id: RunId) -> Run | None:
                gone("run")
                return super().run(tenant, run_id)

            def run_events(
                self, tenant: TenantId, run_id: RunId, *, after: int, limit: int
            ) -> list[HistoryEntry]:
                gone("run_events")
                return super().run_events(tenant, run_id, after=after, limit=limit)

        def gone(_statement: str) -> None:
            if _statement == method:
                raise StoreUnavailableError(cause="gone")

        house = a_house()
        run = a_followed_run(house)
        broken = memory_api(unit=house.unit, finder=house.finder, queries=Gone(house.store))
        with opened(broken) as socket:
            subscribe(socket, run)
            assert ended(socket) == 1013

    def test_of_a_defect_is_loud(self) -> None:
        class Defective(MemoryQueries):
            def run(self, tenant: TenantId, run_id: RunId) -> Run | None:
                raise RuntimeError(tenant, run_id)

        def follow(run: str) -> None:
            with opened(broken) as socket:
                subscribe(socket, run)
                socket.receive_text()

        house = a_house()
        run = a_followed_run(house)
        broken = memory_api(unit=house.unit, finder=house.finder, queries=Defective(house.store))
        with pytest.raises(RuntimeError):
            follow(run)
        assert not broken.following._streams  # noqa: SLF001  nothing else shows a leak

    def test_leaves_nothing_behind(self) -> None:
        house = a_house()
        run = a_followed_run(house)
        with opened(house) as socket:
            subscribe(socket, run)
            read_messages(socket, 2)
            assert house.metrics.last("feed_connections", kind="ws") == 1
        assert house.metrics.last("feed_connections", kind="ws") == 0
        assert not house.following._waiting  # noqa: SLF001  nothing else shows a leak
        assert not house.following._streams  # noqa: SLF001  the same

    @pytest.mark.case("X34")
    def test_is_one_of_twenty_of_a_principal(self) -> None:
        house = a_house()
        run, caller = a_followed_run(house), house.caller()
        with ExitStack() as stack:
            for _ in range(MAX_PER_PRINCIPAL):
                stack.enter_context(opened(house, a_ticket(caller)))
            assert refused(house, a_ticket(caller)) == (429, "DR4016")
            stream = {"Accept": "text/event-stream"}
            assert caller.get(f"{run}/events", headers=stream).status_code == 429

    @pytest.mark.case("X34")
    def test_comes_for_a_client_that_sends_too_much(self) -> None:
        house = a_house(limits=Limits(requests_per_minute=10))
        run = a_followed_run(house)
        with opened(house) as socket:  # the ticket was the first request
            for number in range(10):
                subscribe(socket, run, after=number)
            with pytest.raises(WebSocketDisconnect) as end:
                read_messages(socket, 1_000)
        assert end.value.code == 1013

    def test_comes_for_a_reader_that_takes_nothing(self) -> None:
        house = a_house(Pace(poll=NEVER, patience=4 * QUICK))
        run = a_followed_run(house)
        record(house, run, 10)
        sent: list[Message] = []

        async def slowly(message: Message) -> None:
            sent.append(message)
            if message["type"] == "websocket.send":
                await asyncio.Event().wait()

        asyncio.run(house.app(a_scope(a_ticket(house.caller())), says(run), slowly))
        assert [one["type"] for one in sent] == [
            "websocket.accept",
            "websocket.send",
            "websocket.close",
        ]
        assert sent[-1]["code"] == 1013


def says(run: str) -> Any:  # noqa: ANN401  an ASGI receive
    """A client that subscribes and sends no more."""
    text = json.dumps({"subscribe": {"run_id": run.rpartition("/")[2]}})
    coming = iter([{"type": "websocket.connect"}, {"type": "websocket.receive", "text": text}])

    async def receive() -> Message:
        for message in coming:
            return message
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return receive


def a_scope(ticket: str) -> dict[str, object]:
    return {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "path": "/api/v1/ws",
        "raw_path": b"/api/v1/ws",
        "query_string": f"ticket={ticket}".encode(),
        "headers": [],
        "client": ("192.0.2.7", 50_000),
        "server": ("api.test", 80),
        "scheme": "ws",
        "http_version": "1.1",
        "root_path": "",
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }


def test_an_upgrade_is_counted_by_its_route() -> None:
    house = a_house()
    with opened(house):
        pass
    refused(house, "x")
    counted = {
        status: house.metrics.total(
            "http_requests_total", route="/api/v1/ws", method="GET", status=status
        )
        for status in ("101", "401")
    }
    assert counted == {"101": 1, "401": 1}


def test_without_an_upgrade_there_is_no_such_path() -> None:
    assert a_house().caller().get("/api/v1/ws").status_code == 404
