"""What measures say of groups that every source has, once it is known which of their rows meet.

Columns all the way: equality, tolerances (`agreeing`) and what is stored of values that differ.
Floats of up to 15 digits are decimals here. Other floats, and numbers wider than any decimal, meet
core's rules instead, group by group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_core.comparison.oracle.grouping import Cell
from datarecs_core.comparison.oracle.judging import judge_measure
from datarecs_core.comparison.results.differences import masked
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.comparison.values.canonical import NULL, text
from datarecs_core.jobs.types import MAX_DIGITS
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.agreeing import Agreeing, Found
from datarecs_kernel.columns import Flags, Numbers, Runs, Values, distinct, flags_of
from datarecs_kernel.counted import MeasureTally
from datarecs_kernel.decoding import cell, lossless_texts, texts
from datarecs_kernel.forms import Form, FormKind, decimal
from datarecs_kernel.keyless import (
    KINDS,
    NO_DELTAS,
    NOBODY,
    By,
    Differences,
    Given,
    changes_of,
    deltas_of,
    judged_differences,
    kinds_of,
)
from datarecs_kernel.layout import Layout, MeasureLayout
from datarecs_kernel.whole_units import (
    Units,
    largest_of,
    unit_decimals,
    unit_key,
    written_units,
)

_SCALES = 16
"""Of doubles that are counted in whole units, from 0 on."""


class Columns(NamedTuple):
    """Of one source: values, payloads when INVALID, texts before rules."""

    value: str
    payload: str | None
    before: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Rows of all sources that meet, place by place; a group's places stand next to each other."""

    rows: Sequence[Numbers]
    """Per source."""
    groups: Numbers
    """Of each place."""
    matched: Numbers
    """All groups that are compared; of some every row may have cancelled."""


class _Met(NamedTuple):
    """Places at which sources differ."""

    rows: pa.RecordBatch
    places: Sequence[Numbers]
    """Rows of every source."""
    runs: Runs

    def of(self, chosen: Flags) -> "_Met":
        """Those of some groups."""
        of_group = np.repeat(np.arange(len(chosen)), np.diff(self.runs.edges))
        own = chosen[of_group]
        runs = Runs(self.runs.groups[of_group[own]])
        return _Met(self.rows, [each[own] for each in self.places], runs)


