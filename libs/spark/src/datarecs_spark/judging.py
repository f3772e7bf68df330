"""From ranks to judged rows: one marker per group, one row per difference, or rows of the residue.

All in SQL: a place is judged per measure, places of a group and measure are combined by windows,
and every row learns whether its group differs. Groups that SQL cannot judge or write exactly leave
as residue rows, with every value they hold.
"""

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame

from datarecs_core.jobs.vocabulary import StageType
from datarecs_spark.canonical import magnitude, plain_number, text_of
from datarecs_spark.elements import DIFFERENCE, MEMBERS, RESIDUE, Elements
from datarecs_spark.grouping import ABOUT_GROUP, ABOUT_VALUES, even
from datarecs_spark.layout import Layout
from datarecs_spark.tolerances import MIN_SOURCES_FOR_ODD, Agreeing


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
    fields = ", ".join(MEMBERS)
    rows = rows.selectExpr(
        *judging.kept_columns(), f"inline({judging.elements.told()}) AS ({fields})"
    )
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
        self.elements = Elements(layout, key)
        self.agreeing = self.elements.agreeing

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
            sizes = ", ".join(magnitude(f"d{each.m}_{index}") for index in self.layout.others)
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
                delta, percent = f"d{each.m}_{index}", self.elements.percent(each, index)
                both = f"{each.amount(index)} IS NOT NULL AND {base} IS NOT NULL"
                reasons.append(f"({both} AND {delta} IS NULL)")
                reasons.append(f"({delta} IS NOT NULL AND {base} <> 0 AND {percent} IS NULL)")
        return " OR ".join(reasons)

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
