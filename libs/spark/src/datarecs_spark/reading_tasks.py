"""Tasks that read sources with the kernel: one that reads a whole stage, or many with a share each.

Spark schedules and ends them; every task has its own database and returns one answer.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from datarecs_core.comparison.results.results import BucketSum
from datarecs_kernel.counted import Counted, read_counted
from datarecs_kernel.database import Connection, Resources, connected
from datarecs_kernel.delivered import Delivered
from datarecs_kernel.fingerprints import seal
from datarecs_kernel.layout import Layout, PlainColumns, sealing_layout
from datarecs_kernel.readings import (
    Reading,
    Rechecks,
    Shares,
    count_rows,
    create_relations,
    read_sources,
)
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.spellings import StoredKeys, spelling_layout, write_spellings
from datarecs_kernel.stages import Attempt, StageAnswer, compare_stage, read_answer
from datarecs_spark.row_counts import RowCount
from datarecs_spark.sinking import attempt_name
from datarecs_spark.task_failures import TaskFailureError, raise_failure, report_failures

Step = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
Act = Callable[[Connection, Rechecks, str], str]
"""Computes the answer of a task from its sources and the name of its attempt."""
READINGS = 2
"""How often every row is read by a single task: to be counted, and to be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The input of the tasks of a stage; sent in a closure."""

    sink: SinkPlan
    reading: Reading
    columns: tuple[PlainColumns, ...]
    """Columns of the whole sources."""
    resources: Resources
    """Resources of one task; the directory is shared, with one folder per attempt."""
    shares: tuple[Shares | None, ...]
    """One share per task; None: one task reads all."""

    @property
    def layout(self) -> Layout:
        return self.sink.layout

    def relations(self, connection: Connection, layout: Layout, rechecks: Rechecks) -> list[str]:
        """The reading of the rows of a layout, which is not always the stage's."""
        return create_relations(connection, self.reading, layout, rechecks, self.columns)


def compare_at_once(session: SparkSession, work: Work) -> tuple[StageAnswer, list[int] | None]:
    """Compare a stage in one task; also count rows before conditions if there are conditions.

    Raises:
        InvalidTextsError: the pass must be repeated with `check_texts`.
        DatarecsError: a source cannot be read at its pin.
        PySparkException: the task failed.
    """

    def compared(connection: Connection, rechecks: Rechecks, attempt: str) -> str:
        count = RowCount(work.resources.directory, attempt, readings=READINGS)
        relations = work.relations(connection, work.layout.of_rows, rechecks)
        whole = Attempt(name=attempt, on_rows=count.add)
        answer = compare_stage(connection, work.sink, relations, whole)
        if work.layout.stage.seal_rows:
            answer.counted.sealed = _sealed(connection, work, rechecks, relations)
        counts = None
        if work.reading.is_limited:
            counts = count_rows(connection, work.reading, rechecks, work.columns)
        return json.dumps([answer.written(), counts])

    (body,) = _collect(session, work, compared)
    answer, counts = json.loads(body)
    return read_answer(answer), counts


def _sealed(
    connection: Connection, work: Work, rechecks: Rechecks, relations: Sequence[str]
) -> tuple[BucketSum, ...]:
    hashed = work.layout.hashed
    if hashed is None and not work.layout.stage.collapses:
        hashed = sealing_layout(work.layout.stage, work.columns)
        relations = work.relations(connection, hashed, rechecks)
    return seal(connection, work.sink, hashed or work.layout, relations)


def seal_shares(session: SparkSession, work: Work) -> tuple[BucketSum, ...]:
    """Sums of the fingerprints of a row stage for `proof: rows`; raises as above."""
    counted = Counted(len(work.layout.sources))

    def sealed(connection: Connection, rechecks: Rechecks, _attempt: str) -> str:
        sums = _sealed(connection, work, rechecks, ())
        return Counted(len(work.layout.sources), sealed=sums).written()

    for body in _collect(session, work, sealed):
        counted.add(read_counted(body, counted.sources))
    return counted.sealed


