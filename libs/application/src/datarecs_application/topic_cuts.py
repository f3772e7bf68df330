"""Cut a topic where the table of its job ends: at the positions of the sink that writes the table.

Separate from opening because it decides: the table is pinned first, and its history, not the
topic, says which records it must have. Columns of the topic are those of the table, since a sink
writes no others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from datarecs_core.comparison.planning.scan import Pin, SinkCommit, SourceSchema, TableSnapshot
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.definition import ColumnMapping, OptionValue, Source, TopicBound
from datarecs_core.jobs.types import TypeKind
from datarecs_core.jobs.vocabulary import SourceKind, TopicEdge
from datarecs_core.sink.definition import MetadataColumns

_PLACE = frozenset(MetadataColumns.ALL.columns)
"""Columns that say where a record is, instead of what is in it."""
_NESTED = frozenset({TypeKind.STRUCT, TypeKind.ARRAY, TypeKind.MAP})


class WatermarkMissingError(DatarecsError):
    """The history of the pinned table does not say up to where it has the records of the topic."""

    code = RunDetail.SNAPSHOT_LOST

    def __init__(self, *, source: str, table: str, reason: str) -> None:
        super().__init__(
            f"source {source}: no watermark in the history of the table {table!r}: {reason}"
        )
        self.source, self.table = source, table


def ends_with_table(source: Source) -> bool:
    """Whether the source is a topic that is read up to the watermark."""
    return source.kind is SourceKind.KAFKA and source.snapshot.end.edge is TopicEdge.WATERMARK


def cutting_table(topic: Source, sources: Sequence[Source]) -> int:
    """The index of the table that cuts a topic.

    Raises WatermarkMissingError for a job without, or with several tables.
    """
    tables = [index for index, one in enumerate(sources) if one.kind is SourceKind.ICEBERG]
    if len(tables) != 1:
        reason = f"the job has {len(tables)} iceberg sources, and a watermark is that of one"
        raise WatermarkMissingError(source=topic.name, table="", reason=reason)
    return tables[0]


def pin_order(sources: Sequence[Source]) -> Sequence[int]:
    """The indexes of the sources, topics that a table cuts last."""
    return sorted(range(len(sources)), key=lambda index: ends_with_table(sources[index]))


def cut_again(source: Source, pins: Iterable[Pin]) -> Source:
    """A source for a new pin: a topic that a table cuts ends with the new pin of the table.

    Raises WatermarkMissingError.
    """
    if not ends_with_table(source):
        return source
    table = next(pin for pin in pins if isinstance(pin, TableSnapshot))
    return cut_by(source, table)


def cut_by(topic: Source, pin: Pin) -> Source:
    """The topic with the ends that the pinned table states.

    Raises WatermarkMissingError.
    """
    if not isinstance(pin, TableSnapshot):
        raise TypeError("an iceberg source is pinned by a table's snapshot")
    commit = _commit(topic, pin)
    offsets = {
        str(end.partition): end.offset for end in commit.ends or () if end.topic == topic.topic
    }
    end = TopicBound(edge=TopicEdge.WATERMARK, offsets=offsets, table_snapshot=commit.snapshot_id)
    return replace(topic, snapshot=replace(topic.snapshot, end=end))


def with_table_columns(topic: Source, schema: SourceSchema) -> Source:
    """The topic with the columns of the table; its values alone if they are not decoded into some.

    Types that the job declares win. Which field is which column, the table says.
    """
    topic = replace(topic, columns=_without_absent_places(topic, schema))
    if topic.options.get("decode", "json") not in ("json", "avro"):
        return topic
    columns = {
        column.name: str(column.type)
        for column in schema.columns
        if column.type.kind not in _NESTED and column.name not in _PLACE
    }
    declared = topic.options.get("schema")
    types: dict[str, OptionValue] = {**columns}
    types.update(declared if isinstance(declared, Mapping) else {})
    options: dict[str, OptionValue] = {
        **topic.options,
        "schema": types,
        "infer": "none",
        "fields": dict(schema.record_fields),
    }
    if topic.options.get("fold") == "latest_by_id":
        options["id_columns"] = topic.options.get("id_columns") or schema.identifier
    return replace(topic, options=options)


def _without_absent_places(topic: Source, schema: SourceSchema) -> Mapping[str, ColumnMapping]:
    """Its named columns, but for those about the record that the table does not have.

    A sink fills only those that are there.
    """
    present = {column.name for column in schema.columns}
    return {
        name: mapping
        for name, mapping in topic.columns.items()
        if not (name == mapping.column and name in _PLACE and name not in present)
    }


def _commit(topic: Source, pin: TableSnapshot) -> SinkCommit:
    commit = pin.sink
    if pin.snapshot_id is None:
        # Neither end of the topic is right instead: its begin makes an emptied table equal, its
        # last record makes a difference of each one that waits for the first commit.
        raise _missing(
            topic,
            pin,
            "it has no snapshot, so no record of the topic has become a row yet; compare again "
            "after the first commit. If none follows, the records are dead letters, which "
            "`datarecs sink status` counts",
        )
    if commit is None:
        raise _missing(
            topic,
            pin,
            "no sink has written its snapshots, or those of the sink have expired; keep one of "
            "them, or end the topic with `to: {offsets: …}`",
        )
    if commit.ends is None:
        raise _missing(
            topic,
            pin,
            f"snapshot {commit.snapshot_id} of the sink does not state its positions, which are "
            "too many; end the topic with `to: {offsets: …}`",
        )
    topics = sorted({end.topic for end in commit.ends})
    if topic.topic not in topics:
        raise _missing(
            topic,
            pin,
            f"snapshot {commit.snapshot_id} of the sink is of topic {', '.join(topics) or 'none'}, "
            f"not of {topic.topic}; compare the table with that topic",
        )
    return commit


def _missing(topic: Source, pin: TableSnapshot, reason: str) -> WatermarkMissingError:
    return WatermarkMissingError(source=topic.name, table=pin.table, reason=reason)
