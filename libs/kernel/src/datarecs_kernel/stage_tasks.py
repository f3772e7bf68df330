"""The work of the tasks of a stage: each has its own database, reads its share, returns one answer.

One task reads a whole stage, or many read a share each. Engines start the tasks, here or on other
machines: an act gets the sources of a share and returns a text that can be sent.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

from datarecs_core.comparison.results.results import BucketSum
from datarecs_kernel.counted import Counted
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
from datarecs_kernel.row_counts import RowCount
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.spellings import StoredKeys, spelling_layout, write_spellings
from datarecs_kernel.stages import Attempt, StageAnswer, compare_stage, read_answer
from datarecs_kernel.task_failures import TaskFailureError, raise_failure, report_failures

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
        """The relations of the rows of a layout, which is not always the stage's."""
        return create_relations(connection, self.reading, layout, rechecks, self.columns)


def comparing(work: Work) -> Act:
    """Compare a stage in one task, and count rows before conditions; see `read_comparison`."""

    def act(connection: Connection, rechecks: Rechecks, attempt: str) -> str:
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

    return act


def read_comparison(written: str) -> tuple[StageAnswer, list[int] | None]:
    """Read the answer of `comparing`: the counts, and rows before conditions if there are any."""
    answer, counts = json.loads(written)
    return read_answer(answer), counts


def sealing(work: Work) -> Act:
    """Sums of the fingerprints of a row stage for `proof: rows`, as Counted."""

    def act(connection: Connection, rechecks: Rechecks, _attempt: str) -> str:
        sums = _sealed(connection, work, rechecks, ())
        return Counted(len(work.layout.sources), sealed=sums).written()

    return act


def _sealed(
    connection: Connection, work: Work, rechecks: Rechecks, relations: Sequence[str]
) -> tuple[BucketSum, ...]:
    hashed = work.layout.hashed
    if hashed is None and not work.layout.stage.collapses:
        hashed = sealing_layout(work.layout.stage, work.columns)
        relations = work.relations(connection, hashed, rechecks)
    return seal(connection, work.sink, hashed or work.layout, relations)


def counting(work: Work) -> Act:
    """Count the rows of each source before conditions of the stage, as a list."""

    def act(connection: Connection, rechecks: Rechecks, _attempt: str) -> str:
        return json.dumps(count_rows(connection, work.reading, rechecks, work.columns))

    return act


def spelling(work: Work, parts: Sequence[str]) -> Act:
    """Write each source's spelling of the keys of stored parts; the answer is the file."""
    stored = StoredKeys(sink=work.sink, parts=tuple(parts))
    layout = spelling_layout(work.layout.stage, work.columns)

    def act(connection: Connection, rechecks: Rechecks, attempt: str) -> str:
        place = str(Path(work.resources.directory) / f"spellings-{attempt}.parquet")
        relations = work.relations(connection, layout, rechecks)
        write_spellings(connection, stored, layout, relations, place)
        return place

    return act


def answer_of(work: Work, number: int, act: Act, attempt: str) -> dict[str, str]:
    """The answer of a task for its share, or the error of a source; see `body_of`.

    With one thread if several need too much memory, since each joins other rows.

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


def _answer_of(work: Work, number: int, act: Act, attempt: str) -> dict[str, str]:
    try:
        with open_share(work, number, attempt) as (connection, rechecks):
            return {"outcome": "done", "body": act(connection, rechecks, attempt)}
    except TaskFailureError as failure:
        return dict(failure.document)


def body_of(answer: dict[str, str], layout: Layout) -> str:
    """The text that the act of a task returned.

    Raises:
        InvalidTextsError: the stage must be read with `check_texts`.
        DatarecsError: a source cannot be read, or a value is above its limit.
    """
    if answer["outcome"] != "done":
        raise_failure(answer, layout)
    return answer["body"]


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
