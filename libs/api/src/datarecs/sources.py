"""Sources of `compare`: paths, addresses, and tables in memory.

Paths and addresses are read in place. Tables become temporary Parquet files, so that every kind of
table is compared in the same way.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import pyarrow as pa

from datarecs.arrow_files import ArrowStream, store_batches, store_table
from datarecs.errors import ArgumentError, explained
from datarecs_cli.local.database_address import (
    DatabaseAddress,
    is_database_address,
    read_address,
)
from datarecs_cli.local.question import Flags
from datarecs_cli.local.scratch import scratch_folder
from datarecs_cli.parts import Extra, require

_LEAST = 2
_FORMS = (
    "pass a path, an address, or a table of pandas 2.2 or later, Polars, Arrow, DuckDB or Spark"
)
_ROWS = "make a table of its rows, such as pandas.DataFrame(rows)"
_ADVICE: Mapping[str, str] = {
    "LazyFrame": "pass .collect()",
    "Series": "pass .to_frame()",
    "ndarray": "make a table of it, such as pandas.DataFrame(array)",
    **dict.fromkeys(("list", "tuple", "set", "dict", "generator"), _ROWS),
}
"""By class: how its rows become a source."""


class SparkFrame(Protocol):
    """A DataFrame of Spark 4."""

    def toArrow(self) -> pa.Table: ...  # noqa: N802 - Spark's name
    def toLocalIterator(self) -> Iterator[Any]: ...  # noqa: N802 - Spark's name


TableSource = str | PathLike[str] | ArrowStream | SparkFrame | DatabaseAddress
"""A path or an address as `datarecs compare` takes it, a table in memory, or `source(…)`."""


def source(address: str, *, table: str | None = None, query: str | None = None) -> DatabaseAddress:
    """A table or a query of PostgreSQL, as a source of `compare`.

    Args:
        address: `postgresql://user:password@host:5432/database`, with `?sslmode=…` if it is not
            `verify-full`. A driver of SQLAlchemy in it has no effect. Without a password PGPASSWORD
            is used. The password is never shown.
        table: table or view, such as `"public.entries"`. Instead `?table=public.entries` may be
            part of the address, as on the command line.
        query: one SELECT, instead of a table.

    Raises:
        ArgumentError: the address is incomplete, or names no table or query.
    """
    with explained():
        if not isinstance(address, str):
            raise ArgumentError(f"source: the address is a {_type_name(address)}; pass a text")
        if not is_database_address(address):
            raise ArgumentError(
                "source: the address does not start with postgresql://; pass paths and addresses "
                "of objects to compare as they are"
            )
        return read_address(address, table=table or "", query=query or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Readable sources."""

    places: tuple[str, ...]
    """Paths, and addresses without passwords."""
    databases: Mapping[int, DatabaseAddress]
    """By position: the addresses."""
    names: tuple[str, ...]
    """Names of the sources; empty if those of files and tables are used."""
    shown: tuple[str, ...]
    """The sources in the report: `<ledger>` for a table in memory, by its name."""


def check_sources(sources: Sequence[object], names: Sequence[str]) -> None:
    """Raises ArgumentError for a value that is no source, and for a wrong number of them."""
    _check_kinds(sources)
    if len(sources) < _LEAST:
        raise ArgumentError(f"compare needs two or more sources, not {len(sources)}")
    if names and len(names) != len(sources):
        raise ArgumentError(
            f"names has {len(names)} names for {len(sources)} sources; write one for each"
        )


def _check_kinds(sources: Sequence[object]) -> None:
    for at, one in enumerate(sources, start=1):
        kind = _type_name(one)
        if isinstance(one, str) and not one:
            raise ArgumentError(f"source {at} is an empty text; pass a path or an address")
        if isinstance(one, pa.RecordBatchReader) and any(one is each for each in sources[: at - 1]):
            raise ArgumentError(
                f"source {at} is a reader that another source reads to its end; "
                "pass reader.read_all() to both"
            )
        is_table = isinstance(one, ArrowStream) and kind not in _ADVICE
        if is_table or isinstance(one, str | PathLike | DatabaseAddress) or is_spark_frame(one):
            continue
        advice = _ADVICE.get(kind, _FORMS)
        if type(one).__module__.startswith("pyspark.pandas"):
            advice = "pass .to_spark()"
        raise ArgumentError(f"source {at} is a {kind}; {advice}")


def is_spark_frame(source: object) -> TypeGuard[SparkFrame]:
    """By its class; Spark is not imported, and a session that has ended is not used."""
    return any(
        each.__name__ == "DataFrame" and each.__module__.startswith("pyspark.sql")
        for each in type(source).__mro__
    )


def open_sources(
    sources: Sequence[TableSource], names: tuple[str, ...], inputs: ExitStack
) -> Inputs:
    """Read addresses and store tables in memory; their files exist until `inputs` is closed."""
    databases = dict(_databases(sources))
    in_memory = [at for at, one in enumerate(sources) if _is_in_memory(one)]
    folder = inputs.enter_context(scratch_folder()) if in_memory else Path()
    places = tuple(
        str(folder / f"source-{at + 1}.parquet")
        if at in in_memory
        else str(databases[at])
        if at in databases
        else fspath(one)  # type: ignore[arg-type]  # what remains is a path
        for at, one in enumerate(sources)
    )
    all_names = Flags(sources=places, databases=databases, names=names).source_names
    for at in in_memory:
        _store(sources[at], Path(places[at]), all_names[at])
    shown = [
        f"<{all_names[at]}>" if at in in_memory else repr(databases.get(at, place))
        for at, place in enumerate(places)
    ]
    return Inputs(
        places=places,
        databases=databases,
        names=all_names if in_memory else names,
        shown=tuple(shown),
    )


def _databases(sources: Sequence[TableSource]) -> Iterator[tuple[int, DatabaseAddress]]:
    for at, one in enumerate(sources):
        if isinstance(one, DatabaseAddress):
            yield at, one
        elif isinstance(one, str) and is_database_address(one):
            yield at, read_address(one)


def _is_in_memory(one: TableSource) -> bool:
    return not isinstance(one, str | PathLike | DatabaseAddress)


def _store(table: TableSource, target: Path, name: str) -> None:
    if is_spark_frame(table):
        require("a DataFrame of Spark", Extra.SPARK)
        from datarecs_spark.frames import frame_batches  # noqa: PLC0415 - an extra

        schema, batches = frame_batches(table, name)  # type: ignore[arg-type]  # the class was checked
        store_batches(schema, batches, target, name)
    elif isinstance(table, ArrowStream):
        store_table(table, target, name)


def _type_name(value: object) -> str:
    return type(value).__name__
