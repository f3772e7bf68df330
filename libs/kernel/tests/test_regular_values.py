"""Texts that a cast makes UUIDs: SQL prepares all that core reads, so none of them costs Python."""

from dataclasses import replace

import duckdb

from datarecs_core.comparison.values.forms import read_uuid
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_kernel.base_columns import BaseColumn
from datarecs_kernel.forms import TEXT
from datarecs_kernel.layout import PlainColumns, layout_of
from datarecs_kernel.regular_values import regular_values
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, pair, plan_of

PLAIN = "0f8fad5b-d9cb-469f-a165-70867728950e"
TEXTS = [PLAIN, PLAIN.upper(), PLAIN.replace("-", ""), PLAIN[1:], f"{PLAIN}0", f" {PLAIN}", ""]
TEXTS += [f"{PLAIN}\n", f"{{{PLAIN}}}", PLAIN.replace("0", "g"), PLAIN.replace("0", "\u0660")]
KIND = CanonicalType(kind=TypeKind.UUID)


def test_sql_prepares_exactly_the_texts_that_core_reads_as_uuid() -> None:
    tables = pair("k text, v text", [], [])
    job = a_job(tables, rows_by("k", a_measure("v")))
    sources = tuple(replace(each, cast={"k": KIND, "v": KIND}) for each in job.sources)
    stage = plan_of(replace(job, sources=sources), tables).stages[0]
    expected = [text for text in TEXTS if read_uuid(text) is not None]
    assert len(expected) == 2
    for field in layout_of(stage, [PlainColumns()] * 2).fields:
        (plan, _) = field.inputs
        assert plan is not None
        regular = regular_values(field, plan, BaseColumn(form=TEXT, value="v", source="one"))
        assert regular is not None
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE texts AS SELECT unnest(?) AS v", [TEXTS])
            query = f"SELECT v FROM texts WHERE {regular.condition}"
            assert [text for (text,) in connection.execute(query).fetchall()] == expected
