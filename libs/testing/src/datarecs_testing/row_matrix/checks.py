"""Check an engine's answer to a combination: numbers, and stored differences."""
# ruff: noqa: S608 - statements are made of constants of this package

from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import MeasureResult, StageResults
from datarecs_core.comparison.results.verdict import broken_rule
from datarecs_testing.row_matrix.combinations import Duplicates
from datarecs_testing.row_matrix.tables import key_text
from datarecs_testing.row_matrix.truth import TrueMeasure, Truth

_SHOWN = 3
_DELTA = "DECIMAL(38,18)"


def faults_of(truth: Truth, plan: StagePlan, results: StageResults) -> list[str]:
    """One text for each number or stored difference that is not the true one; empty is good."""
    return [
        *_faults_of_counts(truth, plan, results),
        *_faults_of_measures(truth, results),
        *_faults_of_differences(truth, results),
    ]


def _faults_of_counts(truth: Truth, plan: StagePlan, results: StageResults) -> Iterator[str]:
    counts = results.counts
    for name, value in asdict(truth.counts()).items():
        if getattr(counts, name) != value:
            yield f"{name} is {getattr(counts, name)} instead of {value}"
    none = (0,) * len(plan.scans)
    for name in ("invalid_values_by_source", "excluded_rows_by_source"):
        if getattr(counts, name) != none:
            yield f"{name} is {getattr(counts, name)} instead of {none}"
    broken = broken_rule(plan, results)
    if broken is not None:
        yield f"the numbers contradict rule {broken}"
    for source, closure in zip(plan.sources, results.closure, strict=True):
        if not closure.closed:
            yield f"rows of {source} do not add up: {closure}"


def _faults_of_measures(truth: Truth, results: StageResults) -> Iterator[str]:
    expected = truth.measures()
    names = [each.name for each in results.all_measures]
    if names != [each.name for each in expected]:
        yield f"the measures are {names}"
        return
    for measure, true in zip(results.all_measures, expected, strict=True):
        actual, wanted = _numbers(measure), _true_numbers(true)
        for name, value in wanted.items():
            if actual[name] != value:
                yield f"{name} of {true.name} is {actual[name]} instead of {value}"


def _numbers(measure: MeasureResult) -> dict[str, object]:
    names = ("within", "outside", "equal", "null_mismatch", "precision", "multiplicity")
    return {
        **{name: getattr(measure, name) for name in names},
        "not_comparable": measure.not_comparable,
        "max_abs_delta": measure.max_abs_delta,
        "total_by_source": measure.total_by_source,
        "gap_by_source": measure.gap_by_source,
    }


def _true_numbers(true: TrueMeasure) -> dict[str, object]:
    numbers = {**asdict(true), "not_comparable": 0}
    totals = numbers.pop("totals")
    del numbers["name"]
    if totals is not None:
        numbers["total_by_source"] = totals
        numbers["gap_by_source"] = tuple(each - totals[0] for each in totals)
    return numbers


def _faults_of_differences(truth: Truth, results: StageResults) -> Iterator[str]:
    """Their number, that each is there once, and that each is a true one."""
    limit = truth.tables.data.combination.limit
    true_number = truth.differences()
    differences = results.differences
    if differences.rows != min(true_number, limit):
        yield f"{differences.rows} differences are stored of {true_number} with a limit of {limit}"
    if differences.truncated is not (true_number > limit):
        yield f"truncated is {differences.truncated} with {true_number} differences"
    parts = sorted(Path(differences.location or "").glob("part-*.parquet"))
    if not parts:
        if differences.rows:
            yield "there is no file of differences"
        return
    _read_stored(truth, parts)
    yield from _faults_of_stored(truth, differences.rows)
    yield from _faults_of_sizes(truth, results)


def _read_stored(truth: Truth, parts: list[Path]) -> None:
    """Tables `stored` and `stored_keys`."""
    keys = [f"key_text[{at + 1}]" for at in range(len(truth.tables.data.keys))]
    texts = [f"\"values\"['{name}']" for name in truth.tables.data.sources]
    deltas = f"list_transform(map_values(deltas), lambda each: abs(each::{_DELTA}))"
    files = ", ".join(f"'{part}'" for part in parts)
    truth.tables.connection.execute(
        f"CREATE TABLE stored AS SELECT break_id, {key_text(keys)} AS key, measure, class, outcome,"
        f" [{', '.join(texts)}] AS texts, list_max({deltas}) AS delta"
        f" FROM read_parquet([{files}])"
    )
    truth.tables.connection.execute("CREATE TABLE stored_keys AS SELECT DISTINCT key FROM stored")
    truth.tables.create_differences("stored_keys")


def _faults_of_stored(truth: Truth, rows: int) -> Iterator[str]:
    connection = truth.tables.connection
    ((stored, ids, pairs),) = connection.execute(
        "SELECT count(*), count(DISTINCT break_id), count(DISTINCT (key, measure)) FROM stored"
    ).fetchall()
    if not stored == ids == pairs == rows:
        yield f"files have {stored} differences, {ids} ids, {pairs} keys with measure, not {rows}"
    columns = "key, measure, class, outcome, texts"
    wrong = connection.execute(
        f"SELECT {columns} FROM stored EXCEPT SELECT {columns} FROM true_differences"
        f" ORDER BY key, measure LIMIT {_SHOWN}"
    ).fetchall()
    for key, measure, *rest in wrong:
        true = connection.execute(
            "SELECT class, outcome, texts FROM true_differences WHERE key = ? AND measure = ?",
            [key, measure],
        ).fetchall()
        yield f"stored difference of {measure} at {key} is {rest} instead of {true}"


def _faults_of_sizes(truth: Truth, results: StageResults) -> Iterator[str]:
    """The largest |delta| of each measure is stored, whatever is left out.

    Of repeated keys one rank is shown, which need not be the one that differs most.
    """
    if truth.tables.data.combination.duplicates is not Duplicates.NONE:
        return
    rows = truth.tables.connection.execute(
        "SELECT measure, max(delta) FROM stored GROUP BY measure"
    )
    stored = dict(rows.fetchall())
    for measure in results.measures:
        largest = measure.max_abs_delta or Decimal(0)
        if largest and (stored.get(measure.name) or Decimal(0)) != largest:
            yield f"the largest change of {measure.name} is {largest}, stored: {stored}"
