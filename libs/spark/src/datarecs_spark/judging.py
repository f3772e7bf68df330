"""From ranks to judged rows: one marker per group, one row per difference, or rows of the residue.

All in SQL: a place is judged per measure, places of a group and measure are combined by windows,
and every row learns whether its group differs. Groups that SQL cannot judge or write exactly leave
as residue rows, with every value they hold.
"""

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame

from datarecs_core.comparison.results import DifferenceClass
from datarecs_core.jobs.vocabulary import StageType
from datarecs_spark.canonical import invalid_text, lossless, masked, plain_number, size_key, text_of
from datarecs_spark.grouping import ABOUT_GROUP, ABOUT_VALUES, PLACE, even
from datarecs_spark.layout import Layout, MeasureLayout
from datarecs_spark.tolerances import MIN_SOURCES_FOR_ODD, Agreeing

MARKER, DIFFERENCE, RESIDUE = "g", "d", "h"
"""Kinds of rows: a group, a difference of a group, a place of a group for the residue."""
PRESENCE_MEASURE = -1
"""`measure` of an unmatched group's difference; `$rows` has the number of measures."""
_ELEMENT = {
    "kind": "STRING",
    "measure": "INT",
    "at": "BIGINT",
    "within": "BOOLEAN",
    "own": "BIGINT",
    "class": "STRING",
    "broken": "BOOLEAN",
    "mixed": "BOOLEAN",
    "precise": "BOOLEAN",
    "odd": "INT",
    "size": "STRING",
    "largest": "STRING",
    "shown": "ARRAY<STRING>",
    "befores": "ARRAY<STRING>",
    "changed": "BIGINT",
    "deltas": "ARRAY<STRING>",
    "percents": "ARRAY<STRING>",
    "cells": "ARRAY<STRING>",
    "payloads": "ARRAY<BINARY>",
}
_PERCENT_SHIFT = "100000000BD"
"""Percent with six places as a whole number."""


def judged(layout: Layout, ranks: DataFrame, key: bytes) -> DataFrame:
    """Judged rows: key columns, `n<i>`, `mask`, `repeated`, the element, `differs`, `common_odd`.

    Args:
        layout: of the stage.
        ranks: as `grouping.ranked` gives them.
        key: the tenant's, for masks.
    """
    judging = _Judging(layout, key)
    rows = ranks.selectExpr("*", *judging.group_columns())
    for step in judging.value_steps():
        if step:
            rows = rows.selectExpr("*", *step)
    rows = rows.selectExpr("*", f"{judging.is_hard()} AS hard_here")
    over = _over(layout)
    hard = f"max(hard_here) OVER ({over})" if layout.pairs_rows else "hard_here"
    rows = rows.selectExpr("*", f"{hard} AS hard")
    fields = ", ".join(_ELEMENT)
    rows = rows.selectExpr(*judging.kept_columns(), f"inline({judging.elements()}) AS ({fields})")
    return _told(layout, _combined(layout, rows))


def kept_values(layout: Layout) -> Mapping[str, str]:
    """Columns of markers beside the key: totals, overflows and rounded floats of aggregates."""
    if layout.pairs_rows:
        return {}
    found = {}
    for measure in layout.compared:
        for index in layout.sources:
            at = f"{measure.index}_{index}"
            if measure.plan.has_total:
                found[f"t{at}"] = f"v{at}"
            if measure.field is not None and measure.field.stateful:
                found[f"w{at}"] = f"w{at}"
            if measure.field is not None and measure.field.role == "amount":
                found[f"o{at}"] = f"o{at}"
    return found


def _over(layout: Layout, *more: str) -> str:
    parts = [*layout.key_names, *more]
    return f"PARTITION BY {', '.join(parts)}" if parts else ""


