"""What measures say of groups with one row a source: found by columns, judged where unequal.

Equality is asked of whole columns; only values that differ become Python's, one after another, and
meet `agreeing`, or core's rules where they are floats or numbers wider than any decimal.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_core.comparison.canonical import NULL, canonical_text, text
from datarecs_core.comparison.differences import masked
from datarecs_core.comparison.grouping import Cell
from datarecs_core.comparison.judging import judge_measure
from datarecs_core.comparison.results import DifferenceClass
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_spark.agreeing import Agreeing, Plain
from datarecs_spark.counted import MeasureTally
from datarecs_spark.decoding import cell, from_text, texts
from datarecs_spark.forms import Form, FormKind
from datarecs_spark.keyless import NO_DELTAS, KeylessDifference, Texts, deltas_of, keyless_of
from datarecs_spark.layout import Layout, MeasureLayout
from datarecs_spark.open_groups import Flags, Numbers

Found = tuple[int, KeylessDifference]
"""A place, and what is stored of it."""


class Columns(NamedTuple):
    """Of one source: values, payloads when INVALID, texts before rules."""

    value: str
    payload: str | None
    before: str | None


class Unequal:
    """One measure of a stage; groups have one row of every source."""

    def __init__(
        self, layout: Layout, measure: MeasureLayout, names: frozenset[str], key: bytes
    ) -> None:
        """For batches with columns of these names; the key is the tenant's."""
        self.stage, self.plan, self.form, self.key = layout.stage, measure.plan, measure.result, key
        self.columns = columns_of(layout, measure, names)
        self.is_lossless = self.form.kind is FormKind.DOUBLE and not layout.pairs_rows
        """Texts before rules are such as `canonical.lossless` writes."""
        self.has_deltas = self.plan.mask is None and self.plan.subtractable
        self.agreeing: Agreeing | None = None
        if self.columns and Agreeing.covers(self.form):
            reference = self.stage.reference
            sources = len(self.columns)
            self.agreeing = Agreeing(self.plan, self.form, sources=sources, reference=reference)

    def found(
        self, rows: pa.RecordBatch, places: Sequence[Numbers], tally: MeasureTally
    ) -> Iterator[Found]:
        """Places at which sources differ.

        Args:
            rows: of open groups.
            places: per source the rows that meet, place by place.
            tally: of the measure; counts what is found.
        """
        if not self.columns:
            yield from self._not_comparable(len(places[0]), tally)
            return
        at = np.flatnonzero(self._differs(rows, places))
        if not len(at):
            return
        shown = [
            self._shown(columns, rows.take(pa.array(own[at])))
            for columns, own in zip(self.columns, places, strict=True)
        ]
        if self.agreeing is None:
            yield from self._by_rules(at.tolist(), shown, tally)
        else:
            yield from self._by_units(self.agreeing, at.tolist(), shown, tally)

    def _not_comparable(self, places: int, tally: MeasureTally) -> Iterator[Found]:
        kind, own = DifferenceClass.NOT_COMPARABLE, (False,) * len(self.plan.tolerances)
        tally.see(own, within=False, kind=kind, groups=places)
        difference = KeylessDifference(self.plan.name, self.stage.everywhere, kind)
        return ((at, difference) for at in range(places))

    def _differs(self, rows: pa.RecordBatch, places: Sequence[Numbers]) -> Flags:
        """Whether values differ, or equal nothing, at each place."""
        met = [(each, pa.array(own)) for each, own in zip(self.columns, places, strict=True)]
        values = [rows.column(each.value).take(own) for each, own in met]
        payloads = [rows.column(each.payload).take(own) for each, own in met if each.payload]
        told = [_distinct(one[0], other) for one in (values, payloads) for other in one[1:]]
        if self.plan.rules.nan is NanRule.UNEQUAL:
            told.append(_is_nan(self.form, values[0]))
        return reduce(np.logical_or, told)

    def _shown(self, columns: Columns, rows: pa.RecordBatch) -> "_Shown":
        values = rows.column(columns.value).to_pylist()
        payloads = None if columns.payload is None else rows.column(columns.payload).to_pylist()
        written = texts(self.form, values, payloads)
        before = written if columns.before is None else rows.column(columns.before).to_pylist()
        if columns.before is not None and self.is_lossless:
            before = [
                None if each is None else canonical_text(from_text(self.form, each))
                for each in before
            ]
        plain = list(zip(values, payloads or repeat(None), strict=False))
        return _Shown(plain, written, before)

    def _by_units(
        self,
        agreeing: Agreeing,
        at: Sequence[int],
        shown: Sequence["_Shown"],
        tally: MeasureTally,
    ) -> Iterator[Found]:
        plain, written, before = (zip(*parts, strict=True) for parts in zip(*shown, strict=True))
        for place, values, after, first in zip(at, plain, written, before, strict=True):
            found = agreeing.found(values)
            odd, kind = None, DifferenceClass.WITHIN
            if not found.within:
                odd, kind = agreeing.odd_one_out(found), agreeing.class_of([found])
            deltas = deltas_of(found.place.units, self.stage.reference, self.form.scale)
            tally.see(found.own_within, within=found.within, kind=kind)
            tally.reach(deltas.size_key)
            yield (
                place,
                KeylessDifference(
                    self.plan.name,
                    self.stage.everywhere,
                    kind,
                    found.within,
                    odd,
                    self._masked(enumerate(after)),
                    self._changed(first, after),
                    *(deltas if self.has_deltas else NO_DELTAS),
                ),
            )

    def _changed(self, before: Sequence[str | None], after: Sequence[str | None]) -> Texts:
        if before == after:
            return ()
        pairs = enumerate(zip(before, after, strict=True))
        return self._masked((index, one) for index, (one, other) in pairs if one != other)

    def _masked(self, written: Iterable[tuple[int, str | None]]) -> Texts:
        if self.plan.mask is None:
            return tuple(written)
        return tuple((index, masked(self.key, self.plan.mask, each)) for index, each in written)

    def _by_rules(
        self, at: Sequence[int], shown: Sequence["_Shown"], tally: MeasureTally
    ) -> Iterator[Found]:
        for place, *cells in zip(at, *(each.cells(self.form) for each in shown), strict=True):
            judged = judge_measure(self.plan, [cells], self.stage.reference)
            if not judged.equal:
                tally.count(judged)
                yield place, keyless_of(self.stage, self.plan, judged, self.key)


