"""Watches of declared objects: each change once, in order, from where a list or a watch ended."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.feed import FeedBatch
from datarecs_application.resources import observe_resource
from datarecs_core.access.permissions import Role
from datarecs_core.resources.change_feed import ResourceChange, WatchFilter
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid, TenantId
from datarecs_core_api.feed import PAGE
from datarecs_core_api.following import Pace
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_core_api.watching import REACH
from datarecs_memory.change_feed import MemoryResourceFeed
from datarecs_specs.kinds import KINDS
from datarecs_testing.api import PLACES, WATCH_PLACES, MemoryApiHouse, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.live_views import Frame, frames

NEVER = timedelta(minutes=10)
LONG = Pace(poll=NEVER, ping=NEVER, check=NEVER, bookmark=NEVER)
"""Only notifications wake anybody."""
QUICK = timedelta(milliseconds=5)
PATH = "/api/v1/connections"
ANY = {"If-Match": "*"}


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api(pace=LONG)


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


@dataclass(frozen=True)
class Watch:
    frames: Iterator[Frame]
    lines: Iterator[str]

    def next(self, count: int) -> list[Frame]:
        return [next(self.frames) for _ in range(count)]

    def seen(self, count: int) -> list[tuple[str, str]]:
        return [(one.event, name_of(one)) for one in self.next(count)]


@contextmanager
def watching(
    caller: TestClient, query: str = "", path: str = PATH, **headers: str
) -> Iterator[Watch]:
    """A watch that has begun: what is committed from here on belongs to it."""
    with caller.stream("GET", f"{path}?watch=1{query}", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        opening = [next(lines), next(lines)]
        assert opening == ["retry: 2000", ""]
        if "since" not in query and not headers:
            assert next(lines).startswith("id: ")
            assert not next(lines)
        yield Watch(frames(lines), lines)


def name_of(frame: Frame) -> str:
    metadata = frame.data["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def write_of(frame: Frame) -> int:
    """The label by which a test counts its writes."""
    metadata = frame.data["metadata"]
    assert isinstance(metadata, dict)
    return int(metadata["labels"]["n"])


def place_of(caller: TestClient, query: str = "") -> str:
    """From which a watch misses nothing that this list does not show."""
    return str(caller.get(f"{PATH}{query}").json()["watch_since"])


def put(caller: TestClient, name: str, **metadata: object) -> None:
    body = {**EXAMPLES[Kind.CONNECTION], "metadata": {"name": name, **metadata}}
    answer = caller.put(f"{PATH}/{name}?apply=true", json=body, headers=ANY)
    assert answer.status_code in {200, 201}, answer.text


def observe(house: MemoryApiHouse, uid: object) -> None:
    with house.unit.begin(A_TENANT, feed=1) as tx:
        resource = next(one for one in tx.resources.page(Kind.CONNECTION) if str(one.uid) == uid)
        observe_resource(tx, ResourceUid(resource.uid), {"x": "y"}, observed_generation=1)


class TestFromNowOn:
    @pytest.mark.case("R03", "R04", "R05", "R11")
    def test_sends_each_write_with_the_object_as_get_shows_it(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        with watching(ana) as watch:
            put(ana, "ledger")
            shown = [ana.get(f"{PATH}/ledger").json()]
            put(ana, "ledger", labels={"team": "a"})
            shown.append(ana.get(f"{PATH}/ledger").json())
            observe(house, shown[0]["metadata"]["uid"])
            shown.append(ana.get(f"{PATH}/ledger").json())
            shown.append(ana.delete(f"{PATH}/ledger", headers=ANY).json())
            messages = watch.next(4)
        assert [one.event for one in messages] == [
            "CREATED",
            "UPDATED",
            "STATUS_UPDATED",
            "DELETED",
        ]
        assert [one.data for one in messages] == shown

    def test_sends_the_object_of_each_write_however_late_it_is_read(self, ana: TestClient) -> None:
        since = place_of(ana)
        for team in ("a", "b", "c"):
            put(ana, "ledger", labels={"team": team})
        ana.delete(f"{PATH}/ledger", headers=ANY)
        with watching(ana, f"&since={since}") as watch:
            messages = watch.next(4)
        labels = [one.data["metadata"]["labels"] for one in messages]  # type: ignore[index]  # JSON
        assert labels == [{"team": team} for team in ("a", "b", "c", "c")]

    @pytest.mark.parametrize("kind", list(Kind))
    def test_watches_any_kind(self, ana: TestClient, kind: Kind) -> None:
        with watching(ana, path=f"/api/v1/{KINDS[kind].path}") as watch:
            for other in Kind:
                declare(ana, other)
            (frame,) = watch.next(1)
        assert (frame.event, frame.data["kind"]) == ("CREATED", kind)

    @pytest.mark.case("R02")
    def test_sends_nothing_for_a_write_without_effect(self, ana: TestClient) -> None:
        with watching(ana) as watch:
            for name in ("one", "one", "two"):
                put(ana, name)
            assert watch.seen(2) == [("CREATED", "one"), ("CREATED", "two")]

    def test_stays_in_its_namespace(self, ana: TestClient) -> None:
        with watching(ana) as watch, watching(ana, "&namespace=*") as every:
            declare(ana, Kind.CONNECTION, name="far", namespace="books")
            declare(ana, Kind.CONNECTION, name="near")
            assert watch.seen(1) == [("CREATED", "near")]
            assert every.seen(2) == [("CREATED", "far"), ("CREATED", "near")]

    @pytest.mark.case("R71")
    def test_sends_nothing_of_another_tenant(self, house: MemoryApiHouse, ana: TestClient) -> None:
        bob = house.caller(B_TENANT, owner="u-bob")
        with watching(ana) as watch, watching(bob) as others:
            put(bob, "theirs")
            put(ana, "ours")
            bob.delete(f"{PATH}/theirs", headers=ANY)
            ana.delete(f"{PATH}/ours", headers=ANY)
            assert watch.seen(2) == [("CREATED", "ours"), ("DELETED", "ours")]
            assert others.seen(2) == [("CREATED", "theirs"), ("DELETED", "theirs")]

    @pytest.mark.case("R12")
    def test_an_object_of_a_deleted_name_is_another_one(self, ana: TestClient) -> None:
        with watching(ana) as watch:
            put(ana, "ledger")
            ana.delete(f"{PATH}/ledger", headers=ANY)
            put(ana, "ledger")
            messages = watch.next(3)
        uids = [one.data["metadata"]["uid"] for one in messages]  # type: ignore[index]  # JSON
        assert [one.event for one in messages] == ["CREATED", "DELETED", "CREATED"]
        assert uids[0] == uids[1] != uids[2]


class TestSince:
    @pytest.mark.case("R13")
    def test_a_list_and_a_watch_from_it_lose_nothing(self, ana: TestClient) -> None:
        put(ana, "before")
        page = ana.get(PATH).json()
        put(ana, "after")
        with watching(ana, f"&since={page['watch_since']}") as watch:
            put(ana, "live")
            assert watch.seen(2) == [("CREATED", "after"), ("CREATED", "live")]
        assert [one["metadata"]["name"] for one in page["items"]] == ["before"]

    def test_only_the_first_page_names_a_place(self, ana: TestClient) -> None:
        for name in ("a", "b"):
            put(ana, name)
        first = ana.get(f"{PATH}?limit=1").json()
        rest = ana.get(f"{PATH}?limit=1&cursor={first['next']}").json()
        assert len(first["watch_since"]) == 22
        assert rest["watch_since"] is None

    @pytest.mark.case("R13", "R16")
    @pytest.mark.parametrize("by_header", [True, False])
    def test_each_place_continues_without_gap_or_repeat(
        self, ana: TestClient, *, by_header: bool
    ) -> None:
        since = place_of(ana)
        count = 2 * PAGE + 20
        for number in range(count):
            put(ana, "ledger", labels={"n": str(number)})
        with watching(ana, f"&since={since}") as watch:
            messages = watch.next(count)
        assert list(map(write_of, messages)) == list(range(count))
        for at in (0, 7, PAGE, count - 1):
            place = str(messages[at].id)
            query, headers = (
                (f"&since={since}", {"Last-Event-ID": place})
                if by_header
                else (f"&since={place}", {})
            )
            with watching(ana, query, **headers) as watch:
                put(ana, "ledger", labels={"n": str(len(messages))})
                messages += watch.next(len(messages) - at)[-1:]
            assert write_of(messages[-1]) == len(messages) - 1

    @pytest.mark.case("R13")
    def test_a_place_that_is_too_old_requests_a_new_list(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        since = place_of(ana)
        house.clock.advance(REACH)
        with watching(ana, f"&since={since}"):
            pass
        house.clock.advance(timedelta(seconds=1))
        answer = ana.get(f"{PATH}?watch=1&since={since}")
        assert (answer.status_code, answer.json()["code"]) == (410, "DR4029")
        assert "older than 7 days; list the objects again" in answer.json()["detail"]

    @pytest.mark.case("R71")
    @pytest.mark.parametrize(
        "place",
        [
            22 * "A",
            PLACES.write(A_TENANT, 1),
            WATCH_PLACES.write(B_TENANT, 1, at=memory_api().clock.now()),
        ],
    )
    def test_a_place_of_something_else_requests_a_new_list(
        self, ana: TestClient, place: str
    ) -> None:
        answer = ana.get(f"{PATH}?watch=1&since={place}")
        assert (answer.status_code, answer.json()["code"]) == (410, "DR4029")

    def test_a_place_of_the_future_requests_a_new_list(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        """After a restored backup, numbers are given again."""
        place = WATCH_PLACES.write(A_TENANT, 99_999, at=house.clock.now())
        answer = ana.get(f"{PATH}?watch=1&since={place}")
        assert (answer.status_code, answer.json()["code"]) == (410, "DR4029")
        assert "restored" in answer.json()["detail"]

    def test_a_change_without_its_object_requests_a_new_list(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        """As an earlier release writes it during an upgrade: also for those who watch then."""
        since = place_of(ana)
        with watching(ana) as live:
            forget_next_object(house)
            put(ana, "ledger")
            assert list(live.frames) == []
        assert ana.get(f"{PATH}?watch=1&since={since}").status_code == 410
        with watching(ana, f"&since={place_of(ana)}") as watch:
            put(ana, "other")
            assert watch.seen(1) == [("CREATED", "other")]

    @pytest.mark.parametrize("since", ["0", "x", "-1", 22 * "é", 23 * "a"])
    def test_a_text_that_is_no_place_is_refused(self, ana: TestClient, since: str) -> None:
        assert ana.get(f"{PATH}?watch=1&since={since}").status_code == 422

    @pytest.mark.parametrize("query", ["since=" + 22 * "A", "watch=1&limit=1", "watch=1&cursor=x"])
    def test_a_parameter_without_effect_is_refused(self, ana: TestClient, query: str) -> None:
        answer = ana.get(f"{PATH}?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "DR4020")
        assert answer.json()["errors"][0]["pointer"].startswith("/query/")


class TestWithASelector:
    @pytest.mark.case("R15")
    def test_what_leaves_is_deleted_and_what_enters_is_created(self, ana: TestClient) -> None:
        since = place_of(ana)
        with watching(ana, "&label_selector=team=a") as live:
            for team in ("b", "a", "a", "b", "a"):
                put(ana, "ledger", labels={"team": team})
            put(ana, "ledger", labels={"team": "a", "x": "y"})
            ana.delete(f"{PATH}/ledger", headers=ANY)
            put(ana, "other", labels={"team": "b"})
            ana.delete(f"{PATH}/other", headers=ANY)
            put(ana, "last", labels={"team": "a"})
            seen = live.seen(6)
        assert seen == [
            ("CREATED", "ledger"),
            ("DELETED", "ledger"),
            ("CREATED", "ledger"),
            ("UPDATED", "ledger"),
            ("DELETED", "ledger"),
            ("CREATED", "last"),
        ]
        with watching(ana, f"&since={since}&label_selector=team=a") as missed:
            assert missed.seen(6) == seen

    def test_lists_have_the_same_objects(self, ana: TestClient) -> None:
        put(ana, "one", labels={"team": "a"})
        put(ana, "two", labels={"team": "b"})
        put(ana, "three")
        for selector, names in (
            ("team=a", ["one"]),
            ("team!=a", ["three", "two"]),
            ("team in (a, b)", ["two", "one"]),
            ("!team", ["three"]),
        ):
            items = ana.get(PATH, params={"label_selector": selector}).json()["items"]
            assert [one["metadata"]["name"] for one in items] == names, selector

    def test_a_cursor_belongs_to_its_selector(self, ana: TestClient) -> None:
        for name in ("a", "b"):
            put(ana, name, labels={"team": "a"})
        query: Mapping[str, Any] = {"limit": 1, "label_selector": "team"}
        first = ana.get(PATH, params=query).json()
        rest = ana.get(PATH, params={**query, "cursor": first["next"]}).json()
        assert [one["metadata"]["name"] for one in rest["items"]] == ["a"]
        wrong = ana.get(PATH, params={"limit": 1, "cursor": first["next"]})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "DR4006")

    @pytest.mark.parametrize("watch", ["", "&watch=1"])
    def test_a_wrong_selector_is_refused_with_its_part_and_the_forms(
        self, ana: TestClient, watch: str
    ) -> None:
        answer = ana.get(f"{PATH}?label_selector=team>3{watch}")
        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert fault["pointer"] == "/query/label_selector"
        assert "'team>3' is not understood" in fault["message"]
        assert "key notin (a, b)" in fault["hint"]


class TestItsLife:
    @pytest.mark.case("R16")
    def test_a_bookmark_moves_its_place_in_silence(self) -> None:
        assert Pace().bookmark == timedelta(seconds=60)
        house = memory_api(pace=Pace(poll=QUICK, ping=QUICK, bookmark=2 * QUICK))
        ana = house.caller()
        with watching(ana) as watch:
            declare(ana, Kind.SCHEDULE)
            bookmark = next(
                one for one in watch.frames if number_of(one.id) == house.resource_changes.head()
            )
        assert (bookmark.event, bookmark.data) == ("BOOKMARK", {"since": bookmark.id})
        with watching(ana, f"&since={bookmark.id}") as watch:
            put(ana, "later")
            assert watch.seen(1) == [("CREATED", "later")]

    def test_pings_between_bookmarks(self) -> None:
        house = memory_api(pace=Pace(poll=QUICK, ping=QUICK, bookmark=NEVER))
        with watching(house.caller()) as watch:
            assert next(line for line in watch.lines if line) == ": ping"

    def test_ends_when_the_process_drains(self, house: MemoryApiHouse, ana: TestClient) -> None:
        with watching(ana) as watch:
            house.following.end()
            assert list(watch.frames) == []

    def test_leaves_nothing_behind(self, house: MemoryApiHouse, ana: TestClient) -> None:
        with watching(ana):
            pass
        assert not house.watch_feed._buffers  # noqa: SLF001  nothing else shows a leak

    def test_needs_a_key_that_may_read(self, house: MemoryApiHouse) -> None:
        assert house.bearing(None).get(f"{PATH}?watch=1").status_code == 401
        trigger_only = house.bearing(house.key(permissions=["run.trigger"]))
        assert trigger_only.get(f"{PATH}?watch=1").status_code == 403
        house.following.end()
        assert house.caller(A_TENANT, Role.VIEWER).get(f"{PATH}?watch=1").status_code == 200

    def test_reports_how_far_it_is_behind(self, house: MemoryApiHouse, ana: TestClient) -> None:
        with watching(ana) as watch:
            put(ana, "ledger")
            watch.next(1)
        assert house.metrics.last("watch_lag_seconds") == 0.0


class Broken(MemoryResourceFeed):
    """A database that does not answer while `away`."""

    away = False

    def head(self) -> int:
        self._check()
        return super().head()

    def read_after(self, *, after: int, limit: int) -> FeedBatch:
        self._check()
        return super().read_after(after=after, limit=limit)

    def entries(
        self, tenant: TenantId, where: WatchFilter | None, *, after: int, upto: int, limit: int
    ) -> list[ResourceChange]:
        self._check()
        return super().entries(tenant, where, after=after, upto=upto, limit=limit)

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailableError(cause="gone")


@pytest.mark.case("R10")
def test_a_failed_read_is_never_a_deletion_and_nothing_is_repeated() -> None:
    """List and watch fail while the database is away; the watch continues where it was."""
    plain = memory_api(pace=LONG)
    source = Broken(plain.store)
    house = memory_api(
        pace=LONG,
        unit=plain.unit,
        finder=plain.finder,
        store=plain.store,
        resource_changes=source,
        clock=plain.clock,
    )
    ana = house.caller()
    put(ana, "ledger")
    since = place_of(ana)
    with watching(ana, f"&since={since}") as watch:
        put(ana, "one")
        house.watch_feed.read()
        (one,) = watch.next(1)
        source.away = True
        put(plain.caller(), "two")
        with pytest.raises(StoreUnavailableError):
            house.watch_feed.read()
        assert ana.get(PATH).status_code == 503
        assert ana.get(f"{PATH}?watch=1&since={since}").status_code == 503
        source.away = False
        house.watch_feed.read()
        (two,) = watch.next(1)
    with watching(ana, f"&since={one.id}") as resumed:
        (again,) = resumed.next(1)
    assert [(frame.event, name_of(frame)) for frame in (one, two)] == [
        ("CREATED", "one"),
        ("CREATED", "two"),
    ]
    assert again == two


class TestChanges:
    def test_show_each_write_newest_first(self, house: MemoryApiHouse, ana: TestClient) -> None:
        put(ana, "ledger")
        house.clock.advance(timedelta(minutes=1))
        put(ana, "ledger", labels={"team": "a"})
        uid = ana.get(f"{PATH}/ledger").json()["metadata"]["uid"]
        observe(house, uid)
        page = ana.get(f"{PATH}/ledger/changes").json()
        assert page["next"] is None
        assert [(one["op"], one["changed"]) for one in page["items"]] == [
            ("STATUS_UPDATED", ["status"]),
            ("UPDATED", ["labels"]),
            ("CREATED", []),
        ]
        assert page["items"][0]["actor"] == "controller/Connection"
        assert page["items"][1]["actor"].startswith("key:")
        assert page["items"][1]["at"] == "2026-01-15T12:01:00.000000Z"
        assert {one["uid"] for one in page["items"]} == {uid}
        assert ana.get(f"{PATH}/{uid}/changes").json() == page

    def test_remain_after_the_deletion(self, ana: TestClient) -> None:
        put(ana, "ledger")
        ana.delete(f"{PATH}/ledger", headers=ANY)
        items = ana.get(f"{PATH}/ledger/changes").json()["items"]
        assert [one["op"] for one in items] == ["DELETED", "CREATED"]

    def test_come_in_pages(self, ana: TestClient) -> None:
        for number in range(5):
            put(ana, "ledger", labels={"n": str(number)})
        seen, query = list[str](), "?limit=2"
        while True:
            answer = ana.get(f"{PATH}/ledger/changes{query}")
            seen += [one["op"] for one in answer.json()["items"]]
            if answer.json()["next"] is None:
                break
            assert answer.links["next"]["url"].startswith(f"{PATH}/ledger/changes?limit=2&cursor=")
            query = f"?limit=2&cursor={answer.json()['next']}"
        assert seen == ["UPDATED"] * 4 + ["CREATED"]

    def test_refuse_a_cursor_of_something_else(self, ana: TestClient) -> None:
        put(ana, "ledger")
        answer = ana.get(f"{PATH}/ledger/changes?cursor={PLACES.write(A_TENANT, 1)}")
        assert (answer.status_code, answer.json()["code"]) == (400, "DR4006")

    @pytest.mark.case("R71")
    def test_of_another_tenant_are_404(self, house: MemoryApiHouse, ana: TestClient) -> None:
        bob = house.caller(B_TENANT, owner="u-bob")
        put(bob, "ledger")
        bob.delete(f"{PATH}/ledger", headers=ANY)
        put(bob, "other")
        for name in ("ledger", "other", "nothing"):
            assert ana.get(f"{PATH}/{name}/changes").status_code == 404

    def test_of_any_kind_are_there(self, ana: TestClient) -> None:
        for kind in Kind:
            place = declare(ana, kind)
            (change,) = ana.get(f"{place}/changes").json()["items"]
            assert change["op"] == "CREATED"


def number_of(place: str | None) -> int:
    known = WATCH_PLACES.read(A_TENANT, place or "")
    assert known is not None
    return known[0]


def forget_next_object(house: MemoryApiHouse) -> None:
    """Store the next change as an earlier release does: without the object."""
    forgotten = list[int]()

    def forget(_channel: str, _payload: str) -> None:
        state = house.store.committed(A_TENANT)
        *earlier, last = state.changes
        if not forgotten:
            forgotten.append(last.rv)
            state.changes = (*earlier, replace(last, resource=None))

    house.store._listeners.insert(0, forget)  # noqa: SLF001  it must act before the feed is read
