"""The layers around every response: problems with enough details, headers, HEAD, ids."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network

import httpx2
import pytest
from starlette.websockets import WebSocketDisconnect
from structlog.typing import EventDict

from datarecs_application.errors import StoreUnavailableError
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.storage import StorageCode
from datarecs_core.values import TenantId
from datarecs_core_api.guarded import guarded_routes
from datarecs_core_api.problems import STATUS
from datarecs_core_api.shell import SECURITY_HEADERS
from datarecs_memory.queries import MemoryQueries
from datarecs_memory.unit_of_work import MemoryTransaction, MemoryUnitOfWork
from datarecs_testing.api import MemoryApiHouse, declare, memory_api

PROBLEM = "application/problem+json"
MEMBERS = {
    "type",
    "title",
    "status",
    "detail",
    "instance",
    "code",
    "reason",
    "trace_id",
    "request_id",
}


@pytest.fixture
def house() -> MemoryApiHouse:
    """Its streams send their start, and no more."""
    house = memory_api()
    house.following.end()
    return house


def every_route(house: MemoryApiHouse) -> list[tuple[str, str]]:
    """Method and a concrete path of each guarded route."""
    return [
        (method, template.replace("{", "").replace("}", ""))
        for method, template in guarded_routes(house.app)
    ]


def assert_is_problem(answer: httpx2.Response, *, code: str) -> None:
    assert answer.headers["content-type"] == PROBLEM
    problem = answer.json()
    assert problem.keys() >= MEMBERS
    assert (problem["code"], problem["status"]) == (code, answer.status_code)
    assert len(problem["trace_id"]) == 32
    assert answer.headers["X-Request-Id"] == problem["request_id"]


def assert_has_headers(answer: httpx2.Response) -> None:
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name] == value
    assert "server" not in answer.headers


@pytest.mark.case("X88", "U33")
@pytest.mark.parametrize(
    "path", ["/api", "/api/v1", "/api/v1/", "/api/v1/jobs/", "/docs/", "/start"]
)
def test_an_unknown_path_is_a_problem(house: MemoryApiHouse, path: str) -> None:
    answer = house.bearing(None).get(path, follow_redirects=False)
    assert answer.status_code == 404
    assert_is_problem(answer, code="DR4004")
    assert_has_headers(answer)


def matches(template: str, path: str) -> bool:
    if (template, path) == ("/api/v1/capture-jobs/{job_id}", "/api/v1/capture-jobs/now"):
        return False  # no id, and not read
    return re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", template), path) is not None


@pytest.mark.case("X88")
def test_every_path_names_the_methods_it_takes(house: MemoryApiHouse) -> None:
    routes = guarded_routes(house.app)
    client = house.bearing(None)
    for path in {path for _, path in every_route(house)}:
        # A path without parameters may also be one that another template describes.
        methods = {method for method, template in routes if matches(template, path)}
        allowed = methods | ({"HEAD"} if "GET" in methods else set())
        for method in {"PATCH", "TRACE", "OPTIONS", "POST", "PUT", "DELETE", "GET"} - allowed:
            answer = client.request(method, path)
            assert answer.status_code == 405, (method, path)
            assert answer.headers["Allow"] == ", ".join(sorted(allowed))
            assert_is_problem(answer, code="DR4005")
            assert_has_headers(answer)


@pytest.mark.case("X88")
@pytest.mark.parametrize("path", ["/livez", "/readyz", "/openapi.json", "/schemas/job/v1.json"])
def test_public_paths_take_get_and_head(house: MemoryApiHouse, path: str) -> None:
    client = house.bearing(None)
    full, head = client.get(path), client.head(path)
    assert full.status_code == head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == full.headers["content-length"]
    assert_has_headers(head)
    assert client.post(path).headers["Allow"] == "GET, HEAD"


@pytest.mark.case("X88")
def test_head_is_get_without_the_body(house: MemoryApiHouse) -> None:
    ana = house.caller()
    declare(ana)
    for path in (
        "/api/v1/jobs",
        "/api/v1/jobs/ledger-vs-exports",
        "/api/v1/runs",
        "/api/v1/whoami",
    ):
        full, head = ana.get(path), ana.head(path)
        assert (head.status_code, head.content) == (200, b"")
        names = {"content-length", "content-type", "etag"}
        assert {name: head.headers.get(name) for name in names} == {
            name: full.headers.get(name) for name in names
        }
    missing = ana.head("/api/v1/jobs/nothing")
    assert (missing.status_code, missing.content) == (404, b"")
    assert ana.head("/api/v1/jobs/ledger-vs-exports/runs").status_code == 405


class Broken(MemoryUnitOfWork):
    """Fails on every call, like a defect."""

    error: Exception = RuntimeError("SELECT * FROM secrets at /srv/app; password=hunter2")

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[MemoryTransaction]:
        with super().begin(tenant, feed=feed, read_only=read_only):
            raise self.error
        yield  # type: ignore[unreachable]  # makes it a generator


class Defective(MemoryQueries):
    def runs(self, *_: object, **__: object) -> list[object]:  # type: ignore[override]  # fails before that
        raise Broken.error

    def run(self, *_: object, **__: object) -> None:
        raise Broken.error


@pytest.mark.case("X88", "U33")
def test_a_defect_on_any_route_reveals_nothing(
    house: MemoryApiHouse, logs: list[EventDict]
) -> None:
    key = house.key()
    broken = memory_api(
        unit=Broken(house.store), queries=Defective(house.store), finder=house.finder
    )
    broken.following.end()
    failed = 0
    for method, path in every_route(house):
        headers = {"If-Match": "*"}
        answer = broken.bearing(key).request(method, path, headers=headers)
        assert_has_headers(answer)
        if answer.status_code >= 400:
            assert_is_problem(answer, code=answer.json()["code"])
        failed += answer.status_code == 500
        for secret in ("hunter2", "SELECT", "/srv/app", "Traceback", "RuntimeError"):
            assert secret not in answer.text
        if answer.status_code == 500:
            assert answer.json()["code"] == "DR4090"
    assert failed >= 8
    assert len([one for one in logs if one["event"] == "request_failed"]) == failed


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailableError(cause="10.0.0.5:5432 refused"), "DR4091"),
        (RuntimeError("x"), "DR4090"),
    ],
)
def test_a_failure_of_the_store_is_reported_by_its_kind(
    house: MemoryApiHouse, error: Exception, code: str
) -> None:
    unit = Broken(house.store)
    unit.error = error
    broken = memory_api(unit=unit, finder=house.finder)
    answer = broken.bearing(house.key()).get("/api/v1/jobs")
    assert_is_problem(answer, code=code)
    assert "10.0.0.5" not in answer.text


def test_a_code_of_another_family_is_a_defect(house: MemoryApiHouse) -> None:
    class OddError(DatarecsError):
        code = StorageCode.BLOB_CONFLICT

    unit = Broken(house.store)
    unit.error = OddError("accounts/1/secret")
    broken = memory_api(unit=unit, finder=house.finder)
    answer = broken.bearing(house.key()).get("/api/v1/jobs")
    assert answer.json()["code"] == "DR4090"
    assert "accounts" not in answer.text


class TestIds:
    @pytest.mark.parametrize("sent", ["abc-1_2.3", 128 * "x"])
    def test_of_a_request_are_the_callers_where_they_are_safe(
        self, house: MemoryApiHouse, sent: str
    ) -> None:
        answer = house.bearing(None).get("/nothing", headers={"X-Request-Id": sent})
        assert answer.json()["request_id"] == sent

    @pytest.mark.parametrize("sent", ["", 129 * "x", "a b", "a;b", "caf\u00e9", "<x>"])
    def test_of_a_request_are_made_otherwise(self, house: MemoryApiHouse, sent: str) -> None:
        header = {b"X-Request-Id": sent.encode("latin-1")}
        answer = house.bearing(None).get("/nothing", headers=header)
        assert answer.json()["request_id"] == answer.json()["trace_id"]

    def test_of_a_trace_are_continued(self, house: MemoryApiHouse) -> None:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        header = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        answer = house.bearing(None).get("/nothing", headers=header)
        assert answer.json()["trace_id"] == trace

    @pytest.mark.parametrize("sent", ["x", "00-0-0-0", f"00-{32 * '0'}-00f067aa0ba902b7-01"])
    def test_of_a_trace_are_made_otherwise(self, house: MemoryApiHouse, sent: str) -> None:
        answer = house.bearing(None).get("/nothing", headers={"traceparent": sent})
        assert len(answer.json()["trace_id"]) == 32
        assert answer.json()["trace_id"].strip("0")


@pytest.mark.case("X85")
def test_no_answer_leads_to_a_host_that_the_caller_named(house: MemoryApiHouse) -> None:
    ana = house.caller()
    place = declare(ana)
    evil = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
    for method, path in (
        ("POST", f"{place}/runs"),
        ("GET", "/api/v1/jobs?limit=1"),
        ("GET", "/api/v1/nothing"),
        ("GET", "/api/v1/jobs/"),
    ):
        answer = ana.request(method, path, headers=evil, follow_redirects=False)
        assert "evil" not in answer.text + str(answer.headers)
        assert answer.headers.get("Location", "/").startswith("/")


@pytest.mark.case("X85")
@pytest.mark.parametrize(
    ("address", "headers", "is_sent"),
    [
        ("10.0.0.1", [("X-Forwarded-Proto", "https")], True),
        ("10.0.0.1", [("X-Forwarded-Proto", "http")], False),
        ("10.0.0.1", [("X-Forwarded-Proto", "https, http")], False),
        ("10.0.0.1", [("X-Forwarded-Proto", "https"), ("X-Forwarded-Proto", "http")], False),
        ("10.0.0.1", [("Forwarded", "proto=https"), ("X-Forwarded-Scheme", "https")], False),
        ("10.0.0.1", [], False),
        ("192.0.2.7", [("X-Forwarded-Proto", "https")], False),
        ("192.0.2.7", [("X-Forwarded-Proto", "https"), ("X-Forwarded-For", "10.0.0.1")], False),
    ],
)
def test_only_a_trusted_proxy_says_that_a_request_was_encrypted(
    address: str, headers: list[tuple[str, str]], *, is_sent: bool
) -> None:
    house = memory_api(trusted_proxies=(ip_network("10.0.0.0/8"),))
    for path in ("/api/v1/whoami", "/livez", "/nothing"):
        answer = house.bearing(None, address=address).get(path, headers=headers)
        sent = answer.headers.get("strict-transport-security")
        assert sent == ("max-age=31536000" if is_sent else None)


def test_no_answer_allows_another_origin_or_sets_a_cookie(house: MemoryApiHouse) -> None:
    ana = house.caller()
    for method in ("GET", "OPTIONS", "POST"):
        answer = ana.request(method, "/api/v1/whoami", headers={"Origin": "https://evil.example"})
        names = set(answer.headers)
        assert not {name for name in names if name.startswith("access-control-")}
        assert "set-cookie" not in names


def test_more_faults_than_anybody_reads_are_counted(house: MemoryApiHouse) -> None:
    ana = house.caller()
    place = declare(ana)
    answer = ana.post(f"{place}/runs", json={f"field{number}": 1 for number in range(300)})
    assert len(answer.json()["errors"]) == 100
    assert "300 faults" in answer.json()["detail"]


def test_a_hostile_field_name_is_shown_cut_and_escaped(house: MemoryApiHouse) -> None:
    ana = house.caller()
    place = declare(ana)
    answer = ana.post(f"{place}/runs", json={10_000 * "x": 1, "a\nb": 1})
    assert {len(one["pointer"]) <= 70 for one in answer.json()["errors"]} == {True}
    assert "\\n" in str([one["pointer"] for one in answer.json()["errors"]])


class TestCounting:
    def test_is_by_the_routes_template(self, house: MemoryApiHouse) -> None:
        ana = house.caller()
        place = declare(ana)
        ana.get(place)
        ana.head(f"{place}?namespace=default")
        ana.get("/api/v1/jobs/nothing")
        metrics = house.metrics
        route = "/api/v1/jobs/{name}"
        assert metrics.total("http_requests_total", route=route, method="GET", status="200") == 1
        assert metrics.total("http_requests_total", route=route, method="HEAD", status="200") == 1
        assert metrics.total("http_requests_total", route=route, method="GET", status="404") == 1
        assert metrics.times("http_request_seconds", route=route) >= 3

    def test_has_no_label_that_a_caller_invents(self, house: MemoryApiHouse) -> None:
        house.bearing(None).request("BREW", f"/coffee/{house.ids.new()}")
        counted = house.metrics.total(
            "http_requests_total", route="none", method="other", status="404"
        )
        assert counted == 1

    def test_reports_why_no_socket_was_admitted(self, house: MemoryApiHouse) -> None:
        house.bearing(f"drk_{12 * 'a'}_{43 * 'A'}").get("/api/v1/whoami")
        assert house.metrics.total("auth_failures_total", reason="unknown") == 1


def test_every_refusal_of_the_api_has_a_status() -> None:
    assert set(ApiCode) <= set(STATUS)


def test_a_socket_that_is_no_http_is_closed(house: MemoryApiHouse) -> None:
    with (
        pytest.raises(WebSocketDisconnect),
        house.caller().websocket_connect("/api/v1/runs"),
    ):
        pass
