"""custom_sql from job file to verdict: queries over one PostgreSQL server, in its snapshot."""

import json
from pathlib import Path

import psycopg
import pytest

from datarecs_cli.main import run
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]
ROWS = """
CREATE TABLE gl (id bigint, owner text, amount numeric(12,2));
CREATE TABLE lake (id bigint, who text, total numeric(12,2));
INSERT INTO gl VALUES (1, 'ana', 1.10), (2, 'ana', 2.20), (3, 'bo', 5);
INSERT INTO lake VALUES (1, 'ana', 3.30), (2, 'bo', 5.01), (3, 'cy', 0);
"""
JOB = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: pg}}
spec:
  type: postgres
  config: {{host: 127.0.0.1, port: {port}, database: {dbname}, user: {user}, sslmode: disable}}
  auth: {{password: "env:CUSTOM_SQL_PASSWORD"}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: control}}
spec:
  parameters: {{least: {{type: decimal, default: "0"}}}}
  sources:
    - {{name: ledger, kind: postgres, connection: pg, relation: public.gl}}
    - {{name: lake, kind: postgres, connection: pg, relation: public.lake}}
  stages:
    - name: control-total
      type: custom_sql
      dimensions: [k]
      measures: [{{name: t, tolerances: [{{type: ABSOLUTE, value: {limit}}}]}}]
      queries:
        ledger: "select owner k, sum(amount)::numeric(14,2) t from gl group by owner -- totals"
        lake: "select who k, sum(total) t from lake where total > :least group by who"
    - {{name: counts, type: counts}}
  execution: {{proof: rows}}
"""


@pytest.fixture
def job(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(admin, autocommit=True) as session:
        session.execute(ROWS)
    fields = psycopg.conninfo.conninfo_to_dict(admin)
    monkeypatch.setenv("CUSTOM_SQL_PASSWORD", str(fields["password"]))
    return {name: str(fields[name]) for name in ("port", "dbname", "user")}


@pytest.mark.parametrize(("limit", "result"), [("0.01", "MATCHED"), ("0", "UNMATCHED")])
def test_answers_of_custom_queries_are_compared(
    job: dict[str, str], capsys: Shown, limit: str, result: str
) -> None:
    Path("job.yaml").write_text(JOB.format(limit=limit, **job))
    run(["compare", "job.yaml", "--out", "kept", "-o", "json"])
    stage, counts = json.loads(capsys.readouterr().out)["stages"]
    assert (stage["name"], stage["result"]) == ("control-total", result)
    assert stage["counts"]["source_row_counts"] == {"source_0": 2, "source_1": 2}
    assert stage["counts"]["matched_groups"] == 2
    assert "total > 0 group by" in stage["question"]["queries"]["lake"]
    assert counts["counts"]["source_row_counts"] == {"source_0": 3, "source_1": 3}
    closure = json.loads(Path("kept/run.json").read_text())["proof"]["sources"][0]["closure"]
    assert closure["extracted"] == 3
    assert run(["verify", "kept"]) == 0


def test_a_plan_shows_every_query_and_what_it_returns(job: dict[str, str], capsys: Shown) -> None:
    Path("job.yaml").write_text(JOB.format(limit="0", **job))
    assert run(["plan", "job.yaml"]) == 0
    output = capsys.readouterr().out
    assert "query      ledger: select owner k, sum(amount)" in output
    assert 'sql        SELECT "amount" FROM "public"."gl"' in output
    assert "parallel   one reader" in output


def test_a_query_that_returns_a_key_twice_ends_without_a_verdict(
    job: dict[str, str], capsys: Shown
) -> None:
    twice = JOB.replace("sum(amount)::numeric(14,2) t from gl group by owner", "amount t from gl")
    Path("job.yaml").write_text(twice.format(limit="0", **job))
    assert run(["compare", "job.yaml"]) == 3
    assert "DR3026 stage control-total: source ledger" in capsys.readouterr().err
