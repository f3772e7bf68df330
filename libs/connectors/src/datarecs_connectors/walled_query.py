"""Run one query of a job in a DuckDB that can access only the tables of its source.

A database server protects itself from a job's SQL; files have no such protection, so it is here.
The rows are loaded first; then access to files, network, extensions, settings and the variables of
this process is disabled, and one SELECT may run until its deadline. It runs in one thread, so that
equal files give equal results.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Event, Timer

import duckdb
import pyarrow as pa
import pyarrow.types as pat

from datarecs_application.stopping import StoppedError, Stopping
from datarecs_connectors.arrow_types import canonical_type
from datarecs_connectors.errors import (
    QueryFailedError,
    QuerySpillError,
    SourceUnsupportedError,
    StatementTimeoutError,
)
from datarecs_connectors.full_disk import check_disk, exceeds_limit
from datarecs_connectors.query_tree import Node, Words, first_other_relation, tree_of
from datarecs_connectors.typed_text import arrow_type
from datarecs_core.comparison.planning.scan import SourceColumn, SourceSchema
from datarecs_core.jobs.types import CanonicalType, TypeKind

BATCH_ROWS = 10_000
_INTERRUPT_AGAIN_S = 0.1
_ROWS = "$rows"
"""A name that no source has."""
_ONE_SELECT = "a query is exactly one SELECT, without parameters"
WALLS = (  # also used by `computing`: one place defines the isolation of a database
    "SET TimeZone = 'UTC'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
SETTINGS: Mapping[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "512MiB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a query may read."""

    name: str
    schema: SourceSchema
    load: Callable[[], Iterator[pa.RecordBatch]] = lambda: iter(())
    """Its rows; without them the table has columns only."""


