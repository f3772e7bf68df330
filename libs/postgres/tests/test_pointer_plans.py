"""The statements of the catalogue read its indexes, also beside 300,000 other pointers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, LiteralString

import pytest
from sqlalchemy import Engine, event

from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Applied, Check, Op, Pointer, Upsert
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration

TABLES, FILES = 30, 5_000
"""Of each of two tenants; one record of 200 expires."""
FILL: LiteralString = """
INSERT INTO datarecs.pointer (tenant_id, key, blob_key, expires_at, version)
SELECT n.tenant_id, '/accounts/' || n.tenant_id || '/tables/' || n.place || '/file-stats/1/'
    || f.number, 'accounts/blob', CASE WHEN f.number %% 200 = 0 THEN now() + interval '1 day' END, 1
FROM (SELECT t.tenant_id, lpad(p::text, 4, '0') AS place
    FROM datarecs.tenant t CROSS JOIN generate_series(1, %s) p) n
CROSS JOIN generate_series(1, %s) AS f (number)
"""
Plan = Mapping[str, Any]


@pytest.mark.case("S56")
class TestPlans:
    @pytest.fixture
    def full(self, stores: Stores, database: PreparedDatabase) -> Stores:
        database.query(FILL, (TABLES, FILES))
        database.query("VACUUM ANALYZE datarecs.pointer")
        ((rows,),) = database.query("SELECT count(*) FROM datarecs.pointer")
        assert rows == 2 * TABLES * FILES
        return stores

    def test_a_key_a_page_and_a_count_read_the_primary_key(self, full: Stores) -> None:
        prefix = _files(17)
        keys = [f"{prefix}{number}" for number in range(1, 129)]
        with full.capture.unit.begin(A_TENANT) as tx, _plans() as plans:
            assert tx.pointers.get(keys[0]) is not None
            assert len(tx.pointers.get_many(keys)) == len(keys)
            page = tx.pointers.list(prefix, limit=500)
            after = tx.pointers.list(prefix, limit=500, token=page.token)
            assert tx.pointers.count(prefix, cap=10_000) == FILES
        assert len(after.pointers) == 500
        assert len(plans) == 5
        for plan in plans:
            assert _indexes(plan) == {"pointer_pkey"}
            assert "Sort" not in _nodes(plan)

    def test_a_batch_reads_the_primary_key(self, full: Stores) -> None:
        new = Pointer(key=f"{_files(17)}new", blob_key="accounts/blob", resource_id=an_id())
        present = f"{_files(17)}1"
        with full.capture.unit.begin(A_TENANT) as tx, _plans() as plans:
            ops: list[Op] = [Upsert(next=new, expected=0), Check(key=present, expected=1)]
            assert isinstance(tx.pointers.batch(ops), Applied)
        assert [_indexes(plan) for plan in plans] == [{"pointer_pkey"}]

    def test_deletions_read_the_key_or_the_expiry(
        self, full: Stores, database: PreparedDatabase
    ) -> None:
        with full.capture.unit.begin(A_TENANT) as tx, _plans() as plans:
            assert tx.pointers.delete_prefix(_files(17), limit=500) == 500
        assert [_indexes(plan) for plan in plans] == [{"pointer_pkey"}]
        full.pass_time(timedelta(days=2))
        database.query("VACUUM ANALYZE datarecs.pointer")
        with full.capture.unit.begin(A_TENANT) as tx, _plans() as plans:
            assert tx.pointers.delete_expired(limit=500) == 500
        assert [_indexes(plan) for plan in plans] == [{"pointer_pkey", "pointer_expiry"}]


def _files(place: int) -> str:
    return f"{layout.account_pointer(A_TENANT)}/tables/{place:04}/file-stats/1/"


@contextmanager
def _plans() -> Iterator[list[Plan]]:
    """Plans of the statements on pointers in this block, each made as its statement runs."""
    plans: list[Plan] = []

    def explain(*called: Any) -> None:  # noqa: ANN401  of SQLAlchemy's event
        _, cursor, statement, parameters, *_ = called
        if "datarecs.pointer" in statement and not statement.startswith("INSERT"):
            explained = cursor.connection.execute(
                f"EXPLAIN (FORMAT JSON) {statement}", parameters, prepare=False
            )
            plans.append(explained.fetchone()[0][0]["Plan"])

    event.listen(Engine, "before_cursor_execute", explain)
    try:
        yield plans
    finally:
        event.remove(Engine, "before_cursor_execute", explain)


def _all(plan: Plan) -> Iterator[Plan]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _all(below)


def _nodes(plan: Plan) -> set[str]:
    return {one["Node Type"] for one in _all(plan)}


def _indexes(plan: Plan) -> set[str]:
    """The indexes by which the table is read; nothing reads it whole."""
    assert "Seq Scan" not in _nodes(plan)
    return {one["Index Name"] for one in _all(plan) if "Index Name" in one}
