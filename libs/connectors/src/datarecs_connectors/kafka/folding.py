"""Keep the last record of each key: which offsets these are, found in one pass over the keys.

Exact, without hashes as keys, in DuckDB, which moves to disk what does not fit into its memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datarecs_connectors.errors import CorruptSourceError
from datarecs_connectors.kafka.cluster import TopicRecord

_MEMORY, _INSERT_ROWS = "256MiB", 50_000
_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("part", pa.int32()),
        ("place", pa.int64()),
        ("moment", pa.int64()),
    ]
)
# Within a partition the offset decides. Between partitions only the time can.
_LAST = """
SELECT part, place FROM (
  SELECT key, part, max(place) AS place, arg_max(moment, place) AS moment
  FROM records GROUP BY key, part
) QUALIFY row_number() OVER (PARTITION BY key ORDER BY moment DESC, part DESC) = 1
ORDER BY part, place
"""


@dataclass(frozen=True, slots=True)
class LastRecords:
    """The last record of each key, by partition: offsets in ascending order."""

    offsets: Mapping[int, npt.NDArray[np.int64]]

    def of(self, records: Sequence[TopicRecord]) -> Iterator[TopicRecord]:
        """Those of the records, all of one partition, that are the last of their keys."""
        last = self.offsets.get(records[0].partition) if records else None
        if last is None:
            return
        places = np.fromiter((record.offset for record in records), np.int64, len(records))
        at = np.minimum(np.searchsorted(last, places), len(last) - 1)
        for record, is_last in zip(records, last[at] == places, strict=True):
            if is_last:
                yield record


def last_records(
    lists: Iterable[Sequence[TopicRecord]], key_of: Callable[[TopicRecord], bytes]
) -> LastRecords:
    """The last record of each key, which `key_of` states."""
    with _database() as database:
        waiting: list[TopicRecord] = []
        for records in lists:
            waiting += records
            if len(waiting) >= _INSERT_ROWS:
                _insert(database, waiting, key_of)
                waiting = []
        _insert(database, waiting, key_of)
        last = database.execute(_LAST).fetchnumpy()
    parts, places = np.asarray(last["part"]), np.asarray(last["place"], np.int64)
    return LastRecords({int(part): places[parts == part] for part in np.unique(parts)})


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    with (
        TemporaryDirectory(prefix="fold-") as scratch,
        duckdb.connect(
            config={"memory_limit": _MEMORY, "temp_directory": scratch, "threads": 1}
        ) as database,
    ):
        database.execute(
            "CREATE TABLE records (key BLOB, part INTEGER, place BIGINT, moment BIGINT)"
        )
        yield database


def record_key(source: str, record: TopicRecord) -> bytes:
    """Raises CorruptSourceError for a record without a key."""
    if record.key is None:
        raise CorruptSourceError(
            source,
            f"partition {record.partition} offset {record.offset}: the record has no key, "
            "which fold latest_by_key needs",
        )
    return record.key


def _insert(
    database: duckdb.DuckDBPyConnection,
    records: Sequence[TopicRecord],
    key_of: Callable[[TopicRecord], bytes],
) -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([key_of(record) for record in records], pa.binary()),
            pa.array([record.partition for record in records], pa.int32()),
            pa.array([record.offset for record in records], pa.int64()),
            pa.array([record.timestamp_ms for record in records], pa.int64()),
        ],
        schema=_SCHEMA,
    )
    table = pa.Table.from_batches([batch])
    database.register("incoming", table)
    database.execute("INSERT INTO records SELECT * FROM incoming")
    database.unregister("incoming")
