"""Relations that tests make of plain rows hold what the oracle reads of the same rows."""

from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings

from datarecs_core.comparison.oracle.grouping import Outside, group_rows
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.values.canonical import encode, encode_tuple
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.definition import Normalize, StringRules
from datarecs_core.jobs.vocabulary import Trim
from datarecs_kernel.decoding import cell
from datarecs_kernel.layout import Field, Role, compared_measures
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.relations import relations_of, rows_layout
from datarecs_testing.strategies import ComparisonCase, comparison_cases
from datarecs_testing.tables import a_job, pair, plan_of

OUTSIDE = Outside(key=b"k" * 32)


@settings(max_examples=25, deadline=None)
@given(case=comparison_cases(max_sources=3, max_rows=6))
def test_relations_hold_the_keys_and_values_that_the_oracle_groups(case: ComparisonCase) -> None:
    try:
        stage = plan_of(case.job, case.tables).stages[0]
    except PlanRefusedError:
        return
    rows = [each.delivered(scan) for each, scan in zip(case.tables, stage.scans, strict=True)]
    grouped = group_rows(stage, rows, OUTSIDE)
    layout = rows_layout(stage, rows)
    values = [each for each in compared_measures(layout) if each[1].role is Role.VALUE]
    with duckdb.connect() as connection:
        names = relations_of(connection, layout, rows, OUTSIDE)
        for index, name in enumerate(names):
            prepared = Counter(
                (
                    encode_tuple([_cell(field, row) for field in layout.keys]),
                    *(encode(_cell(field, row)) for _, field in values),
                )
                for row in connection.table(name).to_arrow_table().to_pylist()
            )
            expected = Counter(
                (key, *(encode(row[measure.index].value) for measure, _ in values))
                for key, group in grouped.groups.items()
                for row in group.rows[index]
            )
            excluded = grouped.tallies[index].excluded
            assert sum(prepared.values()) == sum(expected.values()) + excluded
            assert expected <= prepared


@pytest.mark.case("P32")
def test_invalid_values_and_texts_before_rules_stand_beside_their_values() -> None:
    tables = pair("k text, v text", [(Invalid(b"\xff"), "a ")], [("a", None)])
    stage = rows_by("k", a_measure("v"))
    job = a_job(tables, stage, normalize=Normalize(strings=StringRules(trim=Trim.BOTH)))
    plan = plan_of(job, tables).stages[0]
    rows = [each.delivered(scan) for each, scan in zip(tables, plan.scans, strict=True)]
    layout = rows_layout(plan, rows)
    with duckdb.connect() as connection:
        first, _ = relations_of(connection, layout, rows, OUTSIDE)
        (row,) = connection.table(first).to_arrow_table().to_pylist()
    assert _cell(layout.keys[0], row).content == ("one", b"\xff")
    assert (row["m0"], row["m0r"], row["m0q"], row["dst"]) == ("a", "a ", "va ", 0)


def _cell(field: Field, row: dict[str, Any]) -> Any:  # noqa: ANN401 - a canonical value
    return cell(field.form, row[field.name], row.get(field.payload))
