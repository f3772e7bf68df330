"""A cancel during a database query of a run: the query ends within seconds."""

import json
import time
import tomllib
from typing import Any, LiteralString

import psycopg
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WITHIN_S = 4.0
"""The request's way to the worker, and two seconds from there."""
WORKING: LiteralString = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'datarecs'"
    " AND state = 'active' AND query ~ 'slow'"
)
JOB = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: slow}}
spec:
  type: postgres
  config: {{host: 127.0.0.1, port: {port}, database: slow, user: stack, sslmode: prefer}}
  auth: {{password: "file:{secret}"}}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: here}}
spec: {{type: files, config: {{root: .}}}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: slow}}
spec:
  sources:
    - {{name: one, kind: postgres, connection: slow, relation: public.slow}}
    - {{name: two, kind: csv, connection: here, path: two.csv}}
  stages:
    - {{name: rows, type: row, dimensions: [id], measures: "*"}}
"""


@pytest.mark.case("L27")
def test_a_cancel_ends_the_query_of_a_source_and_the_run(platform: Any) -> None:  # noqa: ANN401  of the fixture
    home = platform.folder / ".datarecs"
    port = json.loads((home / "state.json").read_text())["ports"]["postgres"]
    tenant = tomllib.loads((home / "credentials.toml").read_text())["local"]["tenant_id"]
    password = (home / "secrets/postgres-stack").read_text()
    secret = home / "tenant-secrets" / tenant / "slow"
    secret.parent.mkdir(mode=0o700, exist_ok=True)
    secret.write_text(password)
    server = f"host=127.0.0.1 port={port} user=stack password={password}"
    with psycopg.connect(f"{server} dbname=postgres", autocommit=True) as session:
        session.execute("CREATE DATABASE slow")
    with psycopg.connect(f"{server} dbname=slow", autocommit=True) as session:
        session.execute("CREATE VIEW slow AS SELECT 1 AS id, 1.1 AS amount FROM pg_sleep(3600)")
        platform.write("two.csv", "id,amount\n1,1.1\n")
        platform.apply("slow.yaml", JOB.format(port=port, secret=secret))
        run_id = platform.trigger("slow")
        until(session, 1, within_s=90)
        began = time.monotonic()
        assert platform.client.post(f"/api/v1/runs/{run_id}/cancel", json={}).status_code == 202
        until(session, 0, within_s=WITHIN_S)
        took = time.monotonic() - began
        run = platform.ended(run_id)
    assert run["status"] == "CANCELLED"
    assert took < WITHIN_S


def until(session: psycopg.Connection[Any], count: int, *, within_s: float) -> None:
    ends = time.monotonic() + within_s
    while (rows := session.execute(WORKING).fetchall()) != [(count,)]:
        assert time.monotonic() < ends, f"{rows} reads at work, not {count}"
        time.sleep(0.05)  # noqa: TID251  another process's state has no signal here
