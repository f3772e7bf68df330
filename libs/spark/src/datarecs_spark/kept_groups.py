"""Groups of an aggregate stage judged in the task that made them, where Spark has no rule to apply.

`grouping.aggregated` and `opening.opened_groups` in DuckDB's words, then the sink of every stage: a
shuffle of Spark costs more than groups are worth that nearly all agree. Rules, averages and what is
made in Python are left to Spark.
"""

from collections.abc import Sequence
from typing import Any

from datarecs_core.comparison.planning.rules import STRICT
from datarecs_core.comparison.planning.scan import GROUP_ROWS, Partial, Scan
from datarecs_core.jobs.vocabulary import Function, NullKeys
from datarecs_kernel.forms import FormKind
from datarecs_kernel.layout import Layout, MeasureLayout, Role
from datarecs_kernel.open_groups import FIRST, OPEN, WEIGHT
from datarecs_kernel.sink import SinkTask
from datarecs_kernel.storing import SinkPlan, Stores
from datarecs_kernel.tallies import SourceTally
from datarecs_spark.kept_rows import Judged, in_form, is_plain
from datarecs_spark.kernel_sql import Connection
from datarecs_spark.kernel_work import quoted
from datarecs_spark.prepare import SOURCE

_BATCH_ROWS = 100_000
_ROWS = "BIGINT"
_SIZES = {FormKind.TEXT: "strlen", FormKind.BINARY: "octet_length"}


def judges_here(layout: Layout) -> bool:
    """Whether groups need nothing that Spark alone does; of a stage that is added up natively."""
    stage = layout.stage
    rules = [*(each.rules for each in layout.keys), *(each.plan.rules for each in layout.measures)]
    return (
        is_plain(layout)
        and all(each == STRICT for each in rules)
        and all(each.plan.function is not Function.AVG for each in layout.measures)
        and stage.null_keys is not NullKeys.EXCLUDE
        and not stage.seal_rows
    )


def judged_groups(
    plan: SinkPlan,
    connection: Connection,
    numbers: Sequence[tuple[int, int]],
    *,
    attempt: str,
    most: int,
) -> Judged | None:
    """Judge the groups; None where many of them differ, or one is above a limit that Spark tells.

    Args:
        plan: of the stage, which `judges_here`.
        connection: with the tables `groups<source>`.
        numbers: per source its rows, and those of them with a NULL in their key.
        attempt: names the files that are written.
        most: groups that differ which one process judges quicker than a shuffle.
    """
    judging = _Judging(plan.layout, connection)
    if judging.over_limits() or judging.opened() > most:
        return None
    names, batches = judging.batches()
    stores = Stores(plan, attempt)
    sink = SinkTask(stores, names)
    for batch in batches:
        sink.take(batch)
    tallies = [SourceTally(extracted=rows, passed=rows, null_keys=nulls) for rows, nulls in numbers]
    sink.close()
    return Judged(counted=stores.finish(), tallies=tuple(tallies))


class _Judging:
    """The groups of all sources in the stage's forms, and what they are together."""

    def __init__(self, layout: Layout, connection: Connection) -> None:
        self.layout, self.connection = layout, connection
        self.keys = [each.name for each in layout.keys]

    def over_limits(self) -> bool:
        sizes = [
            f"coalesce({_SIZES[each.form.kind]}({each.name}), 0)"
            for each in self.layout.keys
            if each.form.kind in _SIZES
        ]
        return any(self._larger(scan, sizes) for scan in self.layout.stage.scans if sizes)

    def _larger(self, scan: Scan, sizes: Sequence[str]) -> int:
        """Groups of a source with a value, or a whole key, above its limit."""
        tests = [f"{size} > {scan.limits.max_value_bytes}" for size in sizes]
        tests.append(f"{' + '.join(sizes)} > {scan.limits.max_key_bytes}")
        given = self._source(scan.index)
        return self._one(f"SELECT count(*) FROM ({given}) WHERE {' OR '.join(tests)}")  # noqa: S608 - made of this module's names

    def opened(self) -> int:
        """Put the groups together; how many of them are not wholly equal."""
        self.connection.execute(f"CREATE TEMP TABLE opened AS {self._opened()}")
        return self._one(f"SELECT count(*) FROM opened WHERE {OPEN}")  # noqa: S608 - a name of this package

    def batches(self) -> tuple[list[str], Any]:
        """Their columns, as `opening` names them, and their rows."""
        found = self.connection.sql("SELECT * FROM opened")
        return found.columns, found.to_arrow_reader(_BATCH_ROWS)

    def _source(self, index: int) -> str:
        columns = [f"{index} AS {SOURCE}", f"{quoted(GROUP_ROWS)} AS n"]
        for field in self.layout.keys:
            plan = field.inputs[index]
            if plan is not None:
                columns.append(f"{in_form(field.form, quoted(plan.column))} AS {field.name}")
        columns += [f"{_given(each, index)} AS m{each.index}" for each in self.layout.compared]
        return f"SELECT {', '.join(columns)} FROM groups{index}"  # noqa: S608 - made of quoted names

    def _opened(self) -> str:
        """One row per group, a number per measure and source."""
        sources = self.layout.sources
        united = " UNION ALL ".join(map(self._source, sources))
        made = [f"{self._of_source('sum(n)', at, _ROWS)} AS n{at}" for at in sources]
        made += [
            f"{self._value(measure, at)} AS v{measure.index}_{at}"
            for measure in self.layout.compared
            for at in sources
        ]
        by = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        present = [] if self.layout.always_present else [f"n{at} > 0" for at in sources]
        equal = [
            f"v{each.index}_0 IS NOT DISTINCT FROM v{each.index}_{at}"
            for each in self.layout.compared
            for at in sources[1:]
        ]
        told = " AND ".join([*present, *equal]) or "TRUE"
        return (
            f"SELECT *, NOT ({told}) AS {OPEN}, TRUE AS {FIRST}, 1::BIGINT AS {WEIGHT}"  # noqa: S608 - made of this module's names
            f" FROM (SELECT {', '.join([*self.keys, *made])} FROM ({united}){by})"
        )

    def _of_source(self, aggregation: str, index: int, kind: str) -> str:
        chosen = f"{aggregation} FILTER (WHERE {SOURCE} = {index})"
        filled = f"coalesce({chosen}, 0)" if kind == _ROWS else chosen
        return f"CAST({filled} AS {kind})"

    def _value(self, measure: MeasureLayout, index: int) -> str:
        """Groups of a source that are one group in the stage's form are merged."""
        value, field = f"m{measure.index}", measure.field
        if field is None or field.role is Role.PRESENCE:
            return self._of_source(f"sum({value})", index, _ROWS)
        if field.role is Role.AMOUNT:
            return self._of_source(f"sum({value})", index, measure.result.sql_type)
        chosen = "max" if measure.plan.function is Function.MAX else "min"
        return f"{chosen}({value}) FILTER (WHERE {SOURCE} = {index})"

    def _one(self, sql: str) -> int:
        ((found,),) = self.connection.execute(sql).fetchall()
        return int(found)


def _given(measure: MeasureLayout, index: int) -> str:
    """A measure of one source, in the form in which all sources meet."""
    plan, field = measure.plan.inputs[index], measure.field
    if field is None or plan is None:
        return quoted(GROUP_ROWS)
    if field.role is Role.PRESENCE:
        return quoted(Partial(function=Function.COUNT, column=plan.column).name)
    given = quoted(Partial(function=measure.plan.function, column=plan.column).name)
    if field.role is Role.AMOUNT:
        return f"CAST({given} AS {measure.result.sql_type})"
    return in_form(field.form, given)