def count_shares(session: SparkSession, work: Work) -> list[int]:
    """Rows of each source before any condition of the stage; raises as above."""

    def counted(connection: Connection, rechecks: Rechecks, _attempt: str) -> str:
        return json.dumps(count_rows(connection, work.reading, rechecks, work.columns))

    parts = map(json.loads, _collect(session, work, counted))
    return [sum(rows) for rows in zip(*parts, strict=True)]


def spell_shares(session: SparkSession, work: Work, parts: Sequence[str]) -> list[str]:
    """Files with each source's spelling of the keys of stored parts; raises as above."""
    stored = StoredKeys(sink=work.sink, parts=tuple(parts))
    layout = spelling_layout(work.layout.stage, work.columns)

    def spelled(connection: Connection, rechecks: Rechecks, attempt: str) -> str:
        place = str(Path(work.resources.directory) / f"spellings-{attempt}.parquet")
        relations = work.relations(connection, layout, rechecks)
        write_spellings(connection, stored, layout, relations, place)
        return place

    return _collect(session, work, spelled)


def _collect(session: SparkSession, work: Work, act: Act) -> list[str]:
    """The answers of the tasks, in any order."""

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = attempt_name()
        for number in share_numbers(batches):
            answer = _answer_within_memory(work, number, act, attempt)
            yield pa.RecordBatch.from_pydict({"body": [json.dumps(answer)]})

    rows = create_tasks(session, work).mapInArrow(step, "body STRING").collect()
    documents = [json.loads(row["body"]) for row in rows]
    for document in documents:
        if document["outcome"] != "done":
            raise_failure(document, work.layout)
    return [document["body"] for document in documents]


def _answer_within_memory(work: Work, number: int, act: Act, attempt: str) -> dict[str, object]:
    """An answer; with one thread if several need too much memory, since each joins other rows.

    Raises:
        MemoryError: the memory is too small for one thread.
    """
    try:
        return _answer_of(work, number, act, attempt)
    except MemoryError:
        if work.resources.threads == 1:
            raise
    alone = replace(work, resources=replace(work.resources, threads=1))
    return _answer_of(alone, number, act, attempt)


def _answer_of(work: Work, number: int, act: Act, attempt: str) -> dict[str, object]:
    """The answer of the task for its share, or the error of a source."""
    try:
        with open_share(work, number, attempt) as (connection, rechecks):
            return {"outcome": "done", "body": act(connection, rechecks, attempt)}
    except TaskFailureError as failure:
        return dict(failure.document)


def create_tasks(session: SparkSession, work: Work) -> DataFrame:
    """One partition per share, with its number."""
    return session.range(0, len(work.shares), 1, numPartitions=len(work.shares))


def share_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Read shares in the form that `create_tasks` sends to a task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


@contextmanager
def open_share(work: Work, number: int, attempt: str) -> Iterator[tuple[Connection, Rechecks]]:
    """The sources of a share in the database of this attempt.

    Raises:
        TaskFailureError: a source cannot be read.
    """
    with open_database(work.resources, attempt) as connection:
        sources = list[Delivered]()
        layout, check_texts = work.layout.of_rows, work.reading.check_texts
        with report_failures(connection, layout, sources, check_texts=check_texts):
            rechecks = read_sources(connection, work.reading, work.shares[number])
            sources += [source for recheck in rechecks for source in recheck]
            yield connection, rechecks


@contextmanager
def open_database(resources: Resources, attempt: str) -> Iterator[Connection]:
    """A database that spills to a folder of this attempt; the folder is removed afterwards."""
    directory = Path(resources.directory) / attempt
    directory.mkdir(parents=True)
    try:
        with connected(replace(resources, directory=str(directory))) as connection:
            yield connection
    finally:
        rmtree(directory, ignore_errors=True)
