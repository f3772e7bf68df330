"""Tables and queries of PostgreSQL, and objects in a store, as sources of `datarecs.compare`."""

from pathlib import Path

import pandas as pd
import psycopg
import pytest

import datarecs
from datarecs_cli.main import run
from datarecs_core.errors.run import RunDetail
from datarecs_testing.object_store import ADMIN, ObjectServer
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration


@pytest.fixture
def fields(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """A database with `entries` and its address in parts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(admin, autocommit=True) as session:
        session.execute("CREATE TABLE entries (id bigint, amount numeric(12,2), day date)")
        session.execute(
            "INSERT INTO entries SELECT i, i + 0.25, '2026-01-31' FROM generate_series(1, 5) AS i"
        )
    parts = psycopg.conninfo.conninfo_to_dict(admin)
    return {name: str(parts[name]) for name in ("user", "password", "port", "dbname")}


def address_of(fields: dict[str, str], **changes: str) -> str:
    form = "postgresql://{user}:{password}@127.0.0.1:{port}/{dbname}?sslmode=disable"
    return form.format(**{**fields, **changes})


FRAME = pd.DataFrame({"id": [1, 2, 3, 4, 6], "amount": [1.25, 2.25, 3.25, 4.5, 6.25]})


def test_a_table_is_compared_with_a_frame(fields: dict[str, str]) -> None:
    entries = datarecs.source(address_of(fields), table="public.entries")
    comparison = datarecs.compare(entries, FRAME, key="id", measures="amount")
    assert comparison.counts == datarecs.Counts(compared=6, matched=3, outside=1, missing=2)
    assert "value.entries" in comparison.differences().column_names


def test_an_address_with_its_table_needs_no_call(fields: dict[str, str]) -> None:
    address = f"{address_of(fields)}&table=entries"
    query = datarecs.source(address_of(fields), query="SELECT * FROM entries WHERE id < 6")
    assert datarecs.compare(address, query, key="id").is_matched


def test_no_file_of_the_result_has_the_password(
    fields: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    address = f"{address_of(fields)}&table=entries"
    comparison = datarecs.compare(address, FRAME, key="id", measures="amount", out="api")
    FRAME.to_csv("frame.csv", index=False)
    words = ["compare", address, "frame.csv", "--key", "id", "--measure", "amount"]
    assert run([*words, "--out", "cli"]) == 1
    written = [
        path.read_bytes()
        for top in ("api", "cli")
        for path in Path(top).rglob("*")
        if path.is_file()
    ]
    shown = f"{comparison!r} {comparison} {comparison.run_json} {capfd.readouterr()}"
    assert len(written) == 6
    assert not any(fields["password"].encode() in text for text in [*written, shown.encode()])
    assert f"postgresql://{fields['user']}@127.0.0.1:{fields['port']}" in shown


@pytest.mark.parametrize(
    ("changes", "table", "code", "message"),
    [
        ({"password": "wr0ng-word"}, "entries", RunDetail.CONNECTION_FAILED, "refused the login"),
        ({"password": ""}, "entries", RunDetail.CONNECTION_FAILED, "needs a password for user"),
        ({"dbname": "nothing"}, "entries", RunDetail.CONNECTION_FAILED, "has no database"),
        ({}, "nothing", RunDetail.QUERY_ERROR, "nothing"),
    ],
)
def test_what_the_server_refuses_is_an_error_without_the_password(
    fields: dict[str, str], changes: dict[str, str], table: str, code: RunDetail, message: str
) -> None:
    entries = datarecs.source(address_of(fields, **changes), table=table)
    with pytest.raises(datarecs.DatarecsError, match=message) as refused:
        datarecs.compare(entries, FRAME, key="id")
    assert refused.value.code is code
    password = changes.get("password") or fields["password"]
    assert password not in "\n".join([str(refused.value), *refused.value.__notes__])


def test_the_same_table_name_in_two_databases_has_two_names(
    fields: dict[str, str], postgres_server: PostgresServer
) -> None:
    other = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(other, autocommit=True) as session:
        session.execute("CREATE TABLE entries (id bigint, amount numeric(12,2), day date)")
    parts = {k: str(v) for k, v in psycopg.conninfo.conninfo_to_dict(other).items()}
    comparison = datarecs.compare(
        datarecs.source(address_of(fields), table="entries"),
        datarecs.source(address_of({**fields, **parts}), table="entries"),
        key="id",
    )
    assert comparison.counts.missing == 5


def test_objects_of_a_store_are_compared_with_a_frame(
    object_server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _, secret = ADMIN.partition(":")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_server.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    bucket = object_server.create_folder()
    FRAME.to_parquet(tmp_path / "frame.parquet", index=False)
    object_server.client(bucket).put("exports/frame.parquet", tmp_path / "frame.parquet")
    comparison = datarecs.compare(FRAME, f"s3://{bucket}/exports/frame.parquet", key="id")
    assert comparison.is_matched
    assert secret not in f"{comparison.run_json}"