class _Judging:
    """The SQL of one stage."""

    def __init__(self, layout: Layout, key: bytes) -> None:
        self.layout, self.key, self.stage = layout, key, layout.stage
        self.agreeing = [Agreeing(layout=layout, measure=each) for each in layout.compared]
        self.rows_measure = len(layout.measures)

    # The group

    def group_columns(self) -> Iterator[str]:
        layout = self.layout
        everywhere = self.stage.everywhere
        bits = " + ".join(f"IF(n{index} > 0, {1 << index}L, 0L)" for index in layout.sources)
        mask = f"{everywhere}L" if layout.always_present else f"({bits})"
        yield f"{mask} AS mask"
        repeated = " + ".join(f"IF(n{index} > 1, {1 << index}L, 0L)" for index in layout.sources)
        yield f"{f'({repeated})' if self.stage.type is StageType.ROW else '0L'} AS repeated"
        yield f"({mask} = {everywhere}L) AS matched"
        paired = f"({even(layout)})" if layout.pairs_rows else f"({mask} = {everywhere}L)"
        yield f"{paired} AS comparable"
        yield f"{self._unwritable_key()} AS unwritable"

    def _unwritable_key(self) -> str:
        parts = [
            f"({field.name} IS NOT NULL AND ({text_of(field.form, field.name)}) IS NULL)"
            for field in self.layout.keys
        ]
        return f"({' OR '.join(parts)})" if parts else "FALSE"

    # The values at a place

    def value_steps(self) -> list[list[str]]:
        """Columns in the order in which they build on one another."""
        here = f"{ABOUT_VALUES} AND comparable"
        ready = [each for each in self.agreeing if each.judged_in_sql]
        unequal = [
            f"({here} AND NOT ({self._all_equal(each)})) AS u{each.m}" for each in self.agreeing
        ]
        return [
            unequal,
            [column for each in ready for column in each.amounts()],
            [column for each in ready for column in each.gaps()],
            [column for each in ready for column in each.holds()],
            [column for each in ready for column in each.verdicts()],
            [column for each in ready for column in self._largest(each)],
        ]

    def _all_equal(self, each: Agreeing) -> str:
        strict = each.plan.rules.nan == "unequal"
        if not strict or each.form.is_exact:
            return each.all_equal()
        first = each.value(0)
        nan = f"isnan({first})" if each.form.sql_type == "DOUBLE" else f"{first} = 'NaN'"
        return f"{each.all_equal()} AND NOT coalesce({nan}, FALSE)"

    def _largest(self, each: Agreeing) -> Iterator[str]:
        """`b<m>`: the largest |delta| at the place, as text."""
        if each.subtracts:
            sizes = ", ".join(f"abs(d{each.m}_{index})" for index in self.layout.others)
            size = f"greatest({sizes})" if len(self.layout.others) > 1 else sizes
            yield f"{plain_number(f'CAST({size} AS STRING)')} AS b{each.m}"

    def is_hard(self) -> str:
        """Whether this place needs the residue; the group then goes there as a whole."""
        unequal = [f"u{each.m}" for each in self.agreeing]
        group = "TRUE" if self._always_differs() else "NOT comparable"
        told = " OR ".join([f"({ABOUT_GROUP} AND {group})", *unequal])
        hard = [f"(unwritable AND ({told}))"]
        hard += [f"(u{each.m} AND ({self._hard(each)}))" for each in self.agreeing]
        return f"({' OR '.join(hard)})"

    def _always_differs(self) -> bool:
        """Something of every matched group is not comparable."""
        return len(self.layout.compared) < len(self.layout.measures)

    def _hard(self, each: Agreeing) -> str:
        if not each.judged_in_sql:
            return "TRUE"
        reasons = [f"in{each.m} IS NULL", each.unknown_odd()]
        for index in self.layout.sources:
            value = each.value(index)
            reasons.append(f"({value} IS NOT NULL AND ({text_of(each.form, value)}) IS NULL)")
        if each.subtracts:
            base = each.amount(self.stage.reference)
            for index in self.layout.others:
                delta, percent = f"d{each.m}_{index}", self._percent(each, index)
                both = f"{each.amount(index)} IS NOT NULL AND {base} IS NOT NULL"
                reasons.append(f"({both} AND {delta} IS NULL)")
                reasons.append(f"({delta} IS NOT NULL AND {base} <> 0 AND {percent} IS NULL)")
        return " OR ".join(reasons)

    # Elements

    def kept_columns(self) -> list[str]:
        layout = self.layout
        values = kept_values(layout)
        return [
            *layout.key_names,
            *(f"n{index}" for index in layout.sources),
            "mask",
            "repeated",
            *(sql if sql == label else f"{sql} AS {label}" for label, sql in values.items()),
        ]

    def elements(self) -> str:
        """An array: what this row says about its group and its values."""
        told = [
            f"CASE WHEN {ABOUT_GROUP} AND NOT hard THEN {_element(kind=MARKER)} END",
            f"CASE WHEN hard AND ({ABOUT_GROUP} OR {ABOUT_VALUES}) THEN {self._residue()} END",
            self._told("NOT matched", self._presence()),
            *self._uneven(),
            *self._incomparable(),
            *(
                f"CASE WHEN u{each.m} AND NOT hard THEN {self._cell(each)} END"
                for each in self.agreeing
                if each.judged_in_sql
            ),
        ]
        return f"filter(array({', '.join(told)}), each -> each IS NOT NULL)"

    def _told(self, when: str, element: str) -> str:
        return f"CASE WHEN {ABOUT_GROUP} AND NOT hard AND {when} THEN {element} END"

    def _presence(self) -> str:
        sources = self.layout.sources
        bits = [1 << index for index in sources]
        everywhere = self.stage.everywhere
        odd = [
            f"WHEN {bit}L THEN {at} WHEN {everywhere - bit}L THEN {at}"
            for at, bit in enumerate(bits)
        ]
        return _element(
            kind=DIFFERENCE,
            measure=PRESENCE_MEASURE,
            at="0L",
            within="FALSE",
            own="0L",
            **{"class": f"'{DifferenceClass.MISSING}'"},
            odd=f"CASE mask {' '.join(odd)} END" if len(sources) >= MIN_SOURCES_FOR_ODD else None,
            shown=self._counts(),
        )

    def _counts(self) -> str:
        return f"array({', '.join(f'CAST(n{index} AS STRING)' for index in self.layout.sources)})"

    def _uneven(self) -> Iterator[str]:
        """Unequal numbers of rows: `$rows` and every measure are outside."""
        if not self.layout.pairs_rows:
            return
        odd = self._odd_count()
        when = "matched AND NOT comparable"
        for measure in self.layout.measures:
            yield self._told(when, self._outside(measure.index, DifferenceClass.MULTIPLICITY, odd))
        yield self._told(when, self._rows_element(odd))

    def _outside(self, measure: int, kind: DifferenceClass, odd: str | None) -> str:
        return _element(
            kind=DIFFERENCE,
            measure=measure,
            at="0L",
            within="FALSE",
            own="0L",
            **{"class": f"'{kind}'"},
            odd=odd,
        )

    def _rows_element(self, odd: str | None) -> str:
        base = f"CAST(n{self.stage.reference} AS DECIMAL(22,0))"
        deltas: dict[int, str] = {
            index: f"(CAST(n{index} AS DECIMAL(22,0)) - {base})" for index in self.layout.others
        }
        written = {index: f"CAST({sql} AS STRING)" for index, sql in deltas.items()}
        sizes = [f"abs({sql})" for sql in deltas.values()]
        size = f"greatest({', '.join(sizes)})" if len(sizes) > 1 else sizes[0]
        percents = {index: _percent(sql, base) for index, sql in deltas.items()}
        return _element(
            kind=DIFFERENCE,
            measure=self.rows_measure,
            at="0L",
            within="FALSE",
            own="0L",
            **{"class": f"'{DifferenceClass.MULTIPLICITY}'"},
            odd=odd,
            size=size_key(f"CAST({size} AS STRING)"),
            largest=size_key(f"CAST({size} AS STRING)"),
            shown=self._counts(),
            deltas=self._by_source(written),
            percents=self._by_source(percents),
        )

    def _odd_count(self) -> str | None:
        """The one source with another number of rows than the others, which agree."""
        sources = self.layout.sources
        if len(sources) < MIN_SOURCES_FOR_ODD:
            return None
        found = []
        for index in sources:
            first, *rest = (other for other in sources if other != index)
            same = [f"n{other} = n{first}" for other in rest]
            found.append(f"WHEN {' AND '.join([f'n{index} <> n{first}', *same])} THEN {index}")
        return f"CASE {' '.join(found)} END"

    def _incomparable(self) -> Iterator[str]:
        for measure in self.layout.measures:
            if not measure.plan.comparable:
                kind = DifferenceClass.NOT_COMPARABLE
                yield self._told("comparable", self._outside(measure.index, kind, None))

    def _by_source(self, texts: Mapping[int, str]) -> str:
        parts = (texts.get(index, "CAST(NULL AS STRING)") for index in self.layout.sources)
        return f"array({', '.join(parts)})"

    def _cell(self, each: Agreeing) -> str:
        rule = each.plan.mask
        shown = {index: self._shown(each, index) for index in self.layout.sources}
        size = size_key(f"b{each.m}") if each.subtracts else None
        clear = rule is None and each.subtracts
        deltas = {
            index: plain_number(f"CAST(d{each.m}_{index} AS STRING)")
            for index in self.layout.others
        }
        percents = {index: self._percent(each, index) for index in self.layout.others}
        return _element(
            kind=DIFFERENCE,
            measure=each.m,
            at=PLACE,
            within=f"in{each.m}",
            own=f"own{each.m}",
            broken=self._any_invalid(each.measure),
            mixed=f"null{each.m}",
            precise=each.equal_once_cut(),
            odd=f"odd{each.m}",
            size=f"CASE WHEN b{each.m} IS NOT NULL THEN {size} END" if clear else None,
            largest=f"CASE WHEN b{each.m} IS NOT NULL THEN {size} END" if size else None,
            shown=self._by_source(
                {index: masked(self.key, rule, sql) for index, sql in shown.items()}
            ),
            deltas=self._by_source(deltas) if clear else None,
            percents=self._by_source(percents) if clear else None,
            **self._befores(each, shown),
        )

    def _befores(self, each: Agreeing, shown: Mapping[int, str]) -> dict[str, str]:
        """Texts before rules, and bits of the sources where they differ."""
        if not each.measure.changes:
            return {}
        raw = {index: f"r{each.m}_{index}" for index in self.layout.sources}
        bits = " + ".join(
            f"IF({raw[index]} <=> {shown[index]}, 0L, {1 << index}L)" for index in raw
        )
        told = {index: masked(self.key, each.plan.mask, sql) for index, sql in raw.items()}
        return {"befores": self._by_source(told), "changed": bits}

    def _shown(self, each: Agreeing, index: int) -> str:
        written = text_of(each.form, each.value(index))
        payload = each.payload(index)
        if payload is None:
            return written
        return f"CASE WHEN {payload} IS NOT NULL THEN {invalid_text(payload)} ELSE {written} END"

    def _percent(self, each: Agreeing, index: int) -> str:
        base = each.amount(self.stage.reference)
        return _percent(f"d{each.m}_{index}", base)

    def _any_invalid(self, measure: MeasureLayout) -> str:
        if not measure.may_be_invalid:
            return "FALSE"
        return "({})".format(
            " OR ".join(f"x{measure.index}_{index} IS NOT NULL" for index in self.layout.sources)
        )

    def _residue(self) -> str:
        """Every compared value of the place, measure by measure, source by source."""
        cells, payloads, befores = [], [], []
        for each in self.agreeing:
            for index in self.layout.sources:
                cells.append(lossless(each.form, each.value(index)))
                payloads.append(each.payload(index) or "CAST(NULL AS BINARY)")
                if each.measure.changes:
                    befores.append(f"r{each.m}_{index}")
        return _element(
            kind=RESIDUE,
            at=PLACE,
            cells=f"array({', '.join(cells)})" if cells else None,
            payloads=f"array({', '.join(payloads)})" if payloads else None,
            befores=f"array({', '.join(befores)})" if befores else None,
        )


