"""The body reader: bounds first, then meaning; nothing hostile costs more than its length."""

import asyncio
import json
import time

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope
from structlog.typing import EventDict

from datarecs_core_api.body import MAX_DEPTH, MAX_SPEC_BYTES, parse_object
from datarecs_core_api.problems import STATUS, ProblemError
from datarecs_testing.api import MemoryApiHouse, declare, memory_api

JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


@pytest.fixture
def runs(ana: TestClient) -> str:
    return declare(ana) + "/runs"


def refused(body: bytes | str) -> int:
    """The status a body is refused with, in no time."""
    started = time.perf_counter()
    with pytest.raises(ProblemError) as refusal:
        parse_object(body.encode() if isinstance(body, str) else body)
    assert time.perf_counter() - started < 1
    return STATUS[refusal.value.code]


class TestJson:
    @pytest.mark.case("X26")
    @pytest.mark.parametrize(
        "body",
        [
            '{"a":1,"a":1}',
            '{"o":{"a":1,"\\u0061":2}}',
            '{"a":NaN}',
            '{"a":Infinity}',
            '{"a":-Infinity}',
            '{"a":' + 5_000 * "1" + "}",
            '{"a":' + 20 * "9" + "}",
            '{"a":0.' + 80 * "1" + "}",
            '{"a":"\\ud800"}',
            '{"\\udfff":1}',
            '{"a":[["\\udc00"]]}',
            "[]",
            "1",
            "null",
            '"text"',
            "{",
            '{"a":1}}',
            '{"a":1} {"b":2}',
            "{'a':1}",
            '{"a":01}',
            '{"a":.5}',
            '{"a":"tab\there"}',
            "//x\n{}",
        ],
    )
    def test_that_readers_could_disagree_about_is_400(self, body: str) -> None:
        assert refused(body) == 400

    @pytest.mark.case("X26")
    @pytest.mark.parametrize("number", ["1e400", "1E-400", "1e999999999999999999", "-2.5e+65"])
    def test_with_a_number_out_of_range_is_422(self, number: str) -> None:
        assert refused(f'{{"a":{number}}}') == 422

    @pytest.mark.case("X31")
    @pytest.mark.parametrize(
        "body",
        [b"\xef\xbb\xbf{}", '{"a":"x"}'.encode("utf-16"), b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}'],
    )
    def test_that_is_not_plain_utf_8_is_400(self, body: bytes) -> None:
        assert refused(body) == 400

    @pytest.mark.case("X23")
    @pytest.mark.parametrize(
        "body",
        [
            100_000 * "[",
            '{"a":' + 100_000 * "[" + 100_000 * "]" + "}",
            100_000 * '{"a":',
            '{"a":' + (MAX_DEPTH) * "[" + MAX_DEPTH * "]" + "}",
        ],
    )
    def test_nested_too_deep_is_400(self, body: str) -> None:
        assert refused(body) == 400

    @pytest.mark.parametrize(
        "body",
        ['"' + 500_000 * '\\"', '{"a":"' + 400_000 * "\\", 200_000 * '"\\', '{"' + 500_000 * "[{"],
    )
    def test_of_quotes_without_an_end_costs_no_more_than_its_length(self, body: str) -> None:
        assert refused(body) == 400

    def test_of_brackets_inside_a_text_is_flat(self) -> None:
        text = 200 * '[{\\"' + "\n"
        assert parse_object(json.dumps({"a": text}).encode()) == {"a": text}

    def test_at_every_limit_is_read(self) -> None:
        deep = '{"a":' + (MAX_DEPTH - 1) * "[" + (MAX_DEPTH - 1) * "]" + "}"
        assert parse_object(deep.encode())
        assert parse_object(b'{"a":9999999999999999999,"b":0.10,"c":1e64}')["a"] == 10**19 - 1

    def test_preserves_the_digits_of_a_fraction(self) -> None:
        assert str(parse_object(b'{"a":12345678901234567.890}')["a"]) == "12345678901234567.890"

    def test_of_nothing_is_an_empty_object(self) -> None:
        assert parse_object(b" \n") == {}


