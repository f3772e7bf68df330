"""What the scan kernel is asked, what it answers, and the port of those who read for it.

Apart from the kernel because every part of it, on one machine and in the tasks of many, speaks of
nothing else.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from datarecs_core.comparison.expressions.exact_conditions import ExactCondition
from datarecs_core.jobs.definition import DEFAULT_EXECUTION, DEFAULT_LIMITS
from datarecs_core.values import EXACT
from datarecs_kernel.forms import Form
from datarecs_kernel.hash_sums import Flags, Hashes

KERNEL_VERSION = "3"
"""Of hashes and numbers; travels with every task and answer."""
MAX_BUCKET_BITS = 24
"""256 MiB of sums."""
BATCH_ROWS = 200_000
READINGS = 2
"""Of every row: to be hashed, and to be kept."""
Hashed = tuple[Hashes, Hashes, Hashes]
"""Of some rows: of the key, and both of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelColumn:
    """A column of one source."""

    name: str
    """Logical; under it kept rows are written."""
    physical: str
    """In the files."""
    meeting: str
    """SQL of the form that all sources share: equal exactly when values are canonically equal."""
    salted: str
    """SQL of the same value for the second hash, so that no value hash ties the two."""
    size: str | None = None
    """SQL of the bytes of a value that may be large; None for all others."""
    form: Form | None = None
    """In which sources meet; None where SQL alone says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCondition:
    """What rows must be, in both languages of the kernel."""

    sql: str
    """Over physical columns."""
    exact: ExactCondition = field(hash=False)
    names: Mapping[str, str] = field(hash=False)
    """Physical names by those of the condition."""
    reads_texts: bool = False
    """Texts of files may be INVALID: all are read, whatever statistics say, which then fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """One source of the task."""

    files: tuple[str, ...]
    rows: int
    """As pinned; the source with the fewest tells the groups."""
    keys: tuple[KernelColumn, ...]
    values: tuple[KernelColumn, ...]
    """What is compared, `None`-free and in the same order in every source."""
    filter: KernelCondition | None = None
    """The source's own."""
    where: KernelCondition | None = None
    """The stage's."""
    group_bytes: int = 0
    """Of the largest row group once its columns are decoded, about."""
    decoded_bytes: int = 0
    """The same of all row groups."""
    has_numbers: bool = False
    """Its key is one whole number, and NULL nowhere as far as footers tell; rows may."""
    ascends: bool = False
    """So far as footers tell, those numbers grow from row to row."""
    is_left: bool = False
    """Its one file is the task's own, under logical names, and of no use once rows are kept."""
    max_value_bytes: int = DEFAULT_LIMITS.max_value_bytes
    max_key_bytes: int = DEFAULT_LIMITS.max_key_bytes

    @property
    def columns(self) -> tuple[KernelColumn, ...]:
        return (*self.keys, *self.values)

    @property
    def conditions(self) -> tuple[KernelCondition, ...]:
        """Of the rows that the stage looks at."""
        return tuple(each for each in (self.filter, self.where) if each is not None)

    @property
    def too_large(self) -> str | None:
        """SQL: the row holds a value, or has a key, above its limit; None where none can be."""
        values = {each.size for each in self.columns if each.size is not None}
        keys = [f"coalesce({each.size}, 0)" for each in self.keys if each.size is not None]
        tests = [f"{size} > {self.max_value_bytes}" for size in sorted(values)]
        if keys:
            tests.append(f"{' + '.join(keys)} > {self.max_key_bytes}")
        return " OR ".join(tests) or None

    @property
    def everything(self) -> str:
        """All rows of the files."""
        files = ", ".join(sql_text(file) for file in self.files)
        return f"read_parquet([{files}], hive_partitioning = false, union_by_name = false)"

    @property
    def relation(self) -> str:
        """The rows that the stage looks at."""
        conditions = [each.sql for each in self.conditions]
        if not conditions:
            return self.everything
        return f"(SELECT * FROM {self.everything} WHERE {' AND '.join(conditions)})"  # noqa: S608 - made of quoted names and literals


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTask:
    """The whole work item, as it travels in a closure."""

    sources: tuple[KernelSource, ...]
    totals: tuple[int, ...]
    """Positions in `values` of what is added up."""
    salts: tuple[int, int, int]
    """Of the two row hashes and of the key's; 63 bits, drawn per run."""
    weights: tuple[int, ...]
    """One per source, drawn per run (`weights_for`)."""
    bucket_bits: int
    """The upper ones of the key's hash; 1 to `MAX_BUCKET_BITS`."""
    directory: str
    """Where kept rows go, one file per source, and what DuckDB spills; exists."""
    threads: int
    memory_bytes: int
    spill_bytes: int = DEFAULT_EXECUTION.spill
    """Of disk, for what memory does not hold."""
    alike: bool = False
    """Sources have the same files, byte for byte, and the same conditions: one is read for all."""
    most_open: float | None = None
    """Give up when a larger share of rows is in open buckets; None never gives up."""
    version: str = KERNEL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAnswer:
    """Numbers of all rows per source, and of the groups in closed buckets."""

    given_up: str | None = None
    """Why the stage must be read whole; every other field is then empty."""
    rows: tuple[int, ...] = ()
    """That the stage looks at."""
    read: tuple[int, ...] = ()
    """In the files."""
    filtered: tuple[int, ...] = ()
    """Of those, behind the source's own filter."""
    null_keys: tuple[int, ...] = ()
    """Rows with a NULL in any part of the key."""
    totals: tuple[tuple[str | None, ...], ...] = ()
    """Per source, in the order of the task's `totals`; None for no value."""
    kept: tuple[int, ...] = ()
    """Rows written."""
    closed_groups: int = 0
    closed_repeated: int = 0
    """Of those, keys with several rows."""
    open_buckets: int = 0
    version: str = KERNEL_VERSION

    def written(self) -> str:
        return json.dumps(asdict(self))


