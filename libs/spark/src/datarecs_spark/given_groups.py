"""Stages whose databases gave groups: Spark adds them up beside the rows of the other sources.

The one way of a stage that the kernel does not group: partial sums of a database have a weight, and
are few.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from datarecs_core.jobs.vocabulary import NullKeys
from datarecs_kernel.counted import Counted, read_counted
from datarecs_kernel.stages import StageAnswer
from datarecs_kernel.storing import SinkPlan
from datarecs_spark.grouping import aggregated, null_key
from datarecs_spark.limiting import limited
from datarecs_spark.opening import opened_groups
from datarecs_spark.sinking import SUMMARY, sunk
from datarecs_spark.tally import passed_rows, read_tallies


def compared_groups(sink: SinkPlan, rows: DataFrame) -> list[DataFrame]:
    """What is to be collected: the numbers of groups, and of the rows that they are made of.

    Args:
        sink: of the stage.
        rows: groups that sources gave, and prepared rows of the others.
    """
    layout, counted = sink.layout, rows
    if layout.stage.null_keys is NullKeys.EXCLUDE:
        counted = rows.filter(f"NOT {null_key(layout.keys)}")
    groups = opened_groups(layout, aggregated(layout, limited(layout, counted)))
    return [sunk(groups, sink), passed_rows(layout, rows)]


def read_groups(sink: SinkPlan, answers: Sequence[tuple[str, str]]) -> StageAnswer:
    """The numbers that were collected."""
    sources = len(sink.layout.sources)
    counted = Counted(sources)
    for what, body in answers:
        if what == SUMMARY:
            counted.add(read_counted(body, sources))
    tallies = read_tallies(sink.layout, answers)
    for tally in tallies:
        tally.extracted = tally.passed or tally.extracted
    return StageAnswer(counted=counted, tallies=tuple(tallies))
