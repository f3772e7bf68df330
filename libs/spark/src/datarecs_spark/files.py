"""The kernel over files: on one machine one task reads, prepares and compares all sources itself.

The task has every core and the kernel's share of memory; Spark only schedules it and ends it. What
DuckDB cannot read is said before or while it reads, and Spark's readers answer instead.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_core.comparison.expressions.condition import named_columns
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.results.results import BucketSum
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.types import TypeKind
from datarecs_kernel.database import Connection, Resources, connected
from datarecs_kernel.delivered import Delivered, delivered
from datarecs_kernel.fingerprints import seal
from datarecs_kernel.layout import Layout, Role, keys_of, layout_of, sealing_layout
from datarecs_kernel.reading_failures import DatabaseError, has_invalid_text, reading_failure
from datarecs_kernel.refusals import SourceFailedError, UnreadableByKernelError
from datarecs_kernel.relations import Scope, create_relation, rows_behind_filter
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.size_limits import too_large
from datarecs_kernel.stages import Attempt, StageAnswer, compare_stage, read_answer
from datarecs_spark.row_counts import RowCount
from datarecs_spark.sinking import attempt_name

READINGS = 2
"""Of every row: to be counted, and to be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """What the task needs to know; travels in a closure."""

    sink: SinkPlan
    resources: Resources
    check_texts: bool
    """Texts may be no UTF-8, which takes another way of reading."""
    scope_files: tuple[str, ...] | None
    """Keys of the groups to which the stage is limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """One source as the task read it."""

    scan: Scan
    extracted: int
    """Rows behind its own filter."""
    pinned_rows: int | None
    """That the pin promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAnswer:
    """What the task found."""

    stage: StageAnswer
    sources: tuple["FileSource", ...]


class InvalidTextsError(Exception):
    """A text is no UTF-8: the stage has to be read with `check_texts`."""


def can_read_files(plan: StagePlan) -> bool:
    """Whether all that the stage needs is files, as far as the plan tells."""
    has_buckets = plan.scope is not None and plan.scope.buckets
    return not (plan.looks or plan.catalogue is not None or plan.has_groups or has_buckets)


def must_check_texts(plan: StagePlan) -> bool:
    """Whether a condition names a text of a source's own files.

    A text that is no UTF-8 leaves the condition undecided, and its row in the stage; DuckDB would
    pass it over wherever statistics of the file say that no text can meet the condition.
    """
    stage_wide = [plan.where, plan.scope.where if plan.scope is not None else None]
    for scan in plan.scans:
        if scan.extract is not None:
            continue
        texts = {each.name for each in scan.columns if each.type.kind is TypeKind.TEXT}
        delivered_texts = {
            each.name for each in scan.schema.columns if each.type.kind is TypeKind.TEXT
        }
        named = [(each, texts) for each in stage_wide]
        named.append((scan.filter, delivered_texts))
        if any(where is not None and known & set(named_columns(where)) for where, known in named):
            return True
    return False


def file_layout(plan: StagePlan, resources: Resources, *, check_texts: bool) -> Layout:
    """The layout of a stage over its files; reads footers.

    Raises:
        SourceFailedError: a file is gone, damaged, or has other columns than were pinned.
        UnreadableByKernelError: Spark has to read a source.
    """
    with connected(resources) as connection:
        return layout_of(plan, _sources(connection, plan, check_texts=check_texts))


