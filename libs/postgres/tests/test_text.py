"""The parts that need no server: URLs, JSON digit for digit, named statements, shards, the page."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_postgres import docs, json_text
from datarecs_postgres.failures import sqlstate
from datarecs_postgres.function_rights import FUNCTIONS
from datarecs_postgres.outbox import hash_of
from datarecs_postgres.rls import TABLES
from datarecs_postgres.roles import LOGINS, short_name
from datarecs_postgres.run_rows import DEFAULTS
from datarecs_postgres.statements import statement
from datarecs_postgres.tables import METADATA
from datarecs_postgres.tables.delivery import SHARDS
from datarecs_postgres.tables.runs import RUN
from datarecs_postgres.urls import conninfo, engine_url

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


class TestUrls:
    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://u:p@127.0.0.1:5432/d",
            "postgres://u:p@127.0.0.1:5432/d",
            "postgresql+psycopg://u:p@127.0.0.1:5432/d",
        ],
    )
    def test_every_spelling_names_the_driver(self, url: str) -> None:
        assert engine_url(url).drivername == "postgresql+psycopg"
        assert conninfo(url) == "postgresql://u:p@127.0.0.1:5432/d"
        assert conninfo(url, database="e").endswith("/e")

    def test_another_database_is_refused(self) -> None:
        with pytest.raises(ValueError, match="starts with postgresql://"):
            engine_url("sqlite:///file")


class TestJson:
    @given(JSON)
    def test_what_is_written_is_read_back(self, value: object) -> None:
        assert json_text.read(json_text.write(value)) == value

    def test_digits_are_preserved(self) -> None:
        text = json_text.write({"a": Decimal("0.010"), "b": Decimal("12345678901234567.89")})
        assert text == '{"a":0.010,"b":12345678901234567.89}'
        assert str(json_text.read("[1E-18]")) == "[Decimal('1E-18')]"

    def test_tuples_are_lists(self) -> None:
        assert json_text.write((1, ("a",))) == '[1,["a"]]'

    @pytest.mark.parametrize("value", [0.5, b"x", {1, 2}, object()])
    def test_what_has_no_form_is_refused(self, value: object) -> None:
        with pytest.raises(TypeError):
            json_text.write([value])

    @pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
    def test_no_number_is_infinite(self, text: str) -> None:
        with pytest.raises(ValueError, match="finite"):
            json_text.write(Decimal(text))


class TestStatements:
    def test_a_statement_is_read_by_its_name(self) -> None:
        assert "pg_policies" in str(statement("schema_check", "policies"))

    def test_an_unknown_name_is_an_error(self) -> None:
        with pytest.raises(KeyError):
            statement("schema_check", "nothing")


class TestPages:
    def test_the_page_names_every_table_column_and_role(self) -> None:
        page = docs.page()
        for table in METADATA.tables.values():
            assert f"### {table.name}\n" in page
            assert all(column.doc for column in table.columns), table.name
        assert all(f"`{role}`" in page for role in LOGINS)

    def test_the_page_is_printed_or_written(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert docs.main([]) == 0
        target = tmp_path / "database.md"
        assert docs.main([str(target)]) == 0
        assert target.read_text() == capsys.readouterr().out

    def test_every_table_has_its_rights_and_every_right_its_table(self) -> None:
        named = {access.table for access in TABLES}
        assert named == {table.name for table in METADATA.tables.values()}

    def test_a_tenants_table_starts_every_key_with_the_tenant(self) -> None:
        for access in TABLES:
            if access.tenant:
                key = METADATA.tables[f"datarecs.{access.table}"].primary_key
                assert next(iter(key)).name == "tenant_id"

    def test_granted_columns_exist(self) -> None:
        for access in TABLES:
            columns = set(METADATA.tables[f"datarecs.{access.table}"].columns.keys())
            for grant in access.grants:
                assert set(grant.columns) <= columns, (access.table, grant.role)

    def test_doors_are_named_once(self) -> None:
        names = [function.name for function in FUNCTIONS]
        assert len(names) == len(set(names))


class TestRows:
    def test_columns_that_an_insert_leaves_out_have_the_same_default(self) -> None:
        for name, value in DEFAULTS.items():
            default = RUN.c[name].server_default
            text = "" if default is None else str(getattr(default, "arg", ""))
            spelt = "" if value is None else json_text.write(value)
            assert text.split("::")[0].strip("'") == spelt.strip('"'), name

    def test_a_key_stays_in_its_shard(self) -> None:
        assert [hash_of(key) % SHARDS for key in ("a", "b", "0198c0de")] == [3, 9, 9]
        assert {hash_of(str(n)) % SHARDS for n in range(500)} == set(range(SHARDS))

    def test_policies_are_named_after_the_role(self) -> None:
        assert short_name("datarecs_worker_run") == "worker_run"

    def test_a_failure_without_a_state_has_none(self) -> None:
        assert sqlstate(ValueError()) is None
