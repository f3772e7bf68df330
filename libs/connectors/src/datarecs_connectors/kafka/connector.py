"""A topic as a source: pinned by offsets, read per partition, decoded into rows.

Records are read for each purpose again: types are inferred from every value before the first row is
written, as with JSON lines.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from threading import Event

import pyarrow as pa

from datarecs_application.ports.comparing import ProbeStep, Read
from datarecs_application.stopping import StoppedError, Stopping
from datarecs_connectors.avro.registries import SchemaRegistry
from datarecs_connectors.declared_types import typed_values
from datarecs_connectors.errors import SourceLimitError, SourceUnsupportedError
from datarecs_connectors.extracting import Batches, Readers, write_extract, write_together
from datarecs_connectors.filtering import RowFilter, filter_of
from datarecs_connectors.kafka.cluster import Cluster, TopicRecord
from datarecs_connectors.kafka.decoding import (
    HEADERS,
    HEADERS_COLUMN,
    METADATA_COLUMNS,
    METADATA_NAMES,
    PARTITION,
    Decoder,
    Row,
)
from datarecs_connectors.kafka.folding import LastRecords, last_records, record_key
from datarecs_connectors.kafka.options import Fold, Tombstones, TopicOptions
from datarecs_connectors.kafka.pinning import HeldTopic, check_identity, pin_topic, topic_pin
from datarecs_connectors.probing import steps
from datarecs_connectors.typed_text import table_of
from datarecs_core.comparison.planning.scan import (
    OffsetRange,
    Pin,
    Ranges,
    Scan,
    SourceSchema,
    TopicOffsets,
)
from datarecs_core.jobs.definition import LATEST, Limits, Source
from datarecs_core.jobs.vocabulary import TopicEdge

BATCH_ROWS, BATCH_BYTES = 10_000, 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnector:
    """Port Connector over one cluster."""

    cluster: Cluster
    options: TopicOptions
    now: Callable[[], datetime]
    registry: SchemaRegistry | None = None
    """Of the connection."""
    stop: Stopping = field(default_factory=Stopping)
    """Ends the reading of records."""
    _folds: dict[TopicOffsets, LastRecords] = field(default_factory=dict)

    def pin(self, source: Source) -> HeldTopic:
        return pin_topic(self.cluster, source, self.now)

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Columns of the values, then those about the record."""
        if self.options.fault is not None:
            raise SourceUnsupportedError(self.cluster.source, self.options.fault)
        topic = topic_pin(pin)
        decoder = self._decoder(topic, source.limits)
        columns, rows, size = decoder.plain_columns, None, None
        if columns is None:
            records = chain.from_iterable(self._lists(topic, source.limits))
            inferred = decoder.inferred(_limited(self.cluster.source, records, source.limits))
            columns, rows, size = inferred.columns, inferred.rows, inferred.size_bytes
        filled = sum(each.end > each.start for each in topic.ranges)
        at_once = max(min(filled, source.limits.max_connections), 1)
        is_table = self.options.infer == "none"
        return SourceSchema(
            columns=(*columns, *METADATA_COLUMNS, *((HEADERS_COLUMN,) if is_table else ())),
            undelivered=((HEADERS, "headers"),) if is_table else (),
            estimated_rows=sum(each.end - each.start for each in topic.ranges)
            if rows is None
            else rows,
            estimated_bytes=size,
            ranges=Ranges(count=max(filled, 1), at_once=at_once, by=PARTITION),
        )

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        names = [column.physical or "" for column in scan.columns]
        topic = topic_pin(scan.pin)
        delivery = self._delivery(scan)
        for part in topic.ranges:
            records = self._partition(topic, part, scan.limits, self.stop.check)
            for _, row in delivery.rows(records):
                yield tuple(row[name] for name in names)

    def batches(self, scan: Scan) -> Batches:
        topic, delivery = topic_pin(scan.pin), self._delivery(scan)
        return delivery.batches(self._lists(topic, scan.limits))

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        """One file per partition with rows."""
        topic, delivery, ended = topic_pin(scan.pin), self._delivery(scan), Event()
        check_identity(self.cluster, topic)
        self._last(topic, scan.limits)  # once, before several readers need it

        def check() -> None:
            self.stop.check()
            if ended.is_set():
                raise StoppedError

        def part(of: OffsetRange) -> Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]:
            yield from delivery.batches(self._partition(topic, of, scan.limits, check))

        filled = [each for each in topic.ranges if each.end > each.start]
        if filled:
            ranges = scan.schema.ranges or Ranges()
            brought = write_together(
                scan,
                [partial(part, each) for each in filled],
                directory,
                progress,
                readers=Readers(at_once=ranges.at_once, interrupt=ended.set),
            )
        else:
            brought = write_extract(scan, delivery.batches(iter(())), directory, progress)
        check_identity(self.cluster, topic)
        return brought

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        """Address, login, registry if there is one, then the topic if one is given."""

        def login() -> str:
            count = len(self.cluster.topics())
            security = self.cluster.config.security
            shield = "TLS" if security.is_encrypted else "not encrypted"
            return f"{count} {'topic' if count == 1 else 'topics'} visible, {shield}"

        def topic() -> str:
            if source is None:
                return ""
            if source.snapshot.end.edge is TopicEdge.WATERMARK:
                snapshot = replace(source.snapshot, end=LATEST)
                pin = self.pin(replace(source, snapshot=snapshot)).pin
            else:
                pin = self.pin(source).pin
            total = sum(each.end - each.start for each in pin.ranges)
            return f"{len(pin.ranges)} partitions, {total} offsets to read"

        return steps(
            ("address", self.cluster.check_addresses),
            ("login", login),
            *((("registry", self.registry.check),) if self.registry else ()),
            *((("topic", topic),) if source else ()),
        )

    def close(self) -> None:
        """Nothing to close: each read closes its client."""

    def _decoder(self, topic: TopicOffsets, limits: Limits) -> Decoder:
        return Decoder(
            source=self.cluster.source,
            topic=topic.topic,
            options=self.options,
            max_value_bytes=limits.max_value_bytes,
            registry=self.registry,
        )

    def _delivery(self, scan: Scan) -> "_Delivery":
        decoder = self._decoder(topic_pin(scan.pin), scan.limits)
        wanted = filter_of(scan)
        kinds = {column.name: column.type for column in scan.schema.columns}
        names = list(
            dict.fromkeys((*(column.physical or "" for column in scan.columns), *wanted.columns))
        )
        is_of_places = bool(wanted.columns) and METADATA_NAMES.issuperset(wanted.columns)
        return _Delivery(
            scan=scan,
            wanted=wanted,
            row=decoder.rows(names, kinds),
            place=decoder.places(wanted.columns) if is_of_places else None,
        )

    def _lists(self, topic: TopicOffsets, limits: Limits) -> Iterator[Sequence[TopicRecord]]:
        for each in topic.ranges:
            yield from self._partition(topic, each, limits, self.stop.check)

    def _partition(
        self, topic: TopicOffsets, part: OffsetRange, limits: Limits, check: Callable[[], None]
    ) -> Iterator[Sequence[TopicRecord]]:
        """Records of a partition that are rows."""
        last = self._last(topic, limits)
        has_deletes = self.options.tombstones is Tombstones.DELETE
        for records in self._read(topic, part, check):
            rows = records if last is None else list(last.of(records))
            if has_deletes:
                rows = [record for record in rows if record.value is not None]
            if rows:
                yield rows

    def _last(self, topic: TopicOffsets, limits: Limits) -> LastRecords | None:
        if self.options.fold is Fold.NONE:
            return None
        if topic not in self._folds:
            read = (self._read(topic, each, self.stop.check) for each in topic.ranges)
            key_of = (
                partial(record_key, self.cluster.source)
                if self.options.fold is Fold.LATEST_BY_KEY
                else self._decoder(topic, limits).row_keys()
            )
            self._folds[topic] = last_records(chain.from_iterable(read), key_of)
        return self._folds[topic]

    def _read(
        self, topic: TopicOffsets, part: OffsetRange, check: Callable[[], None]
    ) -> Iterator[Sequence[TopicRecord]]:
        if part.end > part.start:
            yield from self.cluster.records(
                topic.topic, part.partition, (part.start, part.end), check
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delivery:
    """Turns records into what a scan delivers."""

    scan: Scan
    wanted: RowFilter
    row: Callable[[TopicRecord], Row]
    place: Callable[[TopicRecord], Row] | None
    """The columns of the condition, where they need no value; None where they do."""

    def rows(self, lists: Iterator[Sequence[TopicRecord]]) -> Iterator[tuple[int, Row]]:
        """The size of each record that matches the filter, and its values by physical name."""
        for record in chain.from_iterable(lists):
            if self.place is not None and not self.wanted.matches(self.place(record)):
                continue  # its value may be one that cannot be decoded
            made = self.row(record)
            if self.place is not None or self.wanted.matches(made):
                yield len(record.value or b"") + len(record.key or b""), made

    def batches(
        self, lists: Iterator[Sequence[TopicRecord]]
    ) -> Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]:
        """At least one batch, maybe empty."""
        rows: list[Row] = []
        size = batches = 0
        for length, row in self.rows(lists):
            rows.append(row)
            size += length
            if len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield self._batch(rows)
                rows, size, batches = [], 0, batches + 1
        if rows or not batches:
            yield self._batch(rows)

    def _batch(self, rows: Sequence[Row]) -> tuple[pa.RecordBatch, tuple[str, ...]]:
        columns = [
            typed_values([row[column.physical or ""] for row in rows], column.type)
            for column in self.scan.columns
        ]
        return table_of([column.name for column in self.scan.columns], columns)


def _limited(source: str, records: Iterator[TopicRecord], limits: Limits) -> Iterator[TopicRecord]:
    """The records, up to the limits of the source."""
    size = 0
    for count, record in enumerate(records, start=1):
        size += len(record.value or b"")
        if count > limits.max_rows or size > limits.max_bytes:
            raise SourceLimitError(
                source,
                f"its topic has more than {limits.max_rows} records or {limits.max_bytes} bytes "
                "(limits.max_rows, limits.max_bytes); begin later with snapshot.from",
            )
        yield record
