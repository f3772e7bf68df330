"""Hashes of values by DuckDB, and the smallest of them per column.

Separate from `statistics`, because only this module depends on a hash function: its name and
version are part of every sketch. Hashes see equal values alike: `-0.0` and `0.0`, every NaN, and an
integer of any width.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from datarecs_connectors.walled_query import SETTINGS, WALLS
from datarecs_core.captures.sketches import SKETCH_HASHES, Sketch

Hashes = npt.NDArray[np.uint64]
FUNCTION = f"duckdb-{duckdb.__version__}"
_BATCH = "batch"
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Hasher:
    """Hashes columns; one per thread."""

    _database: duckdb.DuckDBPyConnection

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator["Hasher"]:
        """A database without files and network."""
        with duckdb.connect(config=dict(SETTINGS)) as database:
            for wall in WALLS:
                database.execute(wall)
            yield cls(database)

    def hashes(self, columns: Sequence[pa.Array]) -> list[Hashes]:
        """Hashes of the values that are not NULL, in any order, with repetitions.

        Columns have equal lengths.
        """
        if not columns or not len(columns[0]):
            return [np.array([], np.uint64) for _ in columns]
        made = self._hashed([_signed(column) for column in columns])
        results = []
        for column, hashes in zip(columns, made, strict=True):
            wide = _wide(column)
            known = hashes if column.null_count == 0 and wide is None else _known(column, hashes)
            results.append(
                known if wide is None else np.concatenate([known, *self._hashed([wide])])
            )
        return results

    def _hashed(self, columns: Sequence[pa.Array]) -> list[Hashes]:
        names = [f"c{at}" for at in range(len(columns))]
        self._database.register(_BATCH, pa.table(list(columns), names=names))
        calls = ", ".join(f"hash({name}) AS {name}" for name in names)
        made = self._database.sql(f"SELECT {calls} FROM {_BATCH}").fetchnumpy()  # noqa: S608 - numbered names
        return [np.asarray(made[name], np.uint64) for name in names]


def _signed(column: pa.Array) -> pa.Array:
    """Unsigned numbers of 64 bits as signed ones; NULL where they do not fit."""
    if not pat.is_uint64(column.type):
        return column
    fits = pc.less_equal(column, pa.scalar(_MAX_INT64, pa.uint64()))
    return pc.if_else(fits, column, pa.scalar(None, pa.uint64())).cast(pa.int64())


def _wide(column: pa.Array) -> pa.Array | None:
    """The unsigned numbers that no signed number of 64 bits holds."""
    if not pat.is_uint64(column.type):
        return None
    wide = column.filter(pc.greater(column, pa.scalar(_MAX_INT64, pa.uint64()))).drop_null()
    return wide if len(wide) else None


def _known(column: pa.Array, hashes: Hashes) -> Hashes:
    """The hashes of the values that are not NULL."""
    is_valid = _signed(column).is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(hashes[is_valid], np.uint64)


@dataclass(slots=True)
class SmallestHashes:
    """The sketch of one column while its rows are read."""

    _hashes: Hashes = field(default_factory=lambda: np.array([], np.uint64))
    _is_exact: bool = True

    def add(self, hashes: Hashes) -> None:
        if not self._is_exact:
            hashes = hashes[hashes < self._hashes[-1]]
        if not len(hashes):
            return
        # Repetitions are removed without a sort: many columns have few values.
        different = pc.unique(pa.array(hashes)).to_numpy()
        merged = np.union1d(self._hashes, different)
        self._is_exact = self._is_exact and len(merged) <= SKETCH_HASHES
        self._hashes = merged[:SKETCH_HASHES]

    @property
    def sketch(self) -> Sketch:
        return Sketch(
            function=FUNCTION, hashes=[int(one) for one in self._hashes], is_exact=self._is_exact
        )
