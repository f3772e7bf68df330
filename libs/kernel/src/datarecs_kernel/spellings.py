"""How each source writes the keys of stored differences, where cast or rules change them.

Read after the differences of a stage are stored, because only the spellings of the few keys that
differ are needed: tasks write those of their rows to files, and one step rewrites the stored parts
with the column `raw_keys`. Texts are those of the oracle; digest and proof do not include them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.rules import STRICT
from datarecs_core.comparison.results.differences import SHOWN_SPELLINGS
from datarecs_core.comparison.results.results import Difference
from datarecs_core.documents import from_document, to_document
from datarecs_core.jobs.types import NESTED
from datarecs_kernel.counted import Counted
from datarecs_kernel.database import BATCH_BYTES, Connection, read_batches, sql_text
from datarecs_kernel.fingerprints import key_hash
from datarecs_kernel.hashing import Hasher
from datarecs_kernel.layout import Columns, Layout, Role, keys_of
from datarecs_kernel.scopes import encoded_key
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.stored import Part, schema_of, with_raw_key_column

_MOST_SPELLINGS = 150_000
"""Of the stored differences that are rewritten at a time: their spellings are grouped in memory."""
_READ_ROWS = 2048
_SCHEMA = pa.schema(
    [("key_hash", pa.binary()), ("s", pa.int32()), ("parts", pa.list_(pa.string()))]
)
"""Columns of a file of spellings: a key, a source, and the key parts as this source writes them."""


def spelled_sources(stage: StagePlan) -> frozenset[int]:
    """Sources where map, cast or rules may change a part of the key."""
    if stage.catalogue is not None:
        return frozenset()
    return frozenset(
        index
        for dimension in stage.dimensions
        for index, plan in enumerate(dimension.inputs)
        if plan.mapped or plan.cast is not None or dimension.rules != STRICT
    )


def spelling_layout(stage: StagePlan, sources: Sequence[Columns]) -> Layout:
    """Layout of rows with only their keys, each in a form that SQL encodes, and its source text."""
    fields = keys_of(stage.dimensions, sources, "k", role=Role.HASHED)
    keys = tuple(
        replace(
            field,
            changes=True,
            python=tuple(
                is_python or (plan is not None and plan.type.kind in NESTED)
                for is_python, plan in zip(field.python, field.inputs, strict=True)
            ),
        )
        for field in fields
    )
    return Layout(stage=stage, keys=keys, measures=())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKeys:
    """Keys of the differences that a stage has stored."""

    sink: SinkPlan
    parts: Sequence[str]
    """Names of files in the directory of the sink."""

    def hashes(self) -> pa.Table:
        """Column `key_hash`, a row per difference."""
        places = (Path(self.sink.directory) / part for part in self.parts)
        return pa.concat_tables(pq.read_table(place, columns=["key_hash"]) for place in places)


def write_spellings(
    connection: Connection, stored: StoredKeys, layout: Layout, relations: Sequence[str], place: str
) -> None:
    """Write how the rows of these relations spell the keys of stored differences.

    Args:
        connection: of the relations.
        stored: the keys to look up.
        layout: `spelling_layout`.
        relations: per source, complete or shares.
        place: of the file.
    """
    connection.register("stored_keys", stored.hashes())
    sink, hasher = stored.sink, Hasher(connection)
    masks = [dimension.mask for dimension in sink.layout.stage.dimensions]
    raw = ", ".join(field.raw for field in layout.keys)
    with pq.ParquetWriter(place, _SCHEMA) as writer:
        for source in sorted(spelled_sources(layout.stage)):
            hashed = f"{key_hash(encoded_key(layout.keys), sink.key)} AS key_hash"
            query = f"SELECT {hashed}, {raw} FROM {relations[source]}"
            query = f"SELECT DISTINCT * FROM ({query}) SEMI JOIN stored_keys USING (key_hash)"
            for batch in read_batches(connection, query):
                written = [
                    hasher.masked(sink.key, mask, column)
                    for mask, column in zip(masks, batch.columns[1:], strict=True)
                ]
                writer.write(_spellings(batch.column(0), source, written))
    connection.unregister("stored_keys")


def _spellings(hashes: pa.Array, source: int, written: Sequence[pa.Array]) -> pa.RecordBatch:
    rows, width = len(hashes), len(written)
    every = pa.concat_arrays([each.cast(pa.string()) for each in written])
    by_row = np.arange(width * rows).reshape(width, rows).T.ravel()
    offsets = pa.array(np.arange(rows + 1) * width, pa.int32())
    parts = pa.ListArray.from_arrays(offsets, every.take(pa.array(by_row)))
    sources = pa.repeat(pa.scalar(source, pa.int32()), rows)
    return pa.RecordBatch.from_arrays([hashes.cast(pa.binary()), sources, parts], schema=_SCHEMA)


def write_raw_keys(
    connection: Connection, sink: SinkPlan, counted: Counted, files: Sequence[str], attempt: str
) -> Counted:
    """The same numbers, with the spellings of each source in parts and samples.

    Args:
        connection: a database without concurrent queries.
        sink: of the stage.
        counted: with stored parts.
        files: of spellings.
        attempt: names the new part.
    """
    stage, directory = sink.layout.stage, Path(sink.directory)
    schema = with_raw_key_column(schema_of(sink.layout))
    samples = {row.break_id: row for row in _differences(counted)}
    part = Part(directory, attempt, schema)
    most_rows = _MOST_SPELLINGS // len(spelled_sources(stage))
    for stored in _some_at_a_time([directory / name for name in counted.parts], most_rows):
        raw_keys = _raw_keys(connection, stage.sources, stored, files)
        table = stored.append_column("raw_keys", raw_keys).cast(schema)
        part.write(table)
        _add_to_samples(samples, table)
    for name in counted.parts:
        (directory / name).unlink()
    return replace(
        counted, parts=part.close(), samples=[to_document(each) for each in samples.values()]
    )


def _some_at_a_time(files: Sequence[Path], most_rows: int) -> Iterator[pa.Table]:
    """The rows of all files in order, up to a number of rows or bytes at a time."""
    waiting: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(_READ_ROWS):
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows + _READ_ROWS > most_rows or size >= BATCH_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _differences(counted: Counted) -> list[Difference]:
    return [from_document(Difference, each) for each in counted.samples]


def _add_to_samples(samples: dict[str, Difference], table: pa.Table) -> None:
    ids = table.column("break_id").to_pylist()
    for at, break_id in enumerate(ids):
        if break_id in samples:
            written = table.column("raw_keys")[at].as_py() or []
            samples[break_id] = replace(samples[break_id], raw_keys=tuple(written))


def _by_key(files: Sequence[str]) -> str:
    """A row per key of `stored_rows`: by source the first spellings, their number, one of them."""
    places = ", ".join(map(sql_text, files))
    text = "array_to_string([coalesce(part, 'NULL') FOR part IN parts], ', ')"
    group = "PARTITION BY key_hash, s"
    query = (
        f"SELECT DISTINCT key_hash, s, parts FROM read_parquet([{places}]) "
        "SEMI JOIN stored_rows USING (key_hash)"
    )
    query = f"SELECT *, {text} AS text FROM ({query})"
    query = (
        f"SELECT *, row_number() OVER ({group} ORDER BY text) AS place, "
        f"count(*) OVER ({group}) AS total FROM ({query})"
    )
    more = f"CASE WHEN total > {SHOWN_SPELLINGS} THEN ' (' || total || ' spellings)' ELSE '' END"
    query = (
        "SELECT key_hash, s, any_value(total) AS total, any_value(parts) AS parts, "
        f"string_agg(text, '; ' ORDER BY text) AS shown FROM ({query}) "
        f"WHERE place <= {SHOWN_SPELLINGS} GROUP BY key_hash, s"
    )
    spelled = f"struct_pack(s := s, total := total, parts := parts, shown := shown || {more})"
    return (
        f"SELECT key_hash, list({spelled} ORDER BY s) AS spelled FROM ({query}) GROUP BY key_hash"
    )


def _raw_keys(
    connection: Connection, sources: Sequence[str], stored: pa.Table, files: Sequence[str]
) -> pa.ChunkedArray:
    """Spelling by source, if it differs from the stored key."""
    rows = stored.select(["key_hash", "key_text"])
    connection.register("stored_rows", rows.append_column("place", pa.array(range(len(rows)))))
    names = f"[{', '.join(map(sql_text, sources))}]"
    is_stored = "each.total = 1 AND each.parts IS NOT DISTINCT FROM key_text"
    pair = f"struct_pack(k := {names}[each.s + 1], v := each.shown)"
    query = (
        f"WITH spelled AS ({_by_key(files)}) "
        f"SELECT map_from_entries([{pair} FOR each IN spelled IF NOT ({is_stored})]) AS raw_keys "
        "FROM stored_rows LEFT JOIN spelled USING (key_hash) ORDER BY place"
    )
    raw_keys = connection.sql(query).to_arrow_table().column("raw_keys")
    connection.unregister("stored_rows")
    return raw_keys