@dataclass(frozen=True, slots=True)
class WalledQuery:
    """One query of a job."""

    source: str
    text: str
    deadline: timedelta
    stop: Stopping = field(default_factory=Stopping)
    spill_bytes: int | None = None
    """Most disk for intermediate data; None: the free disk."""

    @contextmanager
    def database(
        self, scratch: str, tables: Sequence[Table]
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """These tables and nothing else; isolated after their rows are loaded."""
        settings = {**SETTINGS, "temp_directory": f"{scratch}/spill"}
        with (
            duckdb.connect(config=settings) as database,
            self._translate_errors(tables),
            self._timed(database),
        ):
            if self.spill_bytes is not None:
                # As a setting of a connection it would be displayed but have no effect.
                room = max(self.spill_bytes // 2**20, 1)
                database.execute(f"SET max_temp_directory_size = '{room}MiB'")
            for table in tables:
                _load(database, table)
            for wall in WALLS:
                database.execute(wall)
            yield database

    def columns(
        self, database: duckdb.DuckDBPyConnection, tables: Sequence[Table]
    ) -> tuple[SourceColumn, ...]:
        """The columns that the query returns, with their types."""
        self._check(database, tables)
        schema = database.sql(self.text).to_arrow_reader(BATCH_ROWS).schema
        columns = []
        for each in schema:
            kind = canonical_type(_stored(each.type))
            if kind is None or pat.is_nested(each.type):
                raise SourceUnsupportedError(
                    self.source,
                    f"column {each.name!r} of its query has the type {each.type}, which cannot be "
                    "compared yet; cast it in the query",
                )
            columns.append(SourceColumn(name=each.name, type=kind, native_type=str(each.type)))
        return tuple(columns)

    def answers(
        self, database: duckdb.DuckDBPyConnection, tables: Sequence[Table]
    ) -> Iterator[pa.RecordBatch]:
        """The rows that it returns; at least one batch."""
        self._check(database, tables)
        reader = database.sql(self.text).to_arrow_reader(BATCH_ROWS)
        yield pa.RecordBatch.from_pylist([], reader.schema)
        yield from reader

    def needed(
        self, database: duckdb.DuckDBPyConnection, tables: Sequence[Table]
    ) -> list[SourceSchema]:
        """Of each table the columns that the query names; all columns if it may use others.

        At least one: a table without columns has no rows. Columns with equal names are left out:
        a query that names one fails.
        """
        words = Words.of(self._check(database, tables))
        return [_named(table.schema, words) for table in tables]

    def _check(self, database: duckdb.DuckDBPyConnection, tables: Sequence[Table]) -> Node:
        """The tree of the query, after the check that it reads only these tables."""
        statements = database.extract_statements(self.text)
        if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
            raise QueryFailedError(self.source, _ONE_SELECT)
        if statements[0].named_parameters:
            raise QueryFailedError(self.source, _ONE_SELECT)
        tree = tree_of(self.text, database)
        if tree is None:
            raise QueryFailedError(self.source, _ONE_SELECT)
        if other := first_other_relation(tree, [table.name for table in tables]):
            raise QueryFailedError(
                self.source, f"its query reads {other}; it may read only {_listed(tables)}"
            )
        return tree

    @contextmanager
    def _timed(self, database: duckdb.DuckDBPyConnection) -> Iterator[None]:
        done = Event()
        timer = Timer(self.deadline.total_seconds(), _interrupt, (database, done))
        timer.daemon = True
        timer.start()
        try:
            with self.stop.interrupting(lambda: _interrupt(database, done)):
                yield
        finally:
            done.set()
            timer.cancel()

    @contextmanager
    def _translate_errors(self, tables: Sequence[Table]) -> Iterator[None]:
        """Translate errors of DuckDB; only texts about names are repeated."""
        try:
            yield
        except duckdb.InterruptException as cause:
            raise self._interrupted() from cause
        except duckdb.PermissionException as cause:
            raise QueryFailedError(
                self.source, f"its query may read only {_listed(tables)}"
            ) from cause
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as cause:
            why = str(cause).splitlines()[0][:200]
            raise QueryFailedError(self.source, f"its query is refused: {why}") from cause
        except duckdb.OutOfMemoryException as cause:
            self._check_room(cause)
            raise QueryFailedError(
                self.source, "its query needs more memory than is available; group by fewer values"
            ) from cause
        except pa.ArrowInvalid as cause:
            raise QueryFailedError(
                self.source, "its query reads nested integers of more than 64 bits"
            ) from cause
        except pa.ArrowNotImplementedError as cause:
            raise SourceUnsupportedError(
                self.source,
                "its query returns a type that cannot be compared; cast the column in the query",
            ) from cause
        except duckdb.Error as cause:
            self._check_room(cause)
            raise QueryFailedError(
                self.source, f"its query failed for a row ({type(cause).__name__})"
            ) from None  # the cause quotes the value

    def _check_room(self, failure: duckdb.Error) -> None:
        """Raises QuerySpillError above the limit of the run, OSError if the disk is full."""
        if self.spill_bytes is not None and exceeds_limit(failure):
            raise QuerySpillError(self.source, self.spill_bytes) from failure
        check_disk(failure)

    def _interrupted(self) -> StatementTimeoutError | StoppedError:
        if self.stop.is_set():
            return StoppedError()
        return StatementTimeoutError(
            self.source, "its query took longer than limits.statement_timeout"
        )


def _load(database: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Create the table with its rows."""
    schema = table.schema
    fields = [(each.name, _held(each)) for each in schema.columns if is_single(each, schema)]
    form, name = pa.schema(fields), _quoted(table.name)
    database.register(_ROWS, form.empty_table())
    database.execute(f"CREATE TABLE {name} AS SELECT * FROM {_quoted(_ROWS)}")  # noqa: S608 - quoted
    for batch in table.load():
        database.register(_ROWS, batch.select(form.names).cast(form))
        database.execute(f"INSERT INTO {name} SELECT * FROM {_quoted(_ROWS)}")  # noqa: S608 - quoted
    database.unregister(_ROWS)


def _named(schema: SourceSchema, words: Words) -> SourceSchema:
    """The columns that a query names, or may use without naming them."""
    columns = schema.columns
    if not words.whole:
        named = [each for each in columns if each.name.casefold() in words.all]
        nested = dict(schema.undelivered)
        plain = [each for each in columns if each.name not in nested]
        columns = tuple(named or (plain or columns)[:1])
    return replace(schema, columns=tuple(each for each in columns if is_single(each, schema)))


def _listed(tables: Sequence[Table]) -> str:
    """The tables of a query, for messages."""
    names = ", ".join(repr(table.name) for table in tables)
    return f"the table {names}" if len(tables) == 1 else f"the tables {names}"


def _interrupt(database: duckdb.DuckDBPyConnection, done: Event) -> None:
    """Interrupt until the work ends: an interrupt between two statements is lost."""
    with suppress(duckdb.Error):  # it is already closed
        database.interrupt()
        while not done.wait(_INTERRUPT_AGAIN_S):
            database.interrupt()


def is_single(column: SourceColumn, schema: SourceSchema) -> bool:
    """Whether no other column has its name, without regard to case."""
    names = [each.name.casefold() for each in schema.columns]
    return names.count(column.name.casefold()) == 1


def _held(column: SourceColumn) -> pa.DataType:
    """The DuckDB type of a column of the source."""
    return pa.decimal128(20, 0) if column.native_type == "uint64" else _held_as(column.type)


def _held_as(kind: CanonicalType) -> pa.DataType:
    members = [(name, _held_as(each)) for name, each in kind.members]
    match kind.kind:
        case TypeKind.ARRAY:
            return pa.list_(members[0][1])
        case TypeKind.MAP:
            return pa.map_(members[0][1], members[1][1])
        case TypeKind.STRUCT:
            return pa.struct(members)
        case _:
            return arrow_type(kind) or pa.string()


def _stored(kind: pa.DataType) -> pa.DataType:
    """The extract type of a DuckDB column: whole numbers of one size, plain texts."""
    if pat.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pat.is_integer(kind):
        return pa.int64()
    return kind.value_type if pat.is_dictionary(kind) else kind


def plain_column(column: pa.Array) -> pa.Array:
    return column.cast(_stored(column.type))


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
