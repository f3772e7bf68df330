"""The work item of many tasks, what they tell, and the database that each of them opens.

Rows between tasks hold bytes of numpy or Arrow: sums of 64 bits wrap there as they must, and
Spark's do not. Apart from the tasks, because those who send the work need nothing of them.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from datarecs_spark.kernel_sql import UNREADABLE, Connection, connected, reason_of
from datarecs_spark.kernel_work import KernelTask
from datarecs_spark.shares import Share

_SAMPLE = (
    "7::BIGINT, 'a', 'more than sixteen bytes', 1.5::DECIMAL(9,2), 1.5::DECIMAL(38,4), 0.5::DOUBLE,"
    " 'ab'::BLOB, DATE '2026-01-01', TIMESTAMP '2026-01-01', TRUE, NULL::BIGINT"
)


class Kind(StrEnum):
    """What a row between tasks, or to the driver, tells."""

    SUMS = "sums"
    """Of buckets of one range."""
    KEYS = "keys"
    """Hashes in one range, of the source with the fewest rows; or the keys themselves."""
    NUMBERS = "numbers"
    """Of all rows of a part."""
    OPEN = "open"
    """Buckets of one range, a bit each."""
    GROUPS = "groups"
    """Of closed buckets of one range."""
    AGAIN = "again"
    """Closed key hashes that occur again."""
    KEPT = "kept"
    """A file of rows in open buckets."""
    FAILED = "failed"
    """Why the stage must be read whole."""


class Told(NamedTuple):
    """One such row."""

    kind: Kind
    at: int
    """A range of key hashes, or a source."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of all tasks, as it travels in their closures."""

    task: KernelTask
    """With threads and memory of one task; its directory is shared by all."""
    shares: tuple[Share, ...]
    range_bits: int
    """Upper bits of a key's hash by which tasks add up; at most those of a bucket."""
    hashes: str
    """`hashes_of` the driver: who hashes otherwise may not take part."""

    @property
    def fewest(self) -> int:
        """The source that tells the groups."""
        sources = self.task.sources
        return min(range(len(sources)), key=lambda at: sources[at].rows)


class OtherHashesError(Exception):
    """This executor's DuckDB does not hash as the driver's."""


def hashes_of(connection: Connection) -> str:
    """What must be equal where hashes of two machines meet."""
    ((release, found),) = connection.execute(f"SELECT version(), hash({_SAMPLE})").fetchall()
    return f"{release} {found}"


@contextmanager
def opened(work: Work, attempt: str) -> Iterator[Connection]:
    """A database that spills to a folder of this attempt."""
    own = Path(work.task.directory) / f"spill-{attempt}"
    own.mkdir()
    try:
        with connected(replace(work.task, directory=str(own))) as connection:
            if hashes_of(connection) != work.hashes:
                raise OtherHashesError
            yield connection
    finally:
        shutil.rmtree(own, ignore_errors=True)


@contextmanager
def failures_told() -> Iterator[list[Told]]:
    """What goes wrong with DuckDB is told, since Spark then reads everything itself.

    Raises:
        OSError: the disk is full, which it would be for Spark as well.
    """
    failures: list[Told] = []
    try:
        yield failures
    except OtherHashesError:
        failures.append(_failed("executors have other releases of DuckDB"))
    except UNREADABLE as failure:
        failures.append(_failed(reason_of(failure)))


def _failed(reason: str) -> Told:
    return Told(Kind.FAILED, 0, reason.encode())
