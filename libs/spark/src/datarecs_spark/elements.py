"""What a judged row says: one marker, difference or residue element per thing to be told.

An element has the same members whatever it is about, so that one generator makes rows of all of
them. Texts are masked here, before anything leaves the engine.
"""

from collections.abc import Iterator, Mapping

from datarecs_core.comparison.results import DifferenceClass
from datarecs_spark.canonical import (
    invalid_text,
    lossless,
    magnitude,
    masked,
    plain_number,
    size_key,
    text_of,
)
from datarecs_spark.grouping import ABOUT_GROUP, ABOUT_VALUES, PLACE
from datarecs_spark.layout import Layout, MeasureLayout
from datarecs_spark.tolerances import MIN_SOURCES_FOR_ODD, Agreeing

MARKER, DIFFERENCE, RESIDUE = "g", "d", "h"
"""Kinds of rows: a group, a difference of a group, a place of a group for the residue."""
PRESENCE_MEASURE = -1
"""`measure` of an unmatched group's difference; `$rows` has the number of measures."""
MEMBERS = {
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


class Elements:
    """The elements of one stage; columns of `judging` are what they are made of."""

    def __init__(self, layout: Layout, key: bytes) -> None:
        self.layout, self.key, self.stage = layout, key, layout.stage
        self.agreeing = [Agreeing(layout=layout, measure=each) for each in layout.compared]
        self.rows_measure = len(layout.measures)

    def told(self) -> str:
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
        sizes = [magnitude(sql) for sql in deltas.values()]
        size = f"greatest({', '.join(sizes)})" if len(sizes) > 1 else sizes[0]
        percents = {index: percent_of(sql, base) for index, sql in deltas.items()}
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
        percents = {index: self.percent(each, index) for index in self.layout.others}
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

    def percent(self, each: Agreeing, index: int) -> str:
        base = each.amount(self.stage.reference)
        return percent_of(f"d{each.m}_{index}", base)

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


def percent_of(delta: str, base: str) -> str:
    """Percent of |base|, cut to six places, as canonical text; NULL for base 0.

    Whole units all the way: the remainder is taken off before anything is divided.
    """
    shifted = f"try_multiply({magnitude(delta)}, {_PERCENT_SHIFT})"
    divisor = f"nullif({magnitude(base)}, 0)"
    whole = f"try_divide({shifted} - {shifted} % {divisor}, {divisor})"
    made = f"try_multiply(try_cast({whole} AS DECIMAL(38,0)), 0.000001BD)"
    sign = f"IF({delta} < 0, '-', '')"
    written = plain_number(f"CAST({made} AS STRING)")
    return f"CASE WHEN {made} = 0 THEN '0' ELSE concat({sign}, {written}) END"


def _element(**given: str | int | None) -> str:
    """One element; what is not given is NULL."""
    kind = given.pop("kind")
    parts = [f"'kind', '{kind}'"]
    for label, sql_type in MEMBERS.items():
        if label != "kind":
            value = given.pop(label, None)
            parts.append(f"'{label}', CAST({'NULL' if value is None else value} AS {sql_type})")
    if given:
        raise TypeError(f"an element has no {sorted(given)}")
    return f"named_struct({', '.join(parts)})"
