"""SHA-256 of columns of bytes, in DuckDB: several threads, and no Python object per row."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datarecs_core.jobs.vocabulary import MaskRule
from datarecs_kernel.database import Connection
from datarecs_kernel.decoding import fixed_width

Digests = NDArray[np.uint8]
"""A line of 32 bytes each."""
DIGEST_BYTES = 32
_BLOCK = 64
"""Of SHA-256."""
_PADS = (0x36, 0x5C)
_CHUNK = 2**14
"""Rows that one thread hashes at a time."""
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHOWN_BYTES = 8
"""Digits of the hash of a masked text."""


@contextmanager
def hashing_connection(threads: int | None = None) -> Iterator[Connection]:
    """A database for expressions over columns; it stores nothing and spills nothing."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
    }
    if threads is not None:
        settings["threads"] = threads
    with duckdb.connect(config=settings) as connection:
        yield connection


def computed(connection: Connection, columns: dict[str, pa.Array], sql: str) -> pa.Array:
    """An expression over columns, row by row in their order.

    Args:
        connection: any; it need not preserve the order of rows.
        columns: at least one, all of the same length.
        sql: the expression.
    """
    rows = len(next(iter(columns.values())))
    table = pa.table({**columns, "$at": np.arange(rows)})
    cursor = connection.cursor()
    cursor.register("$rows", pa.Table.from_batches(table.to_batches(_CHUNK), table.schema))
    relation = cursor.table("$rows").project(f'"$at", {sql} AS "$value"')
    answer = relation.to_arrow_table()
    cursor.close()
    at, values = answer.column("$at").to_numpy(), answer.column("$value").combine_chunks()
    order = np.arange(rows)
    if np.array_equal(at, order):
        return values
    places = np.empty(rows, np.int64)
    places[at] = order
    return values.take(pa.array(places))


class Hasher:
    """Hashes of messages, as bytes."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def digests(self, messages: pa.Array) -> Digests:
        """SHA-256 of each."""
        return self._lines(messages, 'unhex(sha256("$message"))')

    def keyed(self, key: bytes, messages: pa.Array) -> Digests:
        """HMAC-SHA-256 of each."""
        block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        inner, outer = (_blob(bytes(each ^ pad for each in block)) for pad in _PADS)
        inside = f'unhex(sha256({inner} || "$message"))'
        return self._lines(messages, f"unhex(sha256({outer} || {inside}))")

    def masked(self, key: bytes, rule: MaskRule | None, written: pa.Array) -> pa.Array:
        """`differences.masked` of each text; NULL stays NULL."""
        if rule is None:
            return written
        known, none = pc.is_valid(written), pa.scalar(None, pa.string())
        if rule is MaskRule.REDACT:
            return pc.if_else(known, "***", none)
        texts = pc.fill_null(written, "").cast(pa.binary())
        digests = self.keyed(key, pc.binary_join_element_wise(b"mask", texts, b""))
        shown = digests[:, :_SHOWN_BYTES]
        digits = np.stack([_HEX[shown >> 4], _HEX[shown & 15]], axis=2)
        hashes = fixed_width(digits.reshape(len(written), 2 * _SHOWN_BYTES)).view(pa.string())
        return pc.if_else(known, pc.binary_join_element_wise("h:", hashes, ""), none)

    def _lines(self, messages: pa.Array, sql: str) -> Digests:
        if not len(messages):
            return np.zeros((0, DIGEST_BYTES), np.uint8)
        return lines_of(computed(self.connection, {"$message": messages}, sql))


def lines_of(digests: pa.Array) -> Digests:
    """Digests of 32 bytes as lines."""
    fixed: Any = digests.cast(pa.binary(DIGEST_BYTES))
    lines = np.frombuffer(fixed.buffers()[1], np.uint8).reshape(-1, DIGEST_BYTES)
    return lines[fixed.offset : fixed.offset + len(fixed)]


def _blob(raw: bytes) -> str:
    """Bytes in DuckDB's SQL."""
    return "'" + "".join(f"\\x{each:02X}" for each in raw) + "'::BLOB"
