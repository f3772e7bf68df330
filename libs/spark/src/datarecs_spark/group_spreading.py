"""Groups of aggregate stages on several executors: every task adds up its share of the rows.

A group whose rows lie in several shares comes in as many parts. Spark merges these as it merges
groups that rules make equal, so nothing is added up here but numbers of rows.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from datarecs_spark.accepting import accepted, attempts_of, fresh
from datarecs_spark.group_kernel import GroupAnswer, GroupTask, PartNumbers, added_up, faults
from datarecs_spark.kernel_sql import connected
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.row_counts import RowCount
from datarecs_spark.share_work import Kind, Told, Work, failures_told, hashes_of, opened
from datarecs_spark.shares import shares
from datarecs_spark.spreading import (
    LEAST_MEMORY,
    SHARES_PER_CORE,
    Exchange,
    all_told,
    cores_of_one,
    over_spark,
)

_GROUPS = "groups"
GroupsFile = tuple[str, int]
"""A file of groups, by its path below the task's directory, and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadGroups:
    """What all tasks found."""

    answer: GroupAnswer
    files: tuple[tuple[GroupsFile, ...], ...]
    """Per source, at least one."""


def spread_groups(session: SparkSession, task: GroupTask, stage: str) -> SpreadGroups:
    """Run the work item on all executors, whose directory is shared by all.

    Raises:
        NotNativeError: the stage must be read whole, and why.
    """
    own = max(LEAST_MEMORY, task.kernel.memory_bytes // cores_of_one(session))
    alone = replace(task, kernel=replace(task.kernel, memory_bytes=own))
    count = SHARES_PER_CORE * session.sparkContext.defaultParallelism
    return spread_groups_by(partial(over_spark, session), alone, count, stage)


def spread_groups_by(
    exchange: Exchange, task: GroupTask, most_shares: int, stage: str
) -> SpreadGroups:
    """`spread_groups` by any exchange.

    Raises:
        NotNativeError: as there.
    """
    with connected(task.kernel) as connection:
        hashes = hashes_of(connection)
    cut = shares(task.kernel.sources, most_shares)
    work = Work(task=replace(task.kernel, threads=1), shares=cut, range_bits=1, hashes=hashes)
    directory = Path(task.kernel.directory) / _GROUPS
    step = partial(_step, work, task, fresh(attempts_of(directory)))
    told = all_told(exchange, work, step)
    parts = [
        [_read(each) for each in told if (each.kind, each.at) == (Kind.GROUPS, index)]
        for index in range(len(task.kernel.sources))
    ]
    numbers = [_together([each for _, each in own]) for own in parts]
    _check(task, numbers)
    files = [
        [(name, each.groups) for name, each in own if each.groups] or [(own[0][0], 0)]
        for own in parts
    ]
    accepted(stage, [name for own in files for name, _ in own], directory)
    answer = GroupAnswer(
        read=tuple(each.read for each in numbers),
        filtered=tuple(each.filtered for each in numbers),
        rows=tuple(each.rows for each in numbers),
        null_keys=tuple(each.null_keys for each in numbers),
        groups=tuple(each.groups for each in numbers),
    )
    placed = tuple(tuple((f"{_GROUPS}/{name}", groups) for name, groups in own) for own in files)
    return SpreadGroups(answer=answer, files=placed)


def _step(work: Work, task: GroupTask, attempts: Path, at: int, attempt: str) -> Iterator[Told]:
    """Groups of every part of a share, each in a file, and their numbers."""
    count = RowCount(work.task.directory, attempt, readings=1)
    with failures_told() as failures, opened(work, attempt) as connection:
        for number, part in enumerate(work.shares[at]):
            own = replace(
                task,
                kernel=replace(work.task, sources=(part.source,)),
                numbers=(task.numbers[part.index],),
                totals=(task.totals[part.index],),
            )
            name = f"{at}-{number}-{attempt}.parquet"
            found = added_up(own, connection, attempts / name)
            count.add(found.read)
            yield Told(Kind.GROUPS, part.index, json.dumps([name, asdict(found)]).encode())
    yield from failures


def _read(told: Told) -> tuple[str, PartNumbers]:
    name, found = json.loads(told.body)
    return name, PartNumbers(**{**found, "magnitudes": tuple(found["magnitudes"])})


def _together(parts: Sequence[PartNumbers]) -> PartNumbers:
    """Of one source."""
    return PartNumbers(
        read=sum(each.read for each in parts),
        filtered=sum(each.filtered for each in parts),
        rows=sum(each.rows for each in parts),
        null_keys=sum(each.null_keys for each in parts),
        groups=sum(each.groups for each in parts),
        largest=max(each.largest for each in parts),
        magnitudes=tuple(map(sum, zip(*(each.magnitudes for each in parts), strict=True))),
    )


def _check(task: GroupTask, numbers: Sequence[PartNumbers]) -> None:
    groups = 0
    for index, (source, each) in enumerate(zip(task.kernel.sources, numbers, strict=True)):
        if each.read != source.rows:
            raise NotNativeError("tasks have not read every row once")
        groups += each.groups
        reason = next(faults(task, index, groups, (each.largest, *each.magnitudes)), None)
        if reason is not None:
            raise NotNativeError(reason)