class TestTheType:
    @pytest.mark.case("X31")
    @pytest.mark.parametrize(
        "media",
        [
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
            "application/json; charset=utf-16",
            "application/json; charset=latin-1",
            "application/jsonp",
            "",
        ],
    )
    def test_of_another_kind_is_415(self, ana: TestClient, runs: str, media: str) -> None:
        answer = ana.post(runs, content=b"{}", headers={"Content-Type": media})
        assert (answer.status_code, answer.json()["code"]) == (415, "DR4002")

    @pytest.mark.case("X31")
    def test_missing_is_415(self, ana: TestClient, runs: str) -> None:
        assert ana.post(runs, content=b"{}").status_code == 415
        assert ana.post(runs, content=iter([b"{", b"}"])).status_code == 415
        assert ana.post(runs.removesuffix("/ledger-vs-exports/runs")).status_code == 415

    @pytest.mark.case("X22")
    @pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "gzip, identity"])
    def test_compressed_is_415(self, ana: TestClient, runs: str, encoding: str) -> None:
        answer = ana.post(runs, content=b"{}", headers={**JSON, "Content-Encoding": encoding})
        assert answer.status_code == 415

    @pytest.mark.parametrize("media", ["application/json; charset=UTF-8", "Application/JSON"])
    def test_may_declare_utf_8(self, ana: TestClient, runs: str, media: str) -> None:
        answer = ana.post(runs, content=b"{}", headers={"Content-Type": media})
        assert answer.status_code == 202

    def test_is_not_required_of_a_request_without_a_body(self, ana: TestClient, runs: str) -> None:
        assert ana.post(runs).status_code == 202
        assert ana.post(runs, headers=JSON).status_code == 202


def status_of_upload(house: MemoryApiHouse, path: str, receive: Receive, **headers: str) -> int:
    """The status for a body that arrives as the server hands it on, chunk by chunk."""
    key = house.key()
    named = {"authorization": f"Bearer {key}", "content-type": "application/json", **headers}
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        "client": ("192.0.2.7", 50_000),
        "server": ("api.test", 80),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }
    said: list[Message] = []

    async def send(message: Message) -> None:
        said.append(message)

    asyncio.run(house.app(scope, receive, send))
    return int(said[0]["status"])


class TestTheSize:
    @pytest.mark.case("X22")
    def test_announced_too_large_is_refused_before_a_byte_is_read(
        self, house: MemoryApiHouse, runs: str
    ) -> None:
        async def never() -> Message:
            raise AssertionError("the body was asked for")

        status = status_of_upload(house, runs, never, **{"content-length": str(MIB + 1)})
        assert status == 413

    @pytest.mark.case("X22")
    def test_without_a_length_is_cut_at_the_limit(self, house: MemoryApiHouse, runs: str) -> None:
        chunks = 0

        async def endless() -> Message:
            nonlocal chunks
            chunks += 1
            return {"type": "http.request", "body": 64 * 1024 * b" ", "more_body": True}

        status = status_of_upload(house, runs, endless, **{"transfer-encoding": "chunked"})
        assert (status, chunks) == (413, MIB // (64 * 1024) + 1)

    def test_of_a_client_that_leaves_is_nobodys_fault(
        self, house: MemoryApiHouse, runs: str, logs: list[EventDict]
    ) -> None:
        async def leaves() -> Message:
            return {"type": "http.disconnect"}

        with pytest.raises(IndexError):  # nothing was answered
            status_of_upload(house, runs, leaves, **{"transfer-encoding": "chunked"})
        assert logs == []

    def test_of_a_declaration_has_a_separate_limit(self, ana: TestClient) -> None:
        padded = b"{" + MAX_SPEC_BYTES * b" " + b"}"
        answer = ana.post("/api/v1/jobs", content=padded, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (413, "DR4003")
        yaml = {"Content-Type": "application/yaml"}
        assert ana.post("/api/v1/jobs", content=padded, headers=yaml).status_code == 413

    def test_at_the_limit_is_read(self, ana: TestClient, runs: str) -> None:
        padded = b"{}" + (MIB - 2) * b" "
        assert ana.post(runs, content=padded, headers=JSON).status_code == 202


def test_only_signed_in_callers_are_read(house: MemoryApiHouse, runs: str) -> None:
    nobody = house.bearing(None)
    answer = nobody.post(runs, content=2 * MIB * b"[", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 401
