"""Rows and deletes of one table whose rows have a key: the newest of each key and partition.

Of the records in memory only the last of each key and source partition is written. Memory that is
needed earlier ends this: the same key may then be in two files, and the commit decides by the key
file, which has every row that was written.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.metadata import TableMetadata

from datarecs_application.ports.sinking import SinkRecord
from datarecs_connectors.locations import Places
from datarecs_connectors.sinking.key_files import PLACE_FIELDS, KeyFileWriter
from datarecs_connectors.sinking.parquet_writing import TableFileWriter
from datarecs_connectors.sinking.partitions import Partitioner
from datarecs_connectors.sinking.row_keys import (
    CHANGE_FIELDS,
    CODES,
    KeyConverter,
    change_columns,
    check_deletable,
    id_fields,
    stored,
)
from datarecs_connectors.sinking.rows import RowConverter
from datarecs_connectors.sinking.writer import reference_of
from datarecs_core.errors.sink import BadRecordError, SinkCode, SinkError
from datarecs_core.sink.control import FileEntry, KeyFile, TableReference
from datarecs_core.sink.definition import MetadataColumns, RowChange, SinkTarget

MOST_RECORDS = 2_000_000
"""In memory; then they are written, whatever their size."""
_NUMBER = pa.field("number", pa.int64())
"""Of the record, in the order of their arrival."""
_DELETE = CODES[RowChange.DELETE]
_UPDATE = CODES[RowChange.UPDATE]


@dataclass(slots=True, kw_only=True)
class _Version:
    """What depends on the schema, the spec and the properties of a table."""

    converter: RowConverter
    keys: KeyConverter
    positions: tuple[int, ...]
    """Of the id columns among the columns of a row."""
    partitioner: Partitioner
    files: TableFileWriter
    key_file: KeyFileWriter


@dataclass(slots=True, kw_only=True)
class ChangeTableWriter:
    """Port TableWriter over one table, for the modes upsert and cdc."""

    target: SinkTarget
    find: Callable[[], TableMetadata | None]
    """The table now; None: it is created at the first row. Raises SinkError."""
    load: Callable[[Sequence[SinkRecord]], TableMetadata]
    """The table now; with the records to create it from if it does not exist. Raises SinkError."""
    places: Places
    metadata_columns: MetadataColumns
    id_columns: tuple[str, ...]
    prefix: str
    """Of the names of files."""
    _version: _Version | None = None
    _reference: TableReference | None = None
    _rows: list[pa.Table] = field(default_factory=list)
    """The columns of the table, then those of the change, then the number."""
    _deletes: list[pa.Table] = field(default_factory=list)
    """The columns of the key, then as above."""
    _bytes: int = 0
    _records: int = 0
    _numbered: int = 0
    _dropped: int = 0
    _files: int = 0
    _finished: KeyFile | None = None

    @property
    def dropped_fields(self) -> int:
        """Values of fields that have no column, since the writer was made."""
        current = self._version.converter.dropped_fields if self._version is not None else 0
        return self._dropped + current

    def add(self, records: Sequence[SinkRecord]) -> int:
        passed = self._needless(records)
        places = range(passed, len(records))
        try:
            self._added(records[passed:])
        except BadRecordError as error:
            placed = _at_place(error, places)
            raise placed from placed.__cause__
        return passed

    def _needless(self, records: Sequence[SinkRecord]) -> int:
        """How many deletes come first while there is no table: it has no row for them."""
        if self._version is not None or not records or records[0].change is not RowChange.DELETE:
            return 0
        if self.find() is not None:
            return 0
        rows = (at for at, one in enumerate(records) if one.change is not RowChange.DELETE)
        return next(rows, len(records))

    def _added(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        version = self._opened(records)
        deletes = [at for at, one in enumerate(records) if one.change is RowChange.DELETE]
        rows = [at for at, one in enumerate(records) if one.change is not RowChange.DELETE]
        faults: list[BadRecordError] = []
        added = _converted(version.converter.convert, records, rows, faults)
        deleted = _converted(version.keys.convert, records, deletes, faults)
        if faults:
            raise min(faults, key=lambda fault: fault.at)
        self._buffer(self._rows, added, records, rows)
        self._buffer(self._deletes, deleted, records, deletes)
        self._numbered += len(records)
        self._records += len(records)
        if self._records >= MOST_RECORDS:
            self.flush()

    def reference(self) -> TableReference:
        if self._reference is None:
            raise SinkError(SinkCode.TABLE_LOST, f"table {self.target} has no record yet")
        return self._reference

    def size(self) -> int:
        return self._bytes

    def flush(self) -> None:
        version = self._version
        if version is None or not self._records:
            return
        rows = pa.concat_tables(self._rows) if self._rows else None
        parts = [_keyed(version, one) for one in self._rows] + self._deletes
        newest = _newest(pa.concat_tables(parts))
        self._rows, self._deletes = [], []
        self._bytes = self._records = 0
        self._write_deletes(version, newest)
        if rows is not None:
            self._write_rows(version, rows, newest)

    def finish(self) -> tuple[FileEntry, ...]:
        self._finished = None
        if self._version is None:
            return ()
        self.flush()
        entries = self._version.files.finish()
        self._finished = self._version.key_file.finish()
        self._forget()
        return entries

    def key_file(self) -> KeyFile | None:
        return self._finished

    def discard(self) -> None:
        self._rows, self._deletes = [], []
        self._bytes = self._records = 0
        if self._version is not None:
            self._version.files.discard()
            self._version.key_file.discard()
            self._forget()

    def _opened(self, records: Sequence[SinkRecord]) -> _Version:
        """The table as it is at the first record after a finish."""
        if self._version is None:
            metadata = self._loaded(records)
            check_deletable(str(self.target), metadata)
            fields = id_fields(str(self.target), metadata, self.id_columns)
            self._reference = reference_of(self.target, metadata)
            converter = RowConverter(metadata, self.metadata_columns)
            keys = KeyConverter(metadata, fields)
            order = [field.field_id for field in metadata.schema().fields]
            self._version = _Version(
                converter=converter,
                keys=keys,
                positions=tuple(order.index(field.field_id) for field in fields),
                partitioner=Partitioner(metadata.spec(), metadata.schema()),
                files=TableFileWriter(
                    metadata=metadata,
                    file_schema=converter.file_schema,
                    places=self.places,
                    new_name=self._new_name,
                ),
                key_file=KeyFileWriter(
                    metadata=metadata,
                    key_fields=keys.fields,
                    places=self.places,
                    new_name=self._new_name,
                ),
            )
        return self._version

    def _loaded(self, records: Sequence[SinkRecord]) -> TableMetadata:
        """A table is created from records that have a row, if there are any."""
        rows = [at for at, one in enumerate(records) if one.change is not RowChange.DELETE]
        places = rows or list(range(len(records)))
        try:
            return self.load([records[at] for at in places])
        except BadRecordError as error:
            placed = _at_place(error, places)
            raise placed from placed.__cause__

    def _buffer(
        self,
        to: list[pa.Table],
        values: pa.Table | None,
        records: Sequence[SinkRecord],
        places: list[int],
    ) -> None:
        if values is None:
            return
        changes = change_columns([records[at] for at in places])
        numbers = pa.array([self._numbered + at for at in places], _NUMBER.type)
        for kind, column in zip((*CHANGE_FIELDS, _NUMBER), (*changes, numbers), strict=True):
            values = values.append_column(kind, column)
        to.append(values)
        self._bytes += values.nbytes

    def _write_rows(self, version: _Version, rows: pa.Table, newest: pa.Table) -> None:
        changes = newest.filter(pc.less(newest.column("change"), _DELETE))
        numbers = changes.column("number").to_numpy()
        at = np.searchsorted(rows.column("number").to_numpy(), numbers)
        rows = rows.take(at)
        place = rows.schema.get_field_index("change")
        rows = rows.set_column(place, CHANGE_FIELDS[0], changes.column("change"))
        width = len(version.converter.arrow)
        for partition, part in version.partitioner.split(rows):
            data = part.select(range(width))
            written = version.files.write(partition, data)
            keys = _keyed(version, part)
            version.key_file.write(
                [
                    *(stored(column) for column in keys.columns[:-1]),
                    pa.repeat(pa.scalar(written.path), part.num_rows),
                    pa.array(range(written.start, written.start + part.num_rows), pa.int64()),
                ]
            )

    def _write_deletes(self, version: _Version, newest: pa.Table) -> None:
        deletes = newest.filter(pc.equal(newest.column("change"), _DELETE))
        if not deletes.num_rows:
            return
        version.key_file.write(
            [
                *(stored(column) for column in deletes.columns[:-1]),
                *(pa.nulls(deletes.num_rows, kind.type) for kind in PLACE_FIELDS),
            ]
        )

    def _forget(self) -> None:
        """The next record reads the table again, with what others have changed."""
        self._dropped = self.dropped_fields
        self._version = None

    def _new_name(self) -> str:
        self._files += 1
        return f"{self.prefix}-{secrets.token_hex(8)}-{self._files:05d}"


def _converted(
    convert: Callable[[Sequence[SinkRecord]], pa.Table],
    records: Sequence[SinkRecord],
    places: list[int],
    faults: list[BadRecordError],
) -> pa.Table | None:
    """The records at these places; an error names the place among all records."""
    if not places:
        return None
    try:
        return convert([records[at] for at in places])
    except BadRecordError as error:
        faults.append(_at_place(error, places))
        return None


def _at_place(error: BadRecordError, places: Sequence[int]) -> BadRecordError:
    """The same with the index among all records."""
    at = places[error.at] if error.at >= 0 else -1
    placed = BadRecordError(path=error.path, reason=error.reason, at=at)
    placed.__cause__ = error.__cause__
    return placed


def _keyed(version: _Version, rows: pa.Table) -> pa.Table:
    """The columns of the key, of the change, and the number of rows of the table."""
    width = len(version.converter.arrow)
    last = rows.columns[width:]
    keys = [stored(rows.column(position)) for position in version.positions]
    fields = [*version.keys.fields, *CHANGE_FIELDS, _NUMBER]
    return pa.Table.from_arrays([*keys, *last], schema=pa.schema(fields))


def _newest(changes: pa.Table) -> pa.Table:
    """The last change of each key and source partition, sorted by number.

    A key that was inserted last, after another change, is an update: the rows of the table must be
    replaced.
    """
    keys = changes.schema.names[: -len(CHANGE_FIELDS) - 1]
    groups = changes.group_by([*keys, "topic", "partition"], use_threads=False)
    last = groups.aggregate([("number", "max"), ("change", "max")]).sort_by("number_max")
    numbers = changes.column("number").to_numpy()
    order = np.argsort(numbers)
    at = order[np.searchsorted(numbers, last.column("number_max").to_numpy(), sorter=order)]
    newest = changes.take(at)
    change = newest.column("change").to_numpy()
    most = np.minimum(last.column("change_max").to_numpy(), _UPDATE)
    folded = pa.array(np.where(change == _DELETE, _DELETE, most), pa.int8())
    return newest.set_column(len(keys), CHANGE_FIELDS[0], folded)