class Unequal:
    """One measure of a stage."""

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
            self.agreeing = self._agreeing(self.form)

    def _agreeing(self, form: Form) -> Agreeing:
        reference = self.stage.reference
        return Agreeing(self.plan, form, sources=len(self.columns), reference=reference)

    def found(
        self, rows: pa.RecordBatch, meeting: Meeting, tally: MeasureTally
    ) -> Iterator[Differences]:
        """What is stored of groups in which sources differ.

        Args:
            rows: of open groups.
            meeting: which of them meet.
            tally: of the measure; counts what is found.
        """
        if not self.columns:
            yield self._not_comparable(meeting.matched, tally)
            return
        at = np.flatnonzero(self._differs(self._values(rows, meeting.rows)))
        if not len(at):
            return
        met = _Met(rows, [own[at] for own in meeting.rows], Runs(meeting.groups[at]))
        values = self._values(rows, met.places)
        if self.agreeing is not None:
            yield self._by_units(self.agreeing, values, met, tally)
            return
        scale, plain = self._decimal(values, met.runs)
        if plain.any():
            own = met.of(plain)
            exact = [_decimals(each, scale) for each in self._values(rows, own.places)]
            yield self._by_units(self._agreeing(decimal(MAX_DIGITS, scale)), exact, own, tally)
        if not plain.all():
            yield from self._by_rules(met.of(~plain), tally)

    def _decimal(self, values: Sequence[Values], runs: Runs) -> tuple[int, Flags]:
        """A scale, and the groups of which all doubles are written with so many digits at most."""
        best, plain = 0, np.zeros(len(runs.groups), np.bool_)
        if self.form.kind is not FormKind.DOUBLE or self.plan.cut is not None:
            return best, plain
        doubles = [each.plain.fill_null(0).to_numpy() for each in values]
        for scale in range(_SCALES):
            written = (written_units(each, scale)[1] for each in doubles)
            found = runs.all_of(reduce(np.logical_and, written))
            if np.count_nonzero(found) > np.count_nonzero(plain):
                best, plain = scale, found
            if plain.all():
                break
        return best, plain

    def _not_comparable(self, groups: Numbers, tally: MeasureTally) -> Differences:
        kind, many = DifferenceClass.NOT_COMPARABLE, len(groups)
        tally.see([many] * len(self.plan.tolerances), outside=many, kinds={kind: many})
        return Differences(
            measure=self.plan.name,
            groups=groups,
            presence=np.full(many, self.stage.everywhere),
            kinds=kinds_of(kind, many),
            within=np.zeros(many, np.bool_),
            odd=np.full(many, NOBODY),
        )

    def _values(self, rows: pa.RecordBatch, places: Sequence[Numbers]) -> list[Values]:
        return [
            Values(
                rows.column(each.value), None if each.payload is None else rows.column(each.payload)
            ).take(own)
            for each, own in zip(self.columns, places, strict=True)
        ]

    def _before(
        self, rows: pa.RecordBatch, places: Sequence[Numbers], written: Sequence[pa.Array]
    ) -> list[pa.Array]:
        """Texts before rules, of texts after them."""
        found = []
        for each, own, after in zip(self.columns, places, written, strict=True):
            if each.before is None:
                found.append(after)
                continue
            before = rows.column(each.before).take(pa.array(own))
            found.append(lossless_texts(self.form, before) if self.is_lossless else before)
        return found

    def _differs(self, values: Sequence[Values]) -> Flags:
        """Whether values differ, or equal nothing, at each place."""
        first, *others = values
        told = [first.differs(each) for each in others]
        if self.plan.rules.nan is NanRule.UNEQUAL:
            told.append(_is_nan(self.form, first.plain))
        return reduce(np.logical_or, told)

    def _by_units(
        self,
        agreeing: Agreeing,
        values: Sequence[Values],
        met: _Met,
        tally: MeasureTally,
    ) -> Differences:
        (rows, places, runs), form = met, agreeing.form
        found = agreeing.found(values)
        kinds, changes = _kinds(found, runs), changes_of(found.units, self.stage.reference)
        within = runs.all_of(found.within)
        self._count(found, kinds, runs, tally)
        if any(each.known.any() for each in changes.values()):
            largest = max(largest_of(each.numbers) for each in changes.values())
            tally.reach(unit_key(largest, form.scale))
        wanted = np.flatnonzero(~within | self.stage.caps.deltas)
        shown = runs.first_of(~found.within)[wanted]
        after = [texts(form, each.take(shown)) for each in values]
        before = self._before(rows, [own[shown] for own in places], after)
        deltas = NO_DELTAS
        if self.has_deltas:
            own = {index: Units(*(one[shown] for one in each)) for index, each in changes.items()}
            base = found.units[self.stage.reference].numbers[shown]
            deltas = deltas_of(own, base, form.scale)
        return Differences(
            measure=self.plan.name,
            groups=runs.groups[wanted],
            presence=np.full(len(wanted), self.stage.everywhere),
            kinds=kinds[wanted],
            within=within[wanted],
            odd=np.where(found.within, NOBODY, found.odd)[shown],
            values=self._shown(after),
            raw=self._changed(before, after),
            deltas=deltas,
        )

    def _count(
        self,
        found: Found,
        kinds: Numbers,
        runs: Runs,
        tally: MeasureTally,
    ) -> None:
        numbers = np.bincount(kinds, minlength=len(KINDS)).tolist()
        tally.see(
            [int(np.count_nonzero(~runs.all_of(each))) for each in found.own_within],
            outside=int(np.count_nonzero(~runs.all_of(found.within))),
            kinds=dict(zip(KINDS, numbers, strict=True)),
        )

    def _shown(self, written: Sequence[pa.Array]) -> By:
        return tuple(
            Given(index, self._masked(each), np.ones(len(each), np.bool_))
            for index, each in enumerate(written)
        )

    def _changed(self, before: Sequence[pa.Array], after: Sequence[pa.Array]) -> By:
        return tuple(
            Given(index, self._masked(one), distinct(one, other))
            for index, (one, other) in enumerate(zip(before, after, strict=True))
            if one is not other
        )

    def _masked(self, written: pa.Array) -> pa.Array:
        if self.plan.mask is None:
            return written
        told = [masked(self.key, self.plan.mask, each) for each in written.to_pylist()]
        return pa.array(told, pa.string())

    def _by_rules(self, met: _Met, tally: MeasureTally) -> Iterator[Differences]:
        rows, places, runs = met
        values = self._values(rows, places)
        after = [texts(self.form, each) for each in values]
        before = self._before(rows, places, after)
        cells = list(
            zip(
                *(_cells(self.form, *own) for own in zip(values, after, before, strict=True)),
                strict=True,
            )
        )
        found = []
        for group, (start, end) in zip(runs.groups.tolist(), pairwise(runs.edges), strict=True):
            judged = judge_measure(self.plan, cells[start:end], self.stage.reference)
            tally.count(judged)
            if not judged.equal and (self.stage.caps.deltas or not judged.within):
                found.append((group, judged))
        if found:
            yield judged_differences(self.stage, self.plan, found, self.key)


def _decimals(values: Values, scale: int) -> Values:
    """Of doubles that are written with so many digits after the point at most."""
    doubles = values.plain
    numbers, _ = written_units(doubles.fill_null(0).to_numpy(), scale)
    exact = unit_decimals(numbers, scale)
    known = pc.if_else(pc.is_valid(doubles), exact, pa.scalar(None, exact.type))
    return Values(known, values.payloads)


def _kinds(found: Found, runs: Runs) -> Numbers:
    """By group the first class that fits all of its places outside."""
    within = found.within
    told = (
        (DifferenceClass.WITHIN, runs.all_of(within)),
        (DifferenceClass.INVALID, ~runs.all_of(within | ~found.is_invalid)),
        (DifferenceClass.NULL_MISMATCH, ~runs.all_of(within | ~found.is_null)),
        (DifferenceClass.PRECISION, runs.all_of(within | found.is_cut)),
    )
    return np.select(
        [flags for _, flags in told],
        [KINDS.index(kind) for kind, _ in told],
        KINDS.index(DifferenceClass.OUTSIDE),
    )


def _cells(form: Form, values: Values, written: pa.Array, before: pa.Array) -> Iterator[Cell]:
    """Values as core's rules take them; texts before rules where they are others."""
    payloads = repeat(None) if values.payloads is None else values.payloads.to_pylist()
    told = zip(
        values.plain.to_pylist(), payloads, written.to_pylist(), before.to_pylist(), strict=False
    )
    for plain, payload, after, first in told:
        value = cell(form, plain, payload)
        if first == after:
            yield Cell(value, value)
        else:
            yield Cell(NULL if first is None else text(first), value)


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


def _is_nan(form: Form, values: pa.Array) -> Flags:
    match form.kind:
        case FormKind.DOUBLE:
            found = pc.is_nan(values)
        case FormKind.NUMBER:
            found = pc.equal(values, "NaN")
        case _:
            return np.zeros(len(values), dtype=np.bool_)
    return flags_of(pc.fill_null(found, fill_value=False))
