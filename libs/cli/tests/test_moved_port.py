"""A database whose port moved at a restart: the demo's connection follows it."""

import json

import httpx
import pytest

from datarecs_cli.client import Api
from datarecs_cli.config import Access
from datarecs_cli.demo.moved_port import correct_port
from datarecs_core.errors.api import ApiCode
from datarecs_testing.scripted_api import API_KEY, SERVER, ScriptedApi

PATH = "/connections/demo-ledger"


def stored(**config: object) -> httpx.Response:
    spec = {"type": "postgres", "config": config, "auth": {"password": "file:/x"}}
    document = {"apiVersion": "datarecs.io/v1", "kind": "Connection", "spec": spec}
    return httpx.Response(200, json=document)


def corrected(server: ScriptedApi, port: int) -> bool:
    with server.in_place_of_the_network(), Api(Access(server=SERVER, api_key=API_KEY)) as api:
        return correct_port(api, port)


def test_the_connection_gets_the_port_and_preserves_everything_else() -> None:
    server = ScriptedApi()
    server.on("GET", PATH, lambda _: stored(host="127.0.0.1", port=54_329, database="demo"))
    server.on("PUT", PATH, lambda _: httpx.Response(200, json={"outcome": "configured"}))
    assert corrected(server, 54_330)
    (put,) = server.requests_to("PUT", PATH)
    spec = json.loads(put.content)["spec"]
    assert spec["config"] == {"host": "127.0.0.1", "port": 54_330, "database": "demo"}
    assert spec["auth"] == {"password": "file:/x"}


@pytest.mark.parametrize(
    "answer",
    [
        stored(host="127.0.0.1", port=54_330),
        stored(host="db.example", port=5432),
        httpx.Response(
            404,
            json={"code": ApiCode.NOT_FOUND.name, "title": "t", "detail": "d", "status": 404},
            headers={"content-type": "application/problem+json"},
        ),
    ],
    ids=["the same port", "another server", "no demo"],
)
def test_nothing_is_written_where_nothing_moved(answer: httpx.Response) -> None:
    server = ScriptedApi()
    server.on("GET", PATH, lambda _: answer)
    assert not corrected(server, 54_330)
    assert server.requests_to("PUT") == []