def _percent(delta: str, base: str) -> str:
    """Percent of |base|, cut to six places, as canonical text; NULL for base 0.

    Whole units all the way: the remainder is taken off before anything is divided.
    """
    shifted = f"try_multiply(abs({delta}), {_PERCENT_SHIFT})"
    divisor = f"nullif(abs({base}), 0)"
    whole = f"try_divide({shifted} - {shifted} % {divisor}, {divisor})"
    made = f"try_multiply(try_cast({whole} AS DECIMAL(38,0)), 0.000001BD)"
    sign = f"IF({delta} < 0, '-', '')"
    written = plain_number(f"CAST({made} AS STRING)")
    return f"CASE WHEN {made} = 0 THEN '0' ELSE concat({sign}, {written}) END"


def _element(**given: str | int | None) -> str:
    """One element; what is not given is NULL."""
    kind = given.pop("kind")
    parts = [f"'kind', '{kind}'"]
    for label, sql_type in _ELEMENT.items():
        if label != "kind":
            value = given.pop(label, None)
            parts.append(f"'{label}', CAST({'NULL' if value is None else value} AS {sql_type})")
    if given:
        raise TypeError(f"an element has no {sorted(given)}")
    return f"named_struct({', '.join(parts)})"


def _combined(layout: Layout, rows: DataFrame) -> DataFrame:
    """One row per group and measure: the first place outside, else the first that is unequal."""
    flags = {
        "outside": "NOT within",
        "any_broken": "broken AND NOT within",
        "any_mixed": "mixed AND NOT within",
        "all_precise": "precise OR within",
    }
    if layout.pairs_rows:
        place = f"IF(kind = '{RESIDUE}', at, 0L)"
        over = _over(layout, "kind", "measure", place)
        rows = rows.selectExpr(
            "*",
            f"row_number() OVER ({over} ORDER BY within, at) AS nth",
            *(
                f"{'min' if label.startswith('all') else 'max'}({sql}) OVER ({over}) AS {label}"
                for label, sql in flags.items()
            ),
            f"bit_and(own) OVER ({over}) AS own_all",
            f"max(largest) OVER ({over}) AS largest_all",
        ).filter("nth = 1")
    else:
        rows = rows.selectExpr(
            "*",
            *(f"({sql}) AS {label}" for label, sql in flags.items()),
            "own AS own_all",
            "largest AS largest_all",
        )
    found = (
        "CASE WHEN class IS NOT NULL THEN class WHEN NOT outside THEN 'WITHIN' "
        "WHEN any_broken THEN 'INVALID' WHEN any_mixed THEN 'NULL_MISMATCH' "
        "WHEN all_precise THEN 'PRECISION' ELSE 'OUTSIDE' END"
    )
    return rows.selectExpr("*", f"CASE WHEN kind = '{DIFFERENCE}' THEN {found} END AS found_class")


def _told(layout: Layout, rows: DataFrame) -> DataFrame:
    """Every row learns whether its group differs, and which source all its breaks name."""
    over = _over(layout)
    breaks = f"kind = '{DIFFERENCE}' AND outside"
    odd = "CAST(NULL AS INT)"
    if len(layout.sources) >= MIN_SOURCES_FOR_ODD:
        named = f"IF({breaks}, coalesce(odd, -1), NULL)"
        lowest, highest = f"min({named}) OVER ({over})", f"max({named}) OVER ({over})"
        odd = f"CASE WHEN {lowest} = {highest} AND {lowest} >= 0 THEN {lowest} END"
    return rows.selectExpr("*", f"max({breaks}) OVER ({over}) AS differs", f"{odd} AS common_odd")
