"""Agreement of one measure in SQL: equality, gaps, tolerances, the odd one out, precision.

Exact decimals and products, no division and no float. Whatever 38 digits cannot hold comes out as
NULL, and a NULL where a value belongs sends the group to the residue, which has no such limit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import assert_never

from datarecs_core.comparison.plan import MeasurePlan
from datarecs_core.comparison.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.types import MAX_DIGITS
from datarecs_core.jobs.vocabulary import Bound, Combine, CompareTo, Rounding, ToleranceBase
from datarecs_spark.canonical import magnitude
from datarecs_spark.forms import Form, FormKind
from datarecs_spark.layout import Layout, MeasureLayout
from datarecs_spark.prepare import cut_moment

MOST_SOURCES = 8
"""Pairs grow with the square; with more sources differing groups are judged in Python."""
MIN_SOURCES_FOR_ODD = 3
_COUNT_DIGITS = 22
"""Of days since 1970 in microseconds, the widest whole numbers that are compared."""
_DAY_MICROS = 86_400_000_000

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreeing:
    """SQL about one measure at one place; columns `a`, `d`, `g`, `h` are made step by step."""

    layout: Layout
    measure: MeasureLayout

    @property
    def plan(self) -> MeasurePlan:
        return self.measure.plan

    @property
    def form(self) -> Form:
        return self.measure.result

    @property
    def m(self) -> int:
        return self.measure.index

    @property
    def subtracts(self) -> bool:
        return self.form.is_exact or self.form.is_moment

    @property
    def scale(self) -> int:
        return self.form.scale

    @property
    def judged_in_sql(self) -> bool:
        """False: differing groups of this measure always go to the residue."""
        if len(self.layout.sources) > MOST_SOURCES:
            return False
        if self.form.kind in {FormKind.DOUBLE, FormKind.NUMBER}:
            return False
        return all(self._holdable(each) for each in self.plan.tolerances)

    def _holdable(self, tolerance: Tolerance) -> bool:
        """Whether both sides of its comparison can have one decimal type."""
        match tolerance:
            case ExactTolerance():
                return True
            case AbsoluteTolerance(limit=limit):
                scale = max(self.scale, _scale(limit))
            case DurationTolerance(microseconds=limit):
                scale = _scale(limit)
            case PercentageTolerance(limit=limit):
                scale = self.scale + _scale(limit)
            case _:
                assert_never(tolerance)
        return scale + len(str(int(limit))) <= MAX_DIGITS

    # Step by step: each method's columns use those of the methods before it.

    def value(self, index: int) -> str:
        return f"v{self.m}_{index}"

    def payload(self, index: int) -> str | None:
        return f"x{self.m}_{index}" if self.measure.may_be_invalid else None

    def is_null(self, index: int) -> str:
        payload = self.payload(index)
        invalid = "" if payload is None else f" AND {payload} IS NULL"
        return f"({self.value(index)} IS NULL{invalid})"

    def equal(self, pair: Pair) -> str:
        """Two values are canonically equal."""
        one, other = pair
        same = f"{self.value(one)} <=> {self.value(other)}"
        if self.measure.may_be_invalid:
            same += f" AND {self.payload(one)} <=> {self.payload(other)}"
        return f"({same})"

    def all_equal(self) -> str:
        first, *others = self.layout.sources
        return " AND ".join(self.equal((first, other)) for other in others)

    def amounts(self) -> Iterator[str]:
        """`a<m>_<i>`: what can be subtracted, where the place is unequal."""
        if self.subtracts:
            for index in self.layout.sources:
                yield f"IF(u{self.m}, {self._amount(index)}, NULL) AS a{self.m}_{index}"

    def _amount(self, index: int) -> str:
        value = self.value(index)
        if self.form.kind is FormKind.DECIMAL:
            return value
        whole = f"CAST({value} AS DECIMAL({_COUNT_DIGITS},0))"
        if self.form.kind is FormKind.DATE:
            return f"CAST({whole} * {_DAY_MICROS}BD AS DECIMAL({_COUNT_DIGITS},0))"
        return whole

    def amount(self, index: int) -> str:
        return f"a{self.m}_{index}"

    def gaps(self) -> Iterator[str]:
        """`d<m>_<i>`: other minus reference; `g<m>_<set>`: sizes that tolerances look at."""
        if not self.subtracts:
            return
        reference = self.amount(self.layout.stage.reference)
        for index in self.layout.others:
            yield f"try_subtract({self.amount(index)}, {reference}) AS d{self.m}_{index}"
        for chosen in self._sets():
            values = [self.amount(index) for index in chosen]
            size = f"try_subtract(greatest({', '.join(values)}), least({', '.join(values)}))"
            yield f"{size} AS g{self.m}_{_named(chosen)}"

    def pairs(self) -> list[Pair]:
        return list(combinations(self.layout.sources, 2))

    def compared(self) -> list[tuple[int, ...]]:
        """The sets that `compare_to` names."""
        match self.plan.compare_to:
            case CompareTo.REFERENCE:
                reference = self.layout.stage.reference
                return [(reference, index) for index in self.layout.others]
            case CompareTo.ALL_PAIRS:
                return [*self.pairs()]
            case CompareTo.SPREAD:
                return [tuple(self.layout.sources)]

    def _sets(self) -> list[tuple[int, ...]]:
        """Also the pairs that the odd one out is found by."""
        odd = self.pairs() if len(self.layout.sources) >= MIN_SOURCES_FOR_ODD else []
        return list(dict.fromkeys([*self.compared(), *odd]))

    def holds(self) -> Iterator[str]:
        """`h<m>_<t>_<set>`: whether one tolerance lets a set pass; NULL where 38 digits end."""
        for at, tolerance in enumerate(self.plan.tolerances):
            for chosen in self._sets():
                yield f"{self._holds(tolerance, chosen)} AS h{self.m}_{at}_{_named(chosen)}"

    def _holds(self, tolerance: Tolerance, chosen: Sequence[int]) -> str:
        first, *others = chosen
        same = " AND ".join(self.equal((first, other)) for other in others)
        if isinstance(tolerance, ExactTolerance) or not self.subtracts:
            return f"({same})"
        values = [self.amount(index) for index in chosen]
        absent = [f"{value} IS NULL" for value in values]
        if isinstance(tolerance, PercentageTolerance):
            base = self._base(tolerance, values)
            absent.append(f"{base} IS NULL")
            reach = self._reaches_percent(tolerance, base, f"g{self.m}_{_named(chosen)}")
        else:
            limit = (
                tolerance.limit
                if isinstance(tolerance, AbsoluteTolerance)
                else (tolerance.microseconds)
            )
            scale = max(self.scale, _scale(limit))
            reach = self._reaches(
                f"g{self.m}_{_named(chosen)}", _literal(limit, MAX_DIGITS, scale), scale
            )
        return f"CASE WHEN {same} THEN TRUE WHEN {' OR '.join(absent)} THEN FALSE ELSE {reach} END"

    def _base(self, tolerance: PercentageTolerance, values: Sequence[str]) -> str:
        if tolerance.base is ToleranceBase.REFERENCE:
            return magnitude(self.amount(self.layout.stage.reference))
        chosen = "greatest" if tolerance.base is ToleranceBase.MAX_ABS else "least"
        return f"{chosen}({', '.join(map(magnitude, values))})"

    def _reaches_percent(self, tolerance: PercentageTolerance, base: str, size: str) -> str:
        limit = tolerance.limit
        digits = len(str(int(limit))) + _scale(limit)
        scale = self.scale + _scale(limit)
        allowed = f"try_multiply({_literal(limit, digits, _scale(limit))}, {base})"
        return self._reaches(f"try_multiply({size}, 100BD)", allowed, scale)

    def _reaches(self, size: str, limit: str, scale: int) -> str:
        sign = "<=" if self.plan.bound is Bound.INCLUSIVE else "<"
        common = f"DECIMAL({MAX_DIGITS},{scale})"
        return f"try_cast({size} AS {common}) {sign} try_cast({limit} AS {common})"

    def verdicts(self) -> Iterator[str]:
        """`null<m>`, `in<m>` (within), `own<m>` as bits, `odd<m>`; NULL: the residue decides."""
        sets = [_named(chosen) for chosen in self.compared()]
        kinds = range(len(self.plan.tolerances))
        together = " AND " if self.plan.combine is Combine.ALL else " OR "
        nulls = " OR ".join(self.is_null(index) for index in self.layout.sources)
        within = " AND ".join(
            f"({together.join(f'h{self.m}_{at}_{chosen}' for at in kinds)})" for chosen in sets
        )
        own = " + ".join(
            f"IF({' AND '.join(f'h{self.m}_{at}_{chosen}' for chosen in sets)}, {1 << at}L, 0L)"
            for at in kinds
        )
        unknown = " OR ".join(f"h{self.m}_{at}_{chosen} IS NULL" for at in kinds for chosen in sets)
        yield f"({nulls}) AS null{self.m}"
        untold = f"WHEN {unknown} THEN NULL"
        yield f"CASE WHEN {nulls} THEN FALSE {untold} ELSE {within} END AS in{self.m}"
        yield f"CASE WHEN {nulls} THEN 0L {untold} ELSE {own} END AS own{self.m}"
        yield f"{self._odd()} AS odd{self.m}"

    def _odd(self) -> str:
        sources = self.layout.sources
        if len(sources) < MIN_SOURCES_FOR_ODD:
            return "CAST(NULL AS INT)"
        agrees = {pair: self._agrees(pair) for pair in self.pairs()}
        found = []
        for index in sources:
            wanted = [f"NOT {sql}" if index in pair else sql for pair, sql in agrees.items()]
            found.append(f"WHEN {' AND '.join(wanted)} THEN {index}")
        return f"CASE {' '.join(found)} END"

    def _agrees(self, pair: Pair) -> str:
        together = " AND " if self.plan.combine is Combine.ALL else " OR "
        kinds = range(len(self.plan.tolerances))
        held = together.join(f"h{self.m}_{at}_{_named(pair)}" for at in kinds)
        nulls = " OR ".join(self.is_null(index) for index in pair)
        return f"(CASE WHEN {nulls} THEN {self.equal(pair)} ELSE {held} END)"

    def unknown_odd(self) -> str:
        """Whether some pair could not be judged."""
        if len(self.layout.sources) < MIN_SOURCES_FOR_ODD:
            return "FALSE"
        pairs = [_named(pair) for pair in self.pairs()]
        kinds = range(len(self.plan.tolerances))
        return " OR ".join(f"h{self.m}_{at}_{pair} IS NULL" for at in kinds for pair in pairs)

    def equal_once_cut(self) -> str:
        """Whether all agree at the coarsest declared precision: class PRECISION."""
        cut = self.plan.cut
        if cut is None or cut.float32:
            return "FALSE"
        if cut.second_digits is not None:
            cuts = [
                cut_moment(self.value(index), cut.second_digits, Rounding.TRUNCATE)
                for index in self.layout.sources
            ]
        else:
            unit = _literal(Decimal(1).scaleb(-(cut.scale or 0)), MAX_DIGITS, cut.scale or 0)
            cuts = [
                f"({self.amount(index)} - {self.amount(index)} % {unit})"
                for index in self.layout.sources
            ]
        first, *others = cuts
        return f"coalesce({' AND '.join(f'{first} = {other}' for other in others)}, FALSE)"


def _named(chosen: Sequence[int]) -> str:
    return "_".join(map(str, chosen))


def _scale(limit: Decimal) -> int:
    """Digits after the point, trailing zeros not counted."""
    return len(decimal_text(limit).partition(".")[2])


def _literal(number: Decimal, digits: int, scale: int) -> str:
    return f"CAST('{decimal_text(number)}' AS DECIMAL({digits},{scale}))"
