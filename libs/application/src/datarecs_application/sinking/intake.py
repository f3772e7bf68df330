"""Records into the writers of their tables, and what becomes of records that do not fit.

A record that goes to two tables is in both or in neither. Writers cannot give a row back, so where
one table refuses what another has taken already, the open cycle is discarded and read again; the
refused record is remembered and passed over then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import (
    DeadLetter,
    DecodedValue,
    SinkRecord,
    SinkTables,
    TableWriter,
    ValueDecoder,
)
from datarecs_application.sinking.decoding import RecordTooLargeError, decode_object
from datarecs_application.sinking.defects import located
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.sink import BadRecordError, SinkCode, SinkError
from datarecs_core.sink.bad_records import RecentBadRecords
from datarecs_core.sink.changes import RecordChanges
from datarecs_core.sink.checkpoint import TablePlace
from datarecs_core.sink.control import FileEntry, KeyFile, SourcePartition, TableReference
from datarecs_core.sink.definition import ErrorPolicy, RowChange, SinkTarget, Tolerance
from datarecs_core.sink.dynamic import NamedTables
from datarecs_core.sink.routing import Route

log = structlog.get_logger()

_CAREFUL_RECORDS = 128
"""Records added at once after one of the batch was refused; each refusal costs one such attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What became of a batch of one partition."""

    refused: LogRecord | None = None
    """The sink stops before this record."""
    error: BadRecordError | None = None
    is_spoilt: bool = False
    """Writers hold rows that must not be voted: discard, and read the cycle again."""


@dataclass(slots=True)
class _Batch:
    """Decoded records of one partition, by the table that they go to."""

    records: Sequence[LogRecord]
    by_target: dict[int, tuple[list[int], list[SinkRecord]]] = field(default_factory=dict)
    """Table -> indexes in `records`, and the records."""
    bad: dict[int, BadRecordError] = field(default_factory=dict)
    unrouted: int = 0
    ignored: int = 0
    done: set[int] = field(default_factory=set)
    """Tables that have their records."""
    last_added: int = -1
    """Largest index that is in a writer."""
    is_spoilt: bool = False
    """A table has a record that another one refused."""


@dataclass(slots=True, kw_only=True)
class TableIntake:
    """The writers of one task, and its dead letters since the last vote."""

    tables: SinkTables
    targets: Mapping[int, SinkTarget]
    """By the numbers that `route` and `named` give."""
    route: Route
    policy: ErrorPolicy
    decode: ValueDecoder = decode_object
    named: NamedTables | None = None
    """Instead of `route`: records name their tables."""
    changes: RecordChanges = field(default_factory=RecordChanges)
    known_tables: Callable[[], Mapping[TablePlace, UUID]] = dict
    """Tables that hold commits of the sink."""
    key_files: Mapping[TableReference, KeyFile] = field(default_factory=dict)
    """Of the last finish, by table."""
    unrouted: int = 0
    """Records for no table, since the task began."""
    tombstones: int = 0
    """Records without a value that were ignored, and deletes for a table that did not exist yet,
    since the task began."""
    dead_letters: int = 0
    """Voted, since the task began."""
    _dropped_fields: int = 0
    """By writers that are gone."""
    letters: list[DeadLetter] = field(default_factory=list)
    _writers: dict[int, TableWriter] = field(default_factory=dict)
    _references: dict[int, TableReference] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)
    """Tables that refused a record lately come first: then nothing is in another one yet."""
    _known_bad: dict[tuple[SourcePartition, int], BadRecordError] = field(default_factory=dict)
    """By partition and offset, since the last vote."""
    _recent: dict[SourcePartition, RecentBadRecords] = field(default_factory=dict)
    _voted_recent: dict[SourcePartition, RecentBadRecords] = field(default_factory=dict)

    def take(self, partition: SourcePartition, records: Sequence[LogRecord]) -> Intake:
        """Add the records, in their order, up to the first at which the sink stops.

        Raises SinkError, errors of connectors, and DefectError with the place of anything else. The
        open cycle must be discarded then.
        """
        if not records:
            return Intake()
        place = _place(records)
        with located(place):
            batch = self._decoded(partition, records)
        for target in self._in_order(batch):
            with located(f"table {self.targets[target]}, {place}"):
                self._add_all(batch, target)
            batch.done.add(target)
        for index, error in batch.bad.items():
            self._known_bad[partition, records[index].offset] = error
        stop = self._stop_index(partition, batch)
        self.unrouted += batch.unrouted
        self.tombstones += batch.ignored
        if stop is None:
            return Intake(is_spoilt=batch.is_spoilt)
        spoilt = batch.is_spoilt or batch.last_added >= stop
        return Intake(refused=records[stop], error=batch.bad[stop], is_spoilt=spoilt)

    @property
    def dropped_fields(self) -> int:
        """Values of fields without a column, since the task began."""
        return self._dropped_fields + sum(one.dropped_fields for one in self._writers.values())

    @property
    def _stops_at_once(self) -> bool:
        return self.policy.tolerance is Tolerance.NONE

    def _decoded(self, partition: SourcePartition, records: Sequence[LogRecord]) -> _Batch:
        batch = _Batch(records)
        by_target, known_bad = batch.by_target, self._known_bad
        for index, record in enumerate(records):
            if record.value is None and not self.changes.deletes_by_tombstone:
                batch.ignored += 1
                continue
            try:
                if known_bad and (partition, record.offset) in known_bad:
                    raise known_bad[partition, record.offset]
                decoded = self._read(record)
                targets = self._targets(decoded)
            except BadRecordError as error:
                batch.bad[index] = error
                if self._stops_at_once or _is_too_large(error):
                    break
                continue
            if not targets:
                batch.unrouted += 1
                continue
            for target in targets:
                indexes, places = by_target.setdefault(target, ([], []))
                indexes.append(index)
                places.append(decoded)
        return batch

    def _read(self, record: LogRecord) -> SinkRecord:
        """Raises BadRecordError."""
        if record.value is not None:
            value, schema = _decoded(self.decode, record.value)
            return SinkRecord(
                record=record, value=value, change=self.changes.change(value), schema=schema
            )
        if record.key is None:
            raise BadRecordError(path="", reason="a record without value has no key to delete")
        try:
            # A key of Avro begins with a zero, which no JSON does.
            decode = self.decode if record.key[:1] == b"\0" else decode_object
            value, schema = _decoded(decode, record.key)
        except RecordTooLargeError:
            raise
        except BadRecordError as error:
            raise BadRecordError(path="", reason=f"the key to delete: {error}") from error
        return SinkRecord(record=record, value=value, change=RowChange.DELETE, schema=schema)

    def _targets(self, decoded: SinkRecord) -> Sequence[int]:
        """Raises BadRecordError for a delete that no table would see."""
        if self.named is not None:
            return (self.named.number(decoded.record.topic, decoded.value),)
        targets = self.route(decoded.value)
        if not targets and decoded.record.value is None:
            reason = "the key of a record without value goes to no table"
            raise BadRecordError(path="", reason=reason)
        return targets

    def _in_order(self, batch: _Batch) -> list[int]:
        first = [target for target in self._order if target in batch.by_target]
        return [*first, *(target for target in batch.by_target if target not in first)]

    def _add_all(self, batch: _Batch, target: int) -> None:
        """Add what goes to one table, around the records that it refuses."""
        indexes, records = batch.by_target[target]
        if batch.bad:
            wanted = [place for place, index in enumerate(indexes) if self._fits(batch, index)]
            indexes, records = [indexes[at] for at in wanted], [records[at] for at in wanted]
        refused: dict[int, BadRecordError] = {}
        size, done = len(indexes), 0
        while done < len(indexes):
            end = min(done + size, *refused, len(indexes))
            try:
                self._add(batch, target, indexes[done:end], records[done:end])
                done = end
            except BadRecordError as error:
                # It need not be the first one, so what is before it is tried again.
                at = _refused_place(error, end - done)
                if at is None:
                    size = (end - done) // 2
                    continue
                refused[done + at], size = error, _CAREFUL_RECORDS
            if done in refused:
                self._refuse(batch, target, indexes[done], refused.pop(done))
                done += 1
                if self._stops_at_once:
                    return

    def _fits(self, batch: _Batch, index: int) -> bool:
        if self._stops_at_once:
            return index < min(batch.bad)
        return index not in batch.bad

    def _add(
        self, batch: _Batch, target: int, indexes: list[int], records: list[SinkRecord]
    ) -> None:
        if not records:
            return
        writer = self._writers.get(target)
        if writer is None:
            writer = self._writers[target] = self._writer(target)
        passed = writer.add(records)
        batch.ignored += passed
        if passed == len(records):
            return
        batch.last_added = max(batch.last_added, indexes[-1])
        if target not in self._references:
            self._references[target] = writer.reference()

    def _writer(self, target: int) -> TableWriter:
        """A table that a record names may be missing: that record is bad, and no other."""
        if self.named is not None:
            self.named.require(target)
        at = self.targets[target]
        known = self.known_tables().get((at.catalog, at.namespace, at.name))
        try:
            return self.tables.writer(at, known=known)
        except SinkError as error:
            is_lost = error.code is SinkCode.TABLE_LOST and known is None
            if self.named is None or not is_lost:
                raise
            raise self.named.missing(target, str(error)) from error

    def _refuse(self, batch: _Batch, target: int, index: int, error: BadRecordError) -> None:
        batch.bad[index] = error
        if error.__cause__ is not None and not isinstance(error.__cause__, DatarecsError):
            log.error("sink_record_not_converted", exc_info=error.__cause__)
        if any(index in batch.by_target[other][0] for other in batch.done):
            batch.is_spoilt = True
        self._order = [target, *(other for other in self._order if other != target)]

    def _stop_index(self, partition: SourcePartition, batch: _Batch) -> int | None:
        """Where the sink stops; before it, bad records become dead letters.

        A record that is too large to read is too large for a dead letter.
        """
        if self._stops_at_once:
            return min(batch.bad, default=None)
        recent = self._recent.get(partition, RecentBadRecords())
        for index in sorted(batch.bad):
            error = batch.bad[index]
            if _is_too_large(error):
                return index
            recent = recent.with_bad(index)
            if excess := recent.excess(self.policy):
                reason = f"{error.reason}; {excess}"
                batch.bad[index] = BadRecordError(path=error.path, reason=reason)
                return index
            record = batch.records[index]
            self.letters.append(DeadLetter(record=record, reason=error.reason, path=error.path))
        self._recent[partition] = recent.after(len(batch.records))
        return None

    def size(self) -> int:
        """Bytes in memory of all writers."""
        return sum(writer.size() for writer in self._writers.values())

    def shrink(self, most_bytes: int) -> None:
        """Write the largest buffers to files until the others fit."""
        while (size := self.size()) > most_bytes:
            target, writer = max(self._writers.items(), key=lambda item: item[1].size())
            with located(f"table {self.targets[target]}"):
                writer.flush()
            if self.size() >= size:
                return

    def finish(self) -> Mapping[TableReference, tuple[FileEntry, ...]]:
        """Complete files of every table, since the last finish."""
        files: dict[TableReference, tuple[FileEntry, ...]] = {}
        keys: dict[TableReference, KeyFile] = {}
        for target, writer in self._writers.items():
            with located(f"table {self.targets[target]}"):
                entries, key_file = writer.finish(), writer.key_file()
            if entries or key_file is not None:
                files[self._references[target]] = entries
            if key_file is not None:
                keys[self._references[target]] = key_file
        self.key_files = keys
        return files

    def voted(self) -> None:
        """A vote with the files and the dead letters was taken."""
        self.dead_letters += len(self.letters)
        self._voted_recent = dict(self._recent)
        self.letters.clear()
        self._known_bad.clear()
        self._forget_writers()

    def discard(self) -> None:
        """Forget everything since the last vote, apart from which records are bad."""
        self.letters.clear()
        self._recent = dict(self._voted_recent)
        writers = list(self._writers.values())
        self._forget_writers()
        for writer in writers:
            writer.discard()

    def _forget_writers(self) -> None:
        """New ones see the tables as they are then."""
        self._dropped_fields = self.dropped_fields
        self._writers.clear()
        self._references.clear()
        if self.named is not None:
            self.named.recheck()
            self._order = [target for target in self._order if target in self.targets]


def _decoded(decode: ValueDecoder, value: bytes) -> DecodedValue:
    """Raises BadRecordError, also for an exception of which only the class is known."""
    try:
        return decode(value)
    except (DatarecsError, OSError, MemoryError):
        raise
    except Exception as cause:
        log.exception("sink_record_not_converted")
        reason = f"the record cannot be converted ({type(cause).__name__})"
        raise BadRecordError(path="", reason=reason) from cause


def _place(records: Sequence[LogRecord]) -> str:
    first, last = records[0], records[-1]
    return f"{first.topic} {first.partition}, offsets {first.offset} to {last.offset}"


def _is_too_large(error: BadRecordError) -> bool:
    return error.code is SinkCode.RECORD_TOO_LARGE


def _refused_place(error: BadRecordError, records: int) -> int | None:
    """Index of the record that an error of so many is about; None: fewer must be tried."""
    if records == 1:
        return 0
    return error.at if 0 <= error.at < records else None