_NUMBERS = ("rows", "read", "filtered", "null_keys", "kept")


def read_answer(written: str) -> KernelAnswer:
    """What `written` wrote."""
    found = json.loads(written)
    listed = {label: tuple(found[label]) for label in _NUMBERS}
    return KernelAnswer(**{**found, **listed, "totals": tuple(map(tuple, found["totals"]))})


def kept_file(index: int) -> str:
    """Name of the kept rows of a source, in the task's directory."""
    return f"source-{index}.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Of the rows of one source."""

    read: int
    """In the files."""
    filtered: int
    """Of those, behind the source's own filter."""
    rows: int
    """Of those, that the stage looks at."""
    null_keys: int
    """Of those, with a NULL in any part of the key."""
    totals: tuple[str | None, ...]
    """Exact, in the order of the task's `totals`; None for no value."""

    def plus(self, other: "Numbers") -> "Numbers":
        return Numbers(
            read=self.read + other.read,
            filtered=self.filtered + other.filtered,
            rows=self.rows + other.rows,
            null_keys=self.null_keys + other.null_keys,
            totals=tuple(map(_added, self.totals, other.totals)),
        )


def _added(one: str | None, two: str | None) -> str | None:
    if one is None or two is None:
        return one or two
    return format(EXACT.add(Decimal(one), Decimal(two)), "f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Rows of which every source has an equal one are done with; the others are files of their own.

    A key may have rows of both.
    """

    scanner: "Scanner"
    """Of the rows that are left."""
    keys: Sequence[Hashes]
    """Of the rows that are done with, in pieces; of each source alike."""
    once: int
    """Of those rows, others whose keys are not told, since no source has one of them twice."""
    all_differ: bool
    """Rows that are left are known to be unlike all of other sources."""
    numbers: Numbers
    """Of the same."""


class Scanner(Protocol):
    """Reads the sources of one task; every method raises what is told by `reason_of`."""

    task: KernelTask

    def paired(self, count: Callable[[int], None]) -> Paired | None:
        """Compare in place what stands in the same order, telling how many rows are done with.

        None where sources have no order in common, or nobody looks for it.
        """

    def hashed(self, source: KernelSource) -> Iterator[Hashed]:
        """All rows of a source, some of them at a time."""

    def keys(self, source: KernelSource) -> Iterator[Hashes]:
        """The same of keys alone; texts are decoded, since bytes that are none are never equal."""

    def ascending(self, source: KernelSource, count: Callable[[int], None]) -> int | None:
        """All rows, read like `keys`, where each key is above the one before it; else None."""

    def numbers(self, source: KernelSource) -> Numbers:
        """Of a source whose rows or keys were read to the end."""

    def whole(self, source: KernelSource, numbers: Numbers) -> Numbers:
        """With the rows in the files and behind the filter, where rows alone were told."""

    def keep(self, source: KernelSource, buckets: Flags, path: Path) -> int:
        """Write the rows whose keys are in open buckets; how many there are."""

    def again(self, source: KernelSource, hashes: Hashes) -> tuple[int, int]:
        """Keys with one of these hashes, at least one, and how many of them have several rows."""


def quoted(name: str) -> str:
    """An identifier in DuckDB's SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def sql_text(value: str) -> str:
    """A text in DuckDB's SQL."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
