"""The client of the REST API: what it repeats, what it abandons, how a refusal reads."""

import httpx
import pytest

from datarecs_cli.client import Answer, Api, ApiRequest, path_of
from datarecs_cli.config import Access
from datarecs_cli.error_text import as_text
from datarecs_cli.exit_codes import ExitCode, exit_code_of
from datarecs_cli.refusals import RefusedError, ServerUnreachableError, UnexpectedAnswerError
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.security import SecurityCode
from datarecs_core.errors.spec import SpecCode
from datarecs_testing.clock import ManualClock
from datarecs_testing.scripted_api import (
    API_KEY,
    SERVER,
    Reply,
    ScriptedApi,
    hangs_up,
    refuses,
    says,
)

READ = ApiRequest(method="GET", path=path_of("runs"))
WITH_KEY = ApiRequest(
    method="POST", path=path_of("runs"), headers={"Idempotency-Key": "k"}, body={}
)
WITHOUT_KEY = ApiRequest(method="POST", path=path_of("runs"), body={})
BUSY = refuses(429, ApiCode.TOO_MANY_REQUESTS, retry_after_s=2)


class Client:
    """An Api whose waits cost nothing, and the server it talks to."""

    def __init__(self, *replies: Reply) -> None:
        self.server, self.clock = ScriptedApi(), ManualClock(by_itself=True)
        for method in ("GET", "POST"):
            self.server.on(method, "/runs", *replies)
        access = Access(server=SERVER, api_key=API_KEY)
        self.api = Api(access, clock=self.clock, transport=self.server.transport)

    def send(self, request: ApiRequest) -> Answer:
        with self.api:
            return self.api.send(request)

    def refusal(self, request: ApiRequest) -> DatarecsError:
        with pytest.raises(DatarecsError) as refused:
            self.send(request)
        return refused.value


def test_every_call_carries_the_key_and_says_who_it_is() -> None:
    client = Client(says({}))
    client.send(READ)
    headers = client.server.requests[0].headers
    assert headers["authorization"] == f"Bearer {API_KEY}"
    assert headers["user-agent"].startswith("datarecs-cli/")


def test_names_are_quoted_into_the_path() -> None:
    assert path_of("jobs", "a/../b?x#y") == "/api/v1/jobs/a%2F..%2Fb%3Fx%23y"


@pytest.mark.case("U10")
def test_a_busy_server_is_called_again_after_the_time_it_names() -> None:
    client = Client(BUSY, BUSY, says({"items": []}))
    assert client.send(READ).status == 200
    assert client.clock.monotonic() == 4


@pytest.mark.case("U10")
def test_429_for_ever_ends_after_three_retries_with_cause_and_next_step() -> None:
    client = Client(BUSY)
    refused = client.refusal(READ)
    assert len(client.server.requests) == 4
    assert exit_code_of(refused) is ExitCode.SERVER
    assert "DR4016" in as_text(refused)
    assert "Wait for the seconds in Retry-After." in as_text(refused)


def test_a_pause_longer_than_ten_seconds_is_the_users_to_wait() -> None:
    client = Client(refuses(429, ApiCode.TOO_MANY_REQUESTS, retry_after_s=60))
    client.refusal(READ)
    assert len(client.server.requests) == 1


@pytest.mark.case("U10")
def test_a_server_that_is_down_ends_after_three_retries_with_cause_and_next_step() -> None:
    client = Client(hangs_up)
    refused = client.refusal(READ)
    assert len(client.server.requests) == 4
    assert exit_code_of(refused) is ExitCode.SERVER
    assert "does not answer: Connection refused" in str(refused)
    assert "datarecs up" in as_text(refused)


@pytest.mark.case("U10")
def test_a_wrong_key_is_reported_at_once() -> None:
    client = Client(refuses(401, SecurityCode.UNAUTHENTICATED, detail="a valid key is needed"))
    refused = client.refusal(READ)
    assert len(client.server.requests) == 1
    assert exit_code_of(refused) is ExitCode.SERVER
    assert "datarecs key create" in as_text(refused)


def test_a_post_without_a_key_is_sent_once() -> None:
    for reply in (hangs_up, BUSY):
        client = Client(reply)
        client.refusal(WITHOUT_KEY)
        assert len(client.server.requests) == 1


@pytest.mark.case("U25")
def test_a_key_that_another_request_holds_is_tried_again() -> None:
    busy_key = refuses(409, ApiCode.IDEMPOTENCY_KEY_BUSY, retry_after_s=1)
    client = Client(busy_key, says({"run_id": "x"}, 202))
    assert client.send(WITH_KEY).json() == {"run_id": "x"}
    assert {one.headers["idempotency-key"] for one in client.server.requests} == {"k"}


def test_another_conflict_is_not() -> None:
    client = Client(refuses(409, ApiCode.RUN_ALREADY_TERMINAL))
    assert exit_code_of(client.refusal(WITH_KEY)) is ExitCode.SERVER
    assert len(client.server.requests) == 1


