"""`get KIND -w`: nothing twice, nothing left out, no deletion that did not happen."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import httpx
import pytest

from datarecs_cli.client import Api
from datarecs_cli.config import Access
from datarecs_cli.main import run
from datarecs_cli.object_watch import Event, Lost, Observed, Scope, watch_objects
from datarecs_cli.refusals import RefusedError, ServerUnreachableError
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_testing.clock import ManualClock
from datarecs_testing.scripted_api import (
    API_KEY,
    SERVER,
    Reply,
    ScriptedApi,
    hangs_up,
    refuses,
    says,
    streams,
    written_credentials,
)

BROKEN = httpx.ReadError("connection reset")
FORBIDDEN = refuses(403, SecurityCode.FORBIDDEN)
EXPIRED = refuses(410, ApiCode.PLACE_EXPIRED)
JOBS = "/jobs"


def a_job(name: str, version: int = 1, *, uid: str = "") -> dict[str, object]:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "generation": version,
        "resourceVersion": str(version),
    }
    return {"apiVersion": "datarecs.io/v1", "kind": "ReconciliationJob", "metadata": metadata}


def listed(since: str, *jobs: object, next_page: str | None = None) -> Reply:
    return says({"items": list(jobs), "next": next_page, "watch_since": since})


def messages(event: str, job: object, place: str) -> bytes:
    return f"event: {event}\nid: {place}\ndata: {json.dumps(job)}\n\n".encode()


class Watching:
    """Lists and streams have one path: `replies` in the order of the requests."""

    def __init__(self, *replies: Reply, name: str | None = None) -> None:
        self.server, self.clock = ScriptedApi(), ManualClock(by_itself=True)
        self.server.on("GET", JOBS, *replies)
        access = Access(server=SERVER, api_key=API_KEY)
        self.api = Api(access, clock=self.clock, transport=self.server.transport)
        scope = Scope(path="jobs", params={"label_selector": "team"}, name=name)
        self.items: Iterator[Observed | Lost] = watch_objects(self.api, scope)

    def until_refused(self) -> list[tuple[str, str, int]]:
        return [brief(one) for one in self.observed()]

    def observed(self) -> Iterator[Observed]:
        """Everything until the server refuses the watch."""
        while True:
            try:
                item = next(self.items)
            except RefusedError:
                return
            if isinstance(item, Observed):
                yield item

    def sent(self) -> list[dict[str, str]]:
        return [dict(one.url.params) for one in self.server.requests]


def brief(item: Observed) -> tuple[str, str, int]:
    metadata = item.resource["metadata"]
    assert isinstance(metadata, dict)
    return str(item.event), metadata["name"], int(metadata["resourceVersion"])


@pytest.mark.case("R13")
def test_the_list_comes_first_oldest_first_then_each_change() -> None:
    watching = Watching(
        listed("p1", a_job("b"), a_job("a")),
        streams(
            b"retry: 2000\n\n",
            messages("CREATED", a_job("c"), "p2"),
            messages("UPDATED", a_job("a", 2), "p3"),
            messages("STATUS_UPDATED", a_job("a", 3), "p4"),
            messages("DELETED", a_job("b", 2), "p5"),
        ),
        FORBIDDEN,
    )
    assert watching.until_refused() == [
        ("SYNC", "a", 1),
        ("SYNC", "b", 1),
        ("CREATED", "c", 1),
        ("UPDATED", "a", 2),
        ("STATUS_UPDATED", "a", 3),
        ("DELETED", "b", 2),
    ]
    streams_of = [one for one in watching.sent() if "watch" in one]
    assert streams_of[0] == {"label_selector": "team", "watch": "1", "since": "p1"}
    assert streams_of[1]["since"] == "p5"


def test_a_list_of_many_pages_is_watched_from_its_first() -> None:
    watching = Watching(
        listed("p1", a_job("b"), next_page="c"),
        says({"items": [a_job("a")], "next": None, "watch_since": None}),
        FORBIDDEN,
    )
    assert [name for _, name, _ in watching.until_refused()] == ["a", "b"]
    assert watching.sent()[-1]["since"] == "p1"


@pytest.mark.case("R16")
def test_a_lost_connection_resumes_at_the_last_place() -> None:
    watching = Watching(
        listed("p1"),
        streams(messages("CREATED", a_job("a"), "p2"), b"id: p3\n\n", BROKEN),
        hangs_up,
        refuses(503, ApiCode.UNAVAILABLE),
        streams(messages("CREATED", a_job("b"), "p4"), b"event: BOOKMARK\nid: p5\ndata: {}\n\n"),
        FORBIDDEN,
    )
    assert watching.until_refused() == [("CREATED", "a", 1), ("CREATED", "b", 1)]
    sinces = [one["since"] for one in watching.sent()[1:]]
    assert sinces == ["p1", "p3", "p3", "p3", "p5"]


@pytest.mark.case("R13")
def test_a_change_that_the_list_shows_is_not_repeated() -> None:
    """Also a deletion of an earlier state: the object had left the selection, and came back."""
    watching = Watching(
        listed("p1", a_job("a", 3)),
        streams(
            messages("UPDATED", a_job("a", 1), "p2"),
            messages("DELETED", a_job("a", 2), "p3"),
            messages("CREATED", a_job("a", 3), "p4"),
            messages("DELETED", a_job("gone"), "p5"),
            messages("UPDATED", a_job("a", 4), "p6"),
        ),
        FORBIDDEN,
    )
    assert watching.until_refused() == [("SYNC", "a", 3), ("UPDATED", "a", 4)]


@pytest.mark.case("R13")
def test_after_410_it_lists_again_and_only_what_is_gone_is_deleted() -> None:
    watching = Watching(
        listed("p1", a_job("same"), a_job("changed"), a_job("gone")),
        EXPIRED,
        listed("p9", a_job("new"), a_job("same"), a_job("changed", 5)),
        FORBIDDEN,
    )
    observed = list(watching.observed())[3:]
    assert list(map(brief, observed)) == [
        ("DELETED", "gone", 1),
        ("SYNC", "changed", 5),
        ("SYNC", "new", 1),
    ]
    assert [one.is_last_known for one in observed] == [True, False, False]
    assert watching.sent()[-1]["since"] == "p9"


@pytest.mark.case("R10")
def test_a_list_that_fails_deletes_nothing() -> None:
    """Not even when its second page fails."""
    watching = Watching(
        listed("p1", a_job("a"), a_job("b")),
        EXPIRED,
        hangs_up,
        hangs_up,
        hangs_up,
        hangs_up,
        listed("p8", a_job("b"), next_page="c"),
        refuses(500, ApiCode.INTERNAL_ERROR),
        listed("p9", a_job("b"), next_page="c"),
        says({"items": [a_job("a")], "next": None, "watch_since": None}),
        FORBIDDEN,
    )
    assert watching.until_refused() == [("SYNC", "b", 1), ("SYNC", "a", 1)]


def test_an_object_of_a_deleted_name_is_another_one() -> None:
    watching = Watching(
        listed("p1", a_job("a", 7)),
        streams(
            messages("DELETED", a_job("a", 8), "p2"),
            messages("CREATED", a_job("a", uid="other"), "p3"),
        ),
        FORBIDDEN,
    )
    assert watching.until_refused()[1:] == [("DELETED", "a", 8), ("CREATED", "a", 1)]


def test_one_name_may_be_watched() -> None:
    watching = Watching(
        listed("p1", a_job("a"), a_job("b")),
        streams(messages("UPDATED", a_job("a", 2), "p2"), messages("UPDATED", a_job("b", 2), "p3")),
        FORBIDDEN,
        name="b",
    )
    assert watching.until_refused() == [("SYNC", "b", 1), ("UPDATED", "b", 2)]


def test_five_minutes_without_an_answer_end_it() -> None:
    watching = Watching(listed("p1"), hangs_up)
    started = watching.clock.monotonic()
    with pytest.raises(ServerUnreachableError):
        list(islice(watching.items, 1000))
    assert 300 <= watching.clock.monotonic() - started < 330


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    api = ScriptedApi()
    with api.in_place_of_the_network():
        yield api


def test_lines_have_event_and_name(server: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    server.on("GET", JOBS, listed("p1", a_job("orders")), FORBIDDEN)
    assert run(["get", "jobs", "-w"]) == 5
    assert capsys.readouterr().out == "SYNC            job/orders  default  generation 1\n"


def test_json_has_one_object_per_line(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on(
        "GET",
        JOBS,
        listed("p1", a_job("orders"), a_job("b")),
        EXPIRED,
        listed("p2", a_job("b")),
        FORBIDDEN,
    )
    run(["get", "jobs", "-w", "-o", "json", "-l", "team=a", "--namespace", "books"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()[:3]]
    assert lines == [
        {"event": "SYNC", "object": a_job("b")},
        {"event": "SYNC", "object": a_job("orders")},
        {"event": "DELETED", "final_state_unknown": True, "object": a_job("orders")},
    ]
    assert dict(server.requests[1].url.params) == {
        "namespace": "books",
        "label_selector": "team=a",
        "watch": "1",
        "since": "p1",
    }


def test_ctrl_c_ends_it_with_130(server: ScriptedApi) -> None:
    def interrupted(_request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    server.on("GET", JOBS, listed("p1"), interrupted)
    assert run(["get", "jobs", "--watch"]) == 130


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runs", "-w"], "datarecs watch RUN"),
        (["runs", "-l", "a=b"], "are for resources"),
        (["jobs", "-w", "--limit", "3"], "--limit has no effect"),
        (["jobs", "-w", "--export"], "--export has no effect"),
        (["jobs", "-w", "-o", "csv"], "use json or name"),
        (["job", "orders", "-l", "a=b"], "leave out NAME"),
    ],
)
@pytest.mark.usefixtures("server")
def test_a_flag_without_effect_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["get", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_list_is_limited_by_labels(server: ScriptedApi) -> None:
    server.on("GET", JOBS, listed("p1", a_job("orders")))
    assert run(["get", "jobs", "-l", "team in (a,b)"]) == 0
    assert server.requests[0].url.params["label_selector"] == "team in (a,b)"


def test_changes_are_a_table(server: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    change = {
        "op": "UPDATED",
        "changed": ["spec", "labels"],
        "generation": 2,
        "uid": "u",
        "actor": "key:abc",
        "at": "2026-01-15T12:00:00.000000Z",
    }
    server.on("GET", "/jobs/orders/changes", says({"items": [change], "next": None}))
    assert run(["changes", "job", "orders"]) == 0
    title, row = capsys.readouterr().out.splitlines()
    assert title.split() == ["AT", "CHANGE", "PARTS", "GENERATION", "BY"]
    assert row.split("  ")[:3] == ["2026-01-15T12:00:00.000000Z", "UPDATED", "spec, labels"]
    assert run(["changes", "job", "orders", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == [change]


def test_events_have_their_published_names() -> None:
    assert [str(one) for one in Event][1:] == ["CREATED", "UPDATED", "STATUS_UPDATED", "DELETED"]
