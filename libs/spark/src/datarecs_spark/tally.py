"""What happened to the rows of each source, counted apart from the groups made of them.

Rows read, rows that passed, NULL keys, INVALID values and the totals of a row stage: two counts of
the same rows by two ways, so that closure can fail when one of them is wrong.
"""

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_core.comparison.values.unreadable import MeasureFaults, may_be_infinite
from datarecs_core.jobs.vocabulary import NullKeys
from datarecs_core.values import EXACT
from datarecs_kernel.decoding import invalid_of
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.layout import Field, Layout
from datarecs_kernel.prepared_values import AMBIGUOUS
from datarecs_kernel.tallies import SourceTally
from datarecs_spark.aggregates import parts_of
from datarecs_spark.grouping import null_key
from datarecs_spark.prepare import SOURCE
from datarecs_spark.pushed import weight

PASSED, READ = "passed", "read"
"""`what` of the rows: prepared rows of a source, and rows as delivered."""
_DEEPEST = 28
"""Digits after the point that fit beside the ten by which Spark widens a sum."""
_WEIGHTS = {"s": 0, "hi": 19, "lo": 0, "fr": 0, "f1": -19, "f2": -38}
"""Power of ten by which the sum of a part is shifted."""


def passed_rows(layout: Layout, rows: DataFrame) -> DataFrame:
    """One row per source that has any: counts and totals of its prepared rows."""
    null = null_key(layout.keys)
    kept = f"NOT {null}" if layout.stage.null_keys is NullKeys.EXCLUDE else "TRUE"
    invalid = " + ".join(
        f"IF({each.payload} IS NOT NULL, 1, 0)" for each in layout.fields if each.may_be_invalid
    )
    behind = weight(layout.stage)
    counts = {
        "rows": f"sum({behind})",
        "nulls": f"sum(IF({null}, {behind}, 0L))",
        "invalid": f"sum(IF({kept}, {invalid or '0'}, 0))",
        "ambiguous": f"sum({AMBIGUOUS})",
    }
    counts |= _faults(layout, kept)
    for name, summed in _totals(layout):
        counts[name] = f"CAST(sum(IF({kept}, {summed}, NULL)) AS STRING)"
    aggregated = rows.groupBy(SOURCE).agg(
        *(F.expr(f"{sql} AS {name}") for name, sql in counts.items())
    )
    told = ", ".join(f"'{name}', {name}" for name in (SOURCE, *counts))
    return aggregated.selectExpr(f"'{PASSED}' AS what", f"to_json(named_struct({told})) AS body")


def read_rows(rows: DataFrame) -> DataFrame:
    """One row per source that has any: how many rows it delivered."""
    return (
        rows.groupBy(SOURCE)
        .agg(F.expr("count(*) AS rows"))
        .selectExpr(
            f"'{READ}' AS what",
            f"to_json(named_struct('{SOURCE}', {SOURCE}, 'rows', rows)) AS body",
        )
    )


def _totals(layout: Layout) -> Iterator[tuple[str, str]]:
    """`t<measure>_<part>` and what is summed in it."""
    if not layout.pairs_rows:
        return
    for measure in layout.compared:
        if measure.plan.has_total and measure.field is not None:
            for part, summed in _summed(measure.field).items():
                yield f"t{measure.index}_{part}", summed


def _faults(layout: Layout, kept: str) -> dict[str, str]:
    """`u<measure>` counts INVALID values, `p<measure>` is the smallest, `f<measure>` NaN, Inf."""
    found: dict[str, str] = {}
    for measure in layout.compared:
        field, at = measure.field, measure.index
        if field is None or layout.stage.hashed is not None:
            continue
        if field.may_be_invalid:
            found[f"u{at}"] = f"count_if({kept} AND {field.payload} IS NOT NULL)"
            found[f"p{at}"] = f"hex(min(IF({kept}, {field.payload}, NULL)))"
        if any(may_be_infinite(measure.plan, index) for index in layout.sources):
            found[f"f{at}"] = f"count_if({kept} AND {_is_infinite(field)})"
    return found


def _is_infinite(field: Field) -> str:
    if field.stateful:
        return f"{field.state} & 7 > 0"
    return f"CAST({field.name} AS STRING) IN ('NaN', 'Inf', '-Inf', 'Infinity', '-Infinity')"


def _read_faults(layout: Layout, told: dict[str, Any]) -> dict[int, MeasureFaults]:
    """Of the measures that have any."""
    found = {}
    for measure in layout.compared:
        at, smallest = measure.index, told.get(f"p{measure.index}")
        faults = MeasureFaults(
            unreadable=told.get(f"u{at}", 0),
            not_finite=told.get(f"f{at}", 0),
            smallest=None if smallest is None else _raw(bytes.fromhex(smallest)),
        )
        if faults.hides_total:
            found[at] = faults
    return found


def _raw(payload: bytes) -> bytes:
    """Behind the source's name."""
    return cast("tuple[str, bytes]", invalid_of(payload).content)[1]


def _summed(field: Field) -> dict[str, str]:
    form, value = field.form, field.name
    if form.kind is FormKind.INTEGER:
        return {"s": f"CAST({value} AS DECIMAL(20,0))"}
    if form.kind is FormKind.DECIMAL and form.scale <= _DEEPEST:
        return parts_of(form, value)
    return _written_parts(form, value)


def _written_parts(form: Form, value: str) -> dict[str, str]:
    """Four pieces of 19 digits of a number's text; NaN and infinities count nothing."""
    text = value if form.kind is FormKind.NUMBER else f"CAST({value} AS STRING)"
    finite = f"{text} NOT IN ('NaN', 'Inf', '-Inf')"
    sign = f"IF(startswith({text}, '-'), '-', '')"
    size = f"trim(LEADING '-' FROM {text})"
    whole = f"lpad(substring_index({size}, '.', 1), 38, '0')"
    fraction = f"rpad(IF(instr({size}, '.') > 0, substring_index({size}, '.', -1), ''), 38, '0')"
    starts = {"hi": (whole, 1), "lo": (whole, 20), "f1": (fraction, 1), "f2": (fraction, 20)}
    pieces = {part: f"substr({digits}, {at}, 19)" for part, (digits, at) in starts.items()}
    return {
        part: f"IF({finite}, CAST(concat({sign}, {piece}) AS DECIMAL(19,0)), NULL)"
        for part, piece in pieces.items()
    }


def read_tallies(layout: Layout, rows: Sequence[tuple[str, str]]) -> list[SourceTally]:
    """The tallies that rows of both kinds tell; a source without rows is in none of them."""
    tallies = [SourceTally() for _ in layout.sources]
    for what, body in rows:
        if what not in {READ, PASSED}:
            continue
        told = json.loads(body)
        tally = tallies[told[SOURCE]]
        if what == READ:
            tally.extracted = told["rows"]
        else:
            tally.passed, tally.null_keys = told["rows"], told["nulls"]
            tally.invalid, tally.ambiguous = told["invalid"], told["ambiguous"]
            tally.totals = _read_totals(layout, told)
            tally.faults = _read_faults(layout, told)
    return tallies


def _read_totals(layout: Layout, told: dict[str, str]) -> dict[int, Decimal]:
    totals = {measure.index: Decimal(0) for measure in layout.compared}
    for name, _ in _totals(layout):
        measure, _, part = name[1:].partition("_")
        if told.get(name) is not None:
            piece = Decimal(told[name]).scaleb(_WEIGHTS[part], EXACT)
            totals[int(measure)] = EXACT.add(totals[int(measure)], piece)
    return totals
