"""`catalog ls`, `cat` and `verify` over the API."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_testing.scripted_api import ScriptedApi, refuses, says, written_credentials

TABLE = "019bc000-0000-7000-8000-0000000eeeee"
POINTER = f"/accounts/a/tables/by-id/{TABLE}"
BLOB = f"accounts/a/tables/{TABLE}/table/{'a' * 64}.pb"
FAULT = {
    "pointer": POINTER,
    "blob_key": BLOB,
    "code": "BLOB_CORRUPT",
    "message": f"blob {BLOB} is damaged",
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    scripted = ScriptedApi()
    with scripted.in_place_of_the_network():
        yield scripted


def pointer(number: int) -> dict[str, object]:
    return {
        "key": f"{POINTER}{number}",
        "pointer_version": number,
        "blob_key": None,
        "resource_id": None,
        "expires_at": None,
    }


def test_keys_are_listed(server: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    page = {"items": [pointer(1), pointer(2)], "next": None}
    server.on("GET", "/catalog/pointers", says(page), says(page), says(page))
    assert run(["catalog", "ls", "tables/"]) == 0
    assert f"{POINTER}2" in capsys.readouterr().out
    assert run(["catalog", "ls", "-o", "name"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{POINTER}1", f"{POINTER}2"]
    assert run(["catalog", "ls", "--limit", "1"]) == 0
    printed = capsys.readouterr()
    assert f"{POINTER}2" not in printed.out
    assert "--limit 10 lists more" in printed.err


def test_an_unknown_name_leads_to_the_list_of_the_catalogue(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/catalog/resolve", refuses(404, ApiCode.NOT_FOUND))
    assert run(["catalog", "verify", "lake.sales.orders"]) == 2
    error = capsys.readouterr().err
    assert "`datarecs catalog ls`" in error
    assert "get jobs" not in error


def test_a_record_is_printed(server: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"pointer": None, "payload": None, "kind": "Table", "record": {"name": "orders"}}
    server.on("GET", "/catalog/record", says(entry), says(entry))
    assert run(["catalog", "cat", POINTER]) == 0
    assert "name: orders" in capsys.readouterr().out
    assert run(["catalog", "cat", POINTER, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["kind"]) == ("datarecs.cli.catalog.cat/1", "Table")
    assert run(["catalog", "cat", POINTER, "-o", "csv"]) == 2


@pytest.mark.case("S18")
def test_damage_is_named_and_ends_with_3(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    first: dict[str, object] = {"items": [], "next": "more", "checked": 200}
    last: dict[str, object] = {"items": [FAULT], "next": None, "checked": 7}
    server.on("GET", "/catalog/faults", says(first), says(last), says(first), says(last))
    assert run(["catalog", "verify"]) == 3
    out, err = capsys.readouterr()
    assert POINTER in out
    assert BLOB in out
    assert "207 keys, 1 of them damaged" in err
    assert run(["catalog", "verify", "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["items"] == [FAULT]


def test_an_intact_table_is_verified_by_name_or_id(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    intact: dict[str, object] = {"items": [], "next": None, "checked": 9}
    server.on("GET", "/catalog/faults", says(intact), says(intact))
    server.on(
        "GET",
        "/catalog/resolve",
        says({"kind": "table", "id": TABLE}),
        says({"kind": "view", "id": TABLE}),
    )
    assert run(["catalog", "verify", TABLE]) == 0
    assert run(["catalog", "verify", "lake.sales.orders"]) == 0
    assert "9 keys, all of them intact" in capsys.readouterr().err
    assert run(["catalog", "verify", "lake.sales.view"]) == 2
    assert "is a view" in capsys.readouterr().err
