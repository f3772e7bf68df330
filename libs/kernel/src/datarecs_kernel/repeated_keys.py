"""Find keys that occur more than once in a source, by 64 bits of each key.

A join of keys that occur once gives one row per key; a repeated key would give products, so its
rows are handled separately (`rows`). If two keys share a hash, only more rows are handled that way;
the result does not change.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datarecs_kernel.database import Connection

Hashes = NDArray[np.uint64]
MOST_HASHES = 2**25
"""Hashes in memory: 256 MiB. More rows are read in several passes, each for a share of hashes."""
_BATCH_ROWS = 200_000
_HASH_BITS = 64
_NONE: Hashes = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedKeys:
    """Hashes of repeated keys, and the number of rows of each source with single keys."""

    hashes: Hashes
    single_rows: tuple[int, ...]
    """Per source."""


def repeated_keys(
    connection: Connection,
    relations: Sequence[str],
    keys: Sequence[str],
    rows: int,
    most_hashes: int = MOST_HASHES,
) -> RepeatedKeys:
    """Read the keys of every relation.

    Args:
        connection: with the relations.
        relations: one per source.
        keys: columns; at least one.
        rows: approximate number over all relations.
        most_hashes: maximum number to read at a time.
    """
    bits = ((rows - 1) // most_hashes).bit_length()
    parts = [_of_share(connection, relations, keys, (share, bits)) for share in range(2**bits)]
    return RepeatedKeys(
        hashes=np.concatenate([part.hashes for part in parts]),
        single_rows=tuple(map(sum, zip(*(part.single_rows for part in parts), strict=True))),
    )


def _of_share(
    connection: Connection, relations: Sequence[str], keys: Sequence[str], share: tuple[int, int]
) -> RepeatedKeys:
    read = [sorted_hashes(connection, each, keys, share) for each in relations]
    repeated = np.unique(np.concatenate([each[1:][each[1:] == each[:-1]] for each in read]))
    return RepeatedKeys(
        hashes=repeated, single_rows=tuple(len(each) - _count(each, repeated) for each in read)
    )


def sorted_hashes(
    connection: Connection, relation: str, keys: Sequence[str], share: tuple[int, int]
) -> Hashes:
    """Hashes of all rows, or only those with the upper `share[1]` bits equal to `share[0]`."""
    at, bits = share
    hashed = key_hash(keys)
    where = f" WHERE {hashed} >> {_HASH_BITS - bits} = {at}" if bits else ""
    rows = connection.sql(f"SELECT {hashed} AS h FROM {relation}{where}")
    hashes = [batch.column(0).to_numpy() for batch in rows.to_arrow_reader(_BATCH_ROWS)]
    ordered: Hashes = np.concatenate([_NONE, *hashes])
    ordered.sort()
    return ordered


def _count(sorted_hashes: Hashes, wanted: Hashes) -> int:
    """The number of hashes."""
    first = np.searchsorted(sorted_hashes, wanted)
    last = np.searchsorted(sorted_hashes, wanted, side="right")
    return int((last - first).sum())


def key_hash(keys: Sequence[str]) -> str:
    """SQL: 64 bits of a key, equal for equal keys."""
    return f"hash({', '.join(keys)})"


def register_hashes(connection: Connection, name: str, hashes: Hashes) -> None:
    """A table of hashes with one column `h`."""
    connection.register(f"{name}_array", pa.table({"h": hashes}))
    connection.execute(f"CREATE TEMP TABLE {name} AS FROM {name}_array")
    connection.unregister(f"{name}_array")
