"""The proof of a sink: the job that compares its topic with its table, at the sink's own cut.

Every record that the table must have is a row of it, once, with the same values: rows are matched
by the place of their record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    ColumnMapping,
    Dimension,
    OptionValue,
    Parameter,
    ReconciliationJob,
    Snapshot,
    Source,
    Stage,
    TopicBound,
)
from datarecs_core.jobs.vocabulary import ParameterType, SourceKind, StageType, TopicEdge
from datarecs_core.scheduling.schedule import Schedule
from datarecs_core.sink.definition import (
    MetadataColumns,
    SinkMode,
    SinkTable,
    StartAt,
    Tombstones,
    ValueFormat,
)
from datarecs_core.values import instant_text

PLACE = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
"""The key of a row."""
_TIMESTAMP, _KEY, _SINCE = "_kafka_timestamp", "_kafka_key", "since"
WATERMARK = TopicBound(edge=TopicEdge.WATERMARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    """What a sink does not declare."""

    cron: str | None = None
    """None: no schedule."""
    timezone: str = "UTC"
    window: timedelta | None = None
    """Only records of this last part of the time, whole minutes; None: the whole topic."""
    excluded: Sequence[str] = ()
    """Columns that are not compared."""


def proof_name(sink: str) -> str:
    return f"{sink}-proof"


def proof_obstacle(sink: SinkTable) -> str | None:
    """Why no job can prove this sink, and what to do; None where one can."""
    if len(sink.topics) != 1 or len(sink.tables) != 1:
        tables = f"{len(sink.tables)} tables" if sink.dynamic is None else "dynamic tables"
        return (
            f"it has {len(sink.topics)} topics and {tables}, and a proof compares one topic with "
            "one table; declare a sink for each"
        )
    if sink.route is not None:
        return (
            "its table has only the records that its route selects; write the job by hand, with "
            "the route as `filter` of the topic"
        )
    return _row_obstacle(sink)


def _row_obstacle(sink: SinkTable) -> str | None:
    """Why the rows of its table cannot be derived from its topic."""
    if sink.metadata_columns is MetadataColumns.NONE:
        return (
            "its rows do not say of which record they are; write them with "
            "metadata_columns: offsets"
        )
    if sink.start is StartAt.LATEST:
        return (
            "it began at the then latest records, which it does not declare; write the job by "
            "hand, with the first offsets of the table as `snapshot.from` of the topic"
        )
    if sink.mode is SinkMode.CDC:
        return (
            "a field of each record says whether its row is deleted; write the job by hand, with "
            "fold: latest_by_id and that field in `filter` of the topic"
        )
    if sink.mode is SinkMode.UPSERT and sink.tombstones is Tombstones.IGNORE:
        return (
            "its rows survive records without a value, and the last record of a key is then not "
            "its row; let tombstones delete"
        )
    return None


def proof_job(name: str, sink: SinkTable, options: ProofOptions) -> ReconciliationJob:
    """The job of a sink that has no obstacle."""
    (topic,), (target,) = sink.topics, sink.tables
    window = None if options.window is None else f"{_TIMESTAMP} >= :{_SINCE}"
    records = Source(
        name="topic",
        kind=SourceKind.KAFKA,
        connection=sink.connection,
        topic=topic,
        filter=window,
        snapshot=Snapshot(start=_start(sink.start), end=WATERMARK),
        # `"*"` compares columns about the record only where a source names them.
        columns={name: ColumnMapping(column=name) for name in _written_places(sink)},
        # The sink makes no rows of records without a value.
        options={"tombstones": "delete"} | _decode(sink) | _names(sink) | _fold(sink),
    )
    table = Source(
        name="table",
        kind=SourceKind.ICEBERG,
        connection=target.catalog,
        relation=str(target),
        filter=window,
    )
    rows = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=tuple(Dimension(name=column) for column in PLACE),
        measures=ALL_COLUMNS,
        except_=tuple(options.excluded),
    )
    return ReconciliationJob(
        name=proof_name(name),
        description=f"The table of sink {name} against its topic.",
        parameters={} if options.window is None else {_SINCE: _since(options.window)},
        sources=(records, table),
        stages=(rows,),
    )


def proof_schedule(name: str, options: ProofOptions) -> Schedule:
    return Schedule(job=proof_name(name), cron=options.cron, timezone=options.timezone)


def _decode(sink: SinkTable) -> dict[str, OptionValue]:
    return {} if sink.value is ValueFormat.JSON else {"decode": str(sink.value)}


def _written_places(sink: SinkTable) -> tuple[str, ...]:
    """Columns about the record that are no key of the comparison; a topic delivers no headers."""
    written = sink.metadata_columns.columns
    return tuple(name for name in (_TIMESTAMP, _KEY) if name in written)


def _names(sink: SinkTable) -> dict[str, OptionValue]:
    return {"case_insensitive": True} if sink.case_insensitive and sink.value.has_fields else {}


def _fold(sink: SinkTable) -> dict[str, OptionValue]:
    """As the sink: by the values of the id columns, not by the bytes of the key of a record."""
    if sink.mode is SinkMode.APPEND:
        return {}
    return {"fold": "latest_by_id"} | ({"id_columns": sink.id_columns} if sink.id_columns else {})


def _start(start: StartAt | datetime) -> TopicBound:
    if isinstance(start, datetime):
        return TopicBound(timestamp=instant_text(start))
    return TopicBound(edge=TopicEdge.EARLIEST)


def _since(window: timedelta) -> Parameter:
    minutes = int(window.total_seconds()) // 60
    return Parameter(
        type=ParameterType.TIMESTAMP,
        default=f"{{{{ run.timestamp - {minutes}m }}}}",
        description="Records of this time and later are compared.",
    )