def compare_files(session: SparkSession, work: FileWork) -> FileAnswer:
    """Compare a stage in one task.

    Raises:
        InvalidTextsError: it must be done again with `check_texts`.
        UnreadableByKernelError: Spark has to read a source.
        DatarecsError: a source cannot be read at its pin.
        PySparkException: the task failed.
    """
    once = session.range(0, 1, 1, numPartitions=1)
    (row,) = once.mapInArrow(_step(work), "body STRING").collect()
    body = json.loads(row["body"])
    match body["outcome"]:
        case "compared":
            return FileAnswer(
                stage=read_answer(body["stage"]),
                sources=tuple(
                    FileSource(scan=scan, extracted=extracted, pinned_rows=pinned)
                    for scan, (extracted, pinned) in zip(
                        work.sink.layout.stage.scans, body["sources"], strict=True
                    )
                ),
            )
        case "texts":
            raise InvalidTextsError
        case "large":
            raise too_large(ValueError(body["limit"]), work.sink.layout.of_rows) or ValueError
        case "unreadable":
            raise UnreadableByKernelError(body["source"], body["reason"])
        case _:
            raise SourceFailedError(RunDetail[body["code"]], body["source"], body["reason"])


def _step(work: FileWork) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"body": [json.dumps(_answered(work, attempt_name()))]}
            )

    return step


def _answered(work: FileWork, attempt: str) -> dict[str, object]:
    """The answer, or what is wrong with a source, as JSON has it."""
    directory = Path(work.resources.directory) / attempt
    directory.mkdir(parents=True)
    try:
        with connected(replace(work.resources, directory=str(directory))) as connection:
            return _compared(connection, work, attempt)
    except UnreadableByKernelError as refusal:
        return {"outcome": "unreadable", "source": refusal.source, "reason": refusal.reason}
    except SourceFailedError as failure:
        return _failed(failure)
    finally:
        rmtree(directory, ignore_errors=True)


def _failed(failure: SourceFailedError) -> dict[str, object]:
    reason = str(failure).removeprefix(f"source {failure.source}: ")
    code = failure.code.name
    return {"outcome": "failed", "code": code, "source": failure.source, "reason": reason}


def _compared(connection: Connection, work: FileWork, attempt: str) -> dict[str, object]:
    plan, layout = work.sink.layout.stage, work.sink.layout
    count = RowCount(work.resources.directory, attempt, readings=READINGS)
    sources = _sources(connection, plan, check_texts=work.check_texts)
    try:
        relations = _relations(connection, work, layout.of_rows, sources)
        answer = compare_stage(
            connection, work.sink, relations, Attempt(name=attempt, on_rows=count.add)
        )
        answer.counted.sealed = _sealed(connection, work, sources, relations)
        return {
            "outcome": "compared",
            "stage": answer.written(),
            "sources": [
                [rows_behind_filter(connection, each), each.pinned_rows] for each in sources
            ],
        }
    except DatabaseError as failure:
        if not work.check_texts and has_invalid_text(failure):
            return {"outcome": "texts"}
        meaning = reading_failure(connection, failure, layout.of_rows, sources)
        if isinstance(meaning, SourceFailedError):
            return _failed(meaning)
        if meaning is not None:
            return {"outcome": "large", "limit": str(failure)}
        raise


def _sources(connection: Connection, plan: StagePlan, *, check_texts: bool) -> list[Delivered]:
    return [delivered(connection, scan, check_texts=check_texts) for scan in plan.scans]


def _relations(
    connection: Connection, work: FileWork, rows: Layout, sources: Sequence[Delivered]
) -> list[str]:
    plan, scope = work.sink.layout.stage, None
    conditions = [plan.where]
    if plan.scope is not None:
        fields = keys_of(plan.scope.dimensions, sources, "z", role=Role.KEY)
        scope = Scope(fields=fields, files=work.scope_files or ())
        conditions.append(plan.scope.where)
    return [
        create_relation(connection, rows, each, conditions=conditions, scope=scope)
        for each in sources
    ]


def _sealed(
    connection: Connection, work: FileWork, sources: Sequence[Delivered], relations: Sequence[str]
) -> tuple[BucketSum, ...]:
    layout = work.sink.layout
    if not layout.stage.seal_rows:
        return ()
    hashed = layout.hashed
    if hashed is None and not layout.stage.collapses:
        hashed = sealing_layout(layout.stage, sources)
        relations = _relations(connection, work, hashed, sources)
    return seal(connection, work.sink, hashed or layout, relations)
