"""The proof of a sink over records in memory: its printed job's sources, read row by row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import SinkRecord
from datarecs_application.sinking.decoding import decode_json
from datarecs_application.topic_cuts import with_table_columns
from datarecs_connectors.iceberg.connector import IcebergConnector
from datarecs_connectors.kafka.cluster import Cluster, TopicRecord
from datarecs_connectors.kafka.connector import KafkaConnector
from datarecs_connectors.kafka.options import TopicOptions
from datarecs_connectors.sinking.rows import RowConverter
from datarecs_core.comparison.planning.logical import LogicalSource, logical_source
from datarecs_core.comparison.planning.scan import OffsetRange, Pin, TopicOffsets
from datarecs_core.comparison.values.canonical import Value
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.jobs.definition import Source
from datarecs_core.sink.proof import PLACE, ProofOptions, proof_job
from datarecs_testing.tables import NOON

from .sink_house import TARGET, House

Place = tuple[str, int, int]
Rows = Mapping[Place, Mapping[str, Value]]
MILLISECONDS = 1_767_225_600_000


@dataclass(frozen=True)
class MemoryCluster:
    """One topic whose partitions are lists."""

    topic: Sequence[TopicRecord]
    source: str = "topic"

    def records(
        self, _topic: str, partition: int, bounds: tuple[int, int], _check: Callable[[], None]
    ) -> Iterator[Sequence[TopicRecord]]:
        start, end = bounds
        part = [one for one in self.topic if one.partition == partition]
        yield [one for one in part if start <= one.offset < end]


def records_of(*values: bytes | str | None, key: bytes | None = b"k") -> list[TopicRecord]:
    """Of one partition, a second apart."""
    encoded = [one.encode() if isinstance(one, str) else one for one in values]
    return [
        TopicRecord(0, offset, MILLISECONDS + offset * 1_000, key, value)
        for offset, value in enumerate(encoded)
    ]


def land(house: House, records: Sequence[TopicRecord], **changes: Any) -> set[int]:  # noqa: ANN401  fields of SinkTable
    """Write the records as an append sink does; the offsets of dead letters."""
    sink = replace(house.sink, **changes)
    converter = RowConverter(
        house.table().metadata, sink.metadata_columns, ignores_case=sink.case_insensitive
    )
    good: list[SinkRecord] = []
    for one in records:
        if one.value is None:
            continue
        with suppress(BadRecordError):
            record = SinkRecord(record=_log(one), value=decode_json(one.value))
            converter.convert([record])
            good.append(record)
    files = house.write(good, **changes)
    house.commit(house.request(*files))
    landed = {one.record.offset for one in good}
    return {one.offset for one in records if one.value is not None} - landed


def _log(one: TopicRecord) -> LogRecord:
    return LogRecord(
        topic="orders",
        partition=one.partition,
        offset=one.offset,
        timestamp_ms=one.timestamp_ms,
        key=one.key,
        value=one.value,
        headers=(),
    )


def differences(
    house: House,
    records: Sequence[TopicRecord],
    *,
    excluded: Sequence[str] = (),
    condition: str | None = None,
    **changes: Any,  # noqa: ANN401  fields of SinkTable
) -> set[int]:
    """Offsets of the records whose rows the printed job would name."""
    sink = replace(house.sink, tables=(TARGET,), **changes)
    job = proof_job("orders", sink, ProofOptions(excluded=excluded))
    declared, table = (replace(one, filter=condition) for one in job.sources)
    lake = IcebergConnector(source="table", catalog=house.catalog, now=lambda: NOON)
    held = lake.pin(table)
    schema = lake.describe(table, held.pin)
    topic = with_table_columns(declared, schema)
    cluster = KafkaConnector(
        cluster=cast("Cluster", MemoryCluster(records)),
        options=TopicOptions.model_validate(dict(topic.options)),
        now=lambda: NOON,
    )
    pin = TopicOffsets(
        cluster_id="c",
        topic="orders",
        topic_id="t",
        ranges=tuple(
            OffsetRange(partition=number, start=0, end=len(records) + 1)
            for number in sorted({one.partition for one in records})
        ),
        taken_at=NOON,
    )
    logical = (
        logical_source(topic, 0, cluster.describe(topic, pin)),
        logical_source(table, 1, schema),
    )
    names = _compared(logical, excluded)
    rows = (
        _rows(cluster, topic, logical[0], pin, names),
        _rows(lake, table, logical[1], held.pin, names),
    )
    places = rows[0].keys() | rows[1].keys()
    return {place[2] for place in places if rows[0].get(place) != rows[1].get(place)}


def _compared(sources: Sequence[LogicalSource], excluded: Sequence[str]) -> frozenset[str]:
    """As `measures: "*"`."""
    ignored = {*PLACE, *excluded}.union(*(one.metadata for one in sources))
    names: set[str] = set().union(*(one.columns for one in sources))
    missing = {name for name in names - ignored for one in sources if name not in one.columns}
    assert not missing
    return frozenset(names - ignored)


def _rows(
    connector: KafkaConnector | IcebergConnector,
    source: Source,
    logical: LogicalSource,
    pin: Pin,
    names: frozenset[str],
) -> Rows:
    scan = logical.scan(pin, names | set(PLACE))
    rows: dict[Place, Mapping[str, Value]] = {}
    for values in connector.rows(scan):
        row = {
            column.name: canonical(value, column.type, source.name)
            for column, value in zip(scan.columns, values, strict=True)
        }
        place = cast("Place", tuple(row.pop(name).content for name in PLACE))
        assert place not in rows
        rows[place] = row
    return rows