@pytest.mark.case("U26")
def test_a_key_used_for_another_body_is_a_wrong_request() -> None:
    refused = Client(refuses(422, ApiCode.IDEMPOTENCY_KEY_REUSED)).refusal(WITH_KEY)
    assert refused.code is ApiCode.IDEMPOTENCY_KEY_REUSED
    assert exit_code_of(refused) is ExitCode.USAGE


@pytest.mark.case("U26")
def test_a_key_that_is_too_long_is_a_wrong_request() -> None:
    refused = Client(refuses(400, ApiCode.INVALID_IDEMPOTENCY_KEY)).refusal(WITH_KEY)
    assert exit_code_of(refused) is ExitCode.USAGE


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, ExitCode.USAGE),
        (401, ExitCode.SERVER),
        (403, ExitCode.SERVER),
        (404, ExitCode.USAGE),
        (409, ExitCode.SERVER),
        (412, ExitCode.SERVER),
        (413, ExitCode.USAGE),
        (422, ExitCode.USAGE),
        (428, ExitCode.SERVER),
        (500, ExitCode.SERVER),
        (503, ExitCode.SERVER),
    ],
)
def test_the_status_decides_the_exit_code(status: int, code: ExitCode) -> None:
    assert exit_code_of(Client(refuses(status, ApiCode.NOT_FOUND)).refusal(WITHOUT_KEY)) is code


def test_every_fault_of_a_declaration_is_reported_with_its_place() -> None:
    errors = [
        {"code": "DR1004", "pointer": "/spec/url", "message": "bad", "hint": "mend it"},
        {"code": "DR1010", "pointer": "", "message": "missing"},
    ]
    refused = Client(refuses(422, ApiCode.INVALID_SPEC, errors=errors)).refusal(READ)
    lines = as_text(refused).splitlines()
    assert lines[0] == "DR4021 no"
    assert lines[1:3] == ["  | DR1004 /spec/url: bad; mend it", "  | DR1010 missing"]


def test_a_server_fault_names_its_trace() -> None:
    refused = Client(refuses(500, ApiCode.INTERNAL_ERROR, trace_id="abc")).refusal(WITHOUT_KEY)
    assert "trace id abc" in str(refused)
    assert "no (POST /api/v1/runs answered 500)" in str(refused)


def test_a_code_of_a_newer_server_is_shown_as_it_is() -> None:
    def newer(_request: httpx.Request) -> httpx.Response:
        problem = {"code": "DR4999", "detail": "too early", "status": 400}
        headers = {"content-type": "application/problem+json"}
        return httpx.Response(400, json=problem, headers=headers)

    refused = Client(newer).refusal(READ)
    assert isinstance(refused, RefusedError)
    assert "too early" in str(refused)
    assert "DR4999" in str(refused)


def test_codes_of_declarations_have_a_separate_page() -> None:
    refused = Client(refuses(409, SpecCode.UNKNOWN_CONNECTION)).refusal(READ)
    assert refused.code is SpecCode.UNKNOWN_CONNECTION


@pytest.mark.parametrize(
    ("code", "expected"), [(ApiCode.JOB_NOT_READY, 2), (ApiCode.WRITE_CONFLICT, 5)]
)
def test_an_invalid_job_is_no_fault_of_the_server(code: ApiCode, expected: int) -> None:
    refused = Client(refuses(409, code)).refusal(READ)
    assert isinstance(refused, RefusedError)
    assert refused.exit_code == expected


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>welcome</html>"),
        httpx.Response(200, json=[1]),
        httpx.Response(302, headers={"location": "https://login.example"}),
        httpx.Response(502, text="bad gateway"),
    ],
)
def test_an_answer_of_somebody_else_is_no_traceback(answer: httpx.Response) -> None:
    with pytest.raises(UnexpectedAnswerError, match="GET /api/v1/runs answered"):
        Client(lambda _request: answer).send(READ).json()


def test_numbers_preserve_their_digits() -> None:
    body = b'{"value": 0.100000000000000000000000000001}'
    answer = Client(lambda _request: httpx.Response(200, content=body)).send(READ)
    assert str(answer.json()["value"]) == "0.100000000000000000000000000001"


def test_a_list_is_read_page_by_page_and_no_further_than_wanted() -> None:
    first = says({"items": [{"n": 1}, {"n": 2}], "next": "c1"})
    second = says({"items": [{"n": 3}], "next": "c2"})
    client = Client(first, second)
    with client.api:
        items = list(client.api.pages("runs", limit=3, params={"job": "x"}))
    assert [item["n"] for item in items] == [1, 2, 3]
    queries = [dict(one.url.params) for one in client.server.requests]
    assert queries == [
        {"job": "x", "limit": "3"},
        {"job": "x", "limit": "1", "cursor": "c1"},
    ]


def test_a_stream_that_is_refused_is_a_refusal() -> None:
    client = Client(refuses(404, ApiCode.NOT_FOUND))
    with pytest.raises(RefusedError), client.api, client.api.lines(READ):
        pass


def test_a_stream_that_breaks_is_an_unreachable_server() -> None:
    client = Client(hangs_up)
    with pytest.raises(ServerUnreachableError), client.api, client.api.lines(READ):
        pass
