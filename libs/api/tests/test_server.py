"""`datarecs.Client`: runs of a server, started, awaited, cancelled and read."""

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from unittest.mock import patch

import httpx
import pytest

import datarecs
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.client import ClientCode
from datarecs_testing.api import declare, memory_api
from datarecs_testing.scripted_api import (
    API_KEY,
    JOB_ID,
    RUN_ID,
    SERVER,
    ScriptedApi,
    a_run_view,
    a_whole_stream,
    an_entry,
    refuses,
    says,
    streams,
)

RUN, EVENTS, CANCEL = f"/runs/{RUN_ID}", f"/runs/{RUN_ID}/events", f"/runs/{RUN_ID}/cancel"
TRIGGER = "/jobs/orders/runs"
ENDED = a_run_view(status="COMPLETED", result="UNMATCHED", last_sequence=1)
OUTSIDE = {
    "stage": "rows",
    "break_id": "b1",
    "key": {"id": "2"},
    "measure": "amount",
    "class": "OUTSIDE",
    "values": {"ledger": "20", "exports": "19.5"},
    "deltas": {"exports": "-0.5"},
    "delta_percent": {"exports": "-2.5"},
}


@pytest.fixture
def server() -> Iterator[ScriptedApi]:
    api = ScriptedApi()
    api.on("POST", TRIGGER, says(a_run_view(status="TRIGGERED"), 202))
    with api.in_place_of_the_network():
        yield api


@pytest.fixture
def client(server: ScriptedApi) -> Iterator[datarecs.Client]:
    assert not server.requests
    with datarecs.Client(SERVER, API_KEY) as client:
        yield client


def test_a_run_is_started_with_its_parameters(server: ScriptedApi, client: datarecs.Client) -> None:
    run = client.trigger("orders", {"day": "2026-01-31"}, namespace="books", key="nightly-31")
    [request] = server.requests
    assert (run.id, run.job, run.status, run.verdict) == (RUN_ID, "orders", "TRIGGERED", None)
    assert not run.has_ended
    assert json.loads(request.content) == {"parameters": {"day": "2026-01-31"}}
    assert request.headers["idempotency-key"] == "nightly-31"
    assert request.url.params["namespace"] == "books"


def test_waiting_returns_the_run_at_its_end(server: ScriptedApi, client: datarecs.Client) -> None:
    server.on("GET", EVENTS, a_whole_stream(an_entry(1, "run.triggered"), run=ENDED))
    server.on("GET", RUN, says(ENDED))
    run = client.wait(client.trigger("orders"))
    assert (run.status, run.verdict, run.has_ended) == ("COMPLETED", "UNMATCHED", True)
    assert run.fields == ENDED


def test_waiting_ends_at_its_timeout(server: ScriptedApi, client: datarecs.Client) -> None:
    server.on("GET", EVENTS, streams(b": ping\n\n"))
    with pytest.raises(datarecs.DatarecsError, match=r"had not ended after 0\.1 s") as late:
        client.wait(RUN_ID, timeout=0.1)
    assert late.value.code is ClientCode.WAITED_TOO_LONG
    assert f"datarecs watch {RUN_ID}" in late.value.fix


def test_cancelling_a_run_that_has_ended_changes_nothing(
    server: ScriptedApi, client: datarecs.Client
) -> None:
    server.on(
        "POST",
        CANCEL,
        says(a_run_view(status="CANCELLED"), 202),
        refuses(409, ApiCode.RUN_ALREADY_TERMINAL),
    )
    server.on("GET", RUN, says(ENDED))
    assert client.cancel(RUN_ID, reason="wrong day").status == "CANCELLED"
    assert client.cancel(RUN_ID).status == "COMPLETED"
    assert json.loads(server.requests[0].content) == {"reason": "wrong day"}


def test_differences_have_the_columns_of_a_local_comparison(
    server: ScriptedApi, client: datarecs.Client
) -> None:
    server.on("GET", RUN, says(ENDED))
    server.on(
        "GET",
        "/jobs/orders",
        says({"spec": {"sources": [{"name": "ledger"}, {"name": "exports"}]}}),
    )
    server.on("GET", f"{RUN}/mismatches", says({"items": [OUTSIDE], "next": None}))
    [row] = client.differences(RUN_ID).to_pylist()
    present = {name: value for name, value in row.items() if value is not None}
    assert present == {
        "stage": "rows",
        "key.id": "2",
        "measure": "amount",
        "class": "OUTSIDE",
        "value.ledger": "20",
        "value.exports": "19.5",
        "delta.exports": "-0.5",
        "delta_percent.exports": "-2.5",
        "break_id": "b1",
    }


def test_a_run_without_a_result_has_no_differences(
    server: ScriptedApi, client: datarecs.Client
) -> None:
    server.on("GET", RUN, says(a_run_view(status="ERRORED")))
    with pytest.raises(datarecs.ArgumentError, match="is ERRORED and has no result"):
        client.differences(RUN_ID)


def test_a_refusal_has_the_code_of_the_server(server: ScriptedApi, client: datarecs.Client) -> None:
    server.on("POST", TRIGGER, refuses(404, ApiCode.NOT_FOUND, detail="no job orders"))
    with pytest.raises(datarecs.DatarecsError, match="no job orders") as refused:
        client.trigger("orders")
    assert refused.value.code is ApiCode.NOT_FOUND
    assert refused.value.fix == "List the existing ones with `datarecs get jobs`."


def test_a_key_is_sent_only_over_https() -> None:
    with pytest.raises(datarecs.DatarecsError) as refused:
        datarecs.Client("http://datarecs.example.com", API_KEY)
    assert refused.value.code is ClientCode.SERVER_NOT_TRUSTED


def test_the_real_api_starts_and_cancels_a_run() -> None:
    house = memory_api()
    caller, key = house.caller(), house.key()
    job = PurePosixPath(declare(caller)).name

    def answer(request: httpx.Request) -> httpx.Response:
        path, headers = request.url.raw_path.decode(), dict(request.headers)
        sent = caller.request(request.method, path, headers=headers, content=request.content)
        media = {"content-type": sent.headers["content-type"]}
        return httpx.Response(sent.status_code, headers=media, content=sent.content)

    transport = httpx.MockTransport(answer)
    with (
        patch("httpx._client.HTTPTransport", lambda **_: transport),
        datarecs.Client(SERVER, key) as client,
    ):
        started = client.trigger(job, key="once")
        assert client.trigger(job, key="once").id == started.id
        assert (started.job, started.status) == (job, "TRIGGERED")
        cancelled = client.cancel(started, reason="wrong day")
        assert cancelled.id == started.id
        assert cancelled.fields["cancel_reason"] == "wrong day"
        with pytest.raises(datarecs.ArgumentError, match="has no result"):
            client.differences(started)
        with pytest.raises(datarecs.DatarecsError) as refused:
            client.cancel(JOB_ID)
        assert refused.value.code is ApiCode.NOT_FOUND