class _Shown(NamedTuple):
    """Values of one source where sources differ, place by place."""

    plain: Sequence[Plain]
    written: Sequence[str | None]
    """Canonical texts."""
    before: Sequence[str | None]
    """Texts before rules."""

    def cells(self, form: Form) -> Iterator[Cell]:
        for plain, written, before in zip(*self, strict=True):
            value = cell(form, *plain)
            if before == written:
                yield Cell(value, value)
            else:
                yield Cell(NULL if before is None else text(before), value)


def columns_of(
    layout: Layout, measure: MeasureLayout, names: frozenset[str]
) -> tuple[Columns, ...]:
    """Per source; none where the measure is not comparable."""

    def present(name: str) -> str | None:
        return name if name in names else None

    field = measure.field
    if not measure.plan.comparable:
        return ()
    if layout.pairs_rows and field is not None:
        before = present(field.raw) if measure.changes else None
        return (Columns(field.name, present(field.payload), before),) * len(layout.sources)
    places = [f"{measure.index}_{index}" for index in layout.sources]
    return tuple(
        Columns(f"v{at}", present(f"x{at}"), present(f"r{at}") if measure.changes else None)
        for at in places
    )


def _distinct(one: pa.Array, other: pa.Array) -> Flags:
    """SQL's IS DISTINCT FROM; two NaN are distinct here, and equal to core's rules."""
    unequal = pc.fill_null(pc.not_equal(one, other), fill_value=True)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return _flags(pc.and_not(unequal, both_null))


def _is_nan(form: Form, values: pa.Array) -> Flags:
    match form.kind:
        case FormKind.DOUBLE:
            found = pc.is_nan(values)
        case FormKind.NUMBER:
            found = pc.equal(values, "NaN")
        case _:
            return np.zeros(len(values), dtype=np.bool_)
    return _flags(pc.fill_null(found, fill_value=False))


def _flags(told: pa.Array) -> Flags:
    return np.asarray(told.to_numpy(zero_copy_only=False), dtype=np.bool_)
