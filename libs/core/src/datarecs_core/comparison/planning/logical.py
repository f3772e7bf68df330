"""Logical columns: the names of a source's columns in the job, and the origin of each.

The planner's first step. Names match exactly; a declared mapping wins over a physical column of
the same name.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from datarecs_core.comparison.expressions.condition import is_plain
from datarecs_core.comparison.expressions.syntax import parse_expression
from datarecs_core.comparison.expressions.tree import ExpressionError, Name, nodes_of
from datarecs_core.comparison.expressions.typing import (
    UnknownNameError,
    check_comparisons,
    typed_expression,
)
from datarecs_core.comparison.planning.computing import columns_in, computed_column, types_of
from datarecs_core.comparison.planning.header_names import names_for_messages
from datarecs_core.comparison.planning.scan import (
    ColumnNote,
    Pin,
    Scan,
    ScanColumn,
    SourceColumn,
    SourceSchema,
)
from datarecs_core.errors.faults import Fault, Path, did_you_mean
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import NESTED, CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import READ_AS_FILES, SourceKind

_SHOWN_COLUMNS = 20
_WIDE = NESTED | {TypeKind.TEXT, TypeKind.BINARY, TypeKind.JSON}


QUERY_KINDS = frozenset({SourceKind.POSTGRES}) | READ_AS_FILES
"""Kinds of sources that execute the queries of a custom_sql stage."""


def query_source(source: Source, query: str) -> Source:
    """The source as one custom_sql stage reads it: by its query, with the query's columns.

    Of files and lake tables the query reads a table with the name of the source: the rows after
    its filter, with the column names of the files. It may also read the source's `tables`.
    """
    query_only = replace(source, query=query, columns={}, cast={})
    if source.kind in READ_AS_FILES:
        return query_only
    return replace(query_only, relation=None, path=None, filter=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSource:
    """A source with its columns under their logical names."""

    source: Source
    index: int
    schema: SourceSchema
    columns: Mapping[str, ScanColumn]
    """In the order of the schema, mapped columns first."""
    undelivered: Mapping[str, str]
    """The source's name for the type of a column that is not delivered, by logical name."""
    repeated: frozenset[str]
    """Physical names that occur more than once."""
    metadata: frozenset[str] = frozenset()
    """Logical columns that are compared only where the job names them."""

    @property
    def name(self) -> str:
        return self.source.name

    def type_of(self, column: str) -> CanonicalType:
        """As delivered."""
        return self.columns[column].type

    def fault_of(self, column: str, path: Path) -> Fault | None:
        """Why rows cannot be compared by a logical column, if so."""
        if column in self.undelivered:
            return _undelivered_fault(self.name, column, self.undelivered[column], path)
        return self.naming_fault(column, path)

    def naming_fault(self, column: str, path: Path) -> Fault | None:
        """Why the source has no one column of this name, if so."""
        match = self.columns.get(column)
        if match is None:
            return Fault(
                code=SpecCode.UNKNOWN_COLUMN,
                path=path,
                message=f"source {self.name} has no column {column!r}; it has {self._listed()}",
                hint=did_you_mean(column, self._shown_names()),
            )
        if match.physical in self.repeated:
            return _ambiguous_fault(self.name, str(match.physical), path)
        return None

    def precision_fault(self, column: str, path: Path) -> Fault | None:
        """Why the times of a logical column cannot be compared without a declared precision."""
        physical = self.columns[column].physical
        match = next((each for each in self.schema.columns if each.name == physical), None)
        if match is None or not match.needs_precision:
            return None
        return Fault(
            code=SpecCode.TYPE_NOT_SUPPORTED,
            path=path,
            message=f"column {column!r} of source {self.name} has the type {match.native_type} "
            "and no declared precision; writers of this type store different digits",
            hint=f"declare `normalize.columns.{column}.precision`: us, ms or s",
        )

    def _shown_names(self) -> list[str]:
        names = sorted(self.columns)
        return names_for_messages(names) if self.source.kind is SourceKind.CSV else names

    def _listed(self) -> str:
        names = self._shown_names()
        if not names and self.columns:
            return (
                f"{len(self.columns)} columns with names that look like values; write a header "
                "line, or set options.header to false"
            )
        shown = ", ".join(names[:_SHOWN_COLUMNS])
        more = len(names) - _SHOWN_COLUMNS
        return f"{shown} and {more} more" if more > 0 else shown

    def _width(self, column: str) -> tuple[bool, str]:
        return self.type_of(column).kind in _WIDE, column

    def notes_of(self, names: Collection[str]) -> tuple[ColumnNote, ...]:
        """Of logical columns, by themselves or within an expression."""
        columns = (self.columns[name] for name in names if name in self.columns)
        named = {name for column in columns for name in columns_in(column)}
        return tuple(each for each in self.schema.notes if each.column in named)

    def note_of(self, column: str) -> ColumnNote | None:
        """Why a logical column is text, where its source reports it."""
        physical = self.columns[column].physical if column in self.columns else None
        return next((each for each in self.schema.notes if each.column == physical), None)

    def scan(
        self, pin: Pin, wanted: frozenset[str], conditions: Mapping[str, str] | None = None
    ) -> Scan:
        """What to read: the requested logical columns, or a small one where only rows are counted.

        Args:
            pin: of the source.
            wanted: logical columns.
            conditions: of stages, over the source's columns, by the column with each result.
        """
        brought = self.columns.keys() - self.undelivered.keys()
        names = sorted(wanted & brought) or sorted(brought, key=self._width)[:1]
        source, schema = self.source, self.schema
        computed = tuple(
            computed_column(name, sql, schema) for name, sql in (conditions or {}).items()
        )
        tests = tuple(
            ScanColumn(name=each.name, expression=(conditions or {})[each.name], type=each.type)
            for each in computed
        )
        return Scan(
            source=source.name,
            index=self.index,
            kind=source.kind,
            connection=source.connection,
            relation=source.relation,
            query=source.query,
            path=source.path,
            tables=tuple(sorted(source.tables.items())),
            columns=(*tests, *(self.columns[name] for name in names)),
            schema=replace(
                schema,
                expressions=(*schema.expressions, *computed),
                notes=self.notes_of(names),
            ),
            filter=source.filter,
            timezone=source.timezone,
            partition=source.partition,
            max_hold=source.snapshot.max_hold,
            options=tuple(sorted(source.options.items())),
            limits=source.limits,
            pin=pin,
        )


def logical_source(source: Source, index: int, schema: SourceSchema) -> LogicalSource:
    """Name a source's columns. Physical columns that no mapping lists keep their names."""
    physical = {column.name: column for column in schema.columns}
    made = {name: mapping.expr for name, mapping in source.columns.items() if mapping.expr}
    schema = replace(schema, expressions=tuple(_computed(made, schema)))
    expressions = {column.name: column for column in schema.expressions}
    columns: dict[str, ScanColumn] = {}
    for name, mapping in source.columns.items():
        if mapping.expr is not None and name in expressions:
            columns[name] = ScanColumn(
                name=name, expression=mapping.expr, type=expressions[name].type
            )
        elif mapping.column in physical:
            columns[name] = ScanColumn(
                name=name, physical=mapping.column, type=physical[mapping.column].type
            )
    taken = {mapping.column for mapping in source.columns.values()}
    for column in schema.columns:
        if column.name not in taken and column.name not in columns:
            columns[column.name] = ScanColumn(
                name=column.name, physical=column.name, type=column.type
            )
    words = dict(schema.undelivered)
    undelivered = {
        name: words[mapping.column]
        for name, mapping in source.columns.items()
        if mapping.column in words
    }
    free = words.keys() - taken - source.columns.keys()
    repeated = Counter(column.name for column in schema.columns)
    return LogicalSource(
        source=source,
        index=index,
        schema=schema,
        columns=columns,
        undelivered={**undelivered, **{name: words[name] for name in free}},
        repeated=frozenset(name for name, times in repeated.items() if times > 1),
        metadata=frozenset(each.name for each in schema.columns if each.is_metadata)
        - source.columns.keys(),
    )


def _computed(made: Mapping[str, str], schema: SourceSchema) -> Iterator[SourceColumn]:
    """Declared expressions that have a type; `mapping_faults` has the others."""
    for name, expression in made.items():
        with suppress(ExpressionError):
            yield computed_column(name, expression, schema)


def mapping_faults(logical: LogicalSource) -> list[Fault]:
    """Mappings and casts that name no column of the source, filters that name one without rows."""
    at: Path = ("spec", "sources", logical.index)
    physical = [column.name for column in logical.schema.columns]
    physical += [name for name, _ in logical.schema.undelivered]
    faults = [
        Fault(
            code=SpecCode.UNKNOWN_COLUMN,
            path=(*at, "columns", name),
            message=f"source {logical.name} has no column {mapping.column!r}",
            hint=did_you_mean(mapping.column, physical),
        )
        for name, mapping in logical.source.columns.items()
        if mapping.column is not None and mapping.column not in physical
    ]
    casts = ((name, logical.fault_of(name, (*at, "cast", name))) for name in logical.source.cast)
    faults += [fault for _, fault in casts if fault is not None]
    return [*faults, *_expression_faults(logical, at)]


def _expression_faults(logical: LogicalSource, at: Path) -> Iterator[Fault]:
    """Of declared columns and of the filter; files are filtered before their query."""
    source = logical.source
    for name, mapping in source.columns.items():
        if mapping.expr is not None:
            yield from expression_faults(logical, mapping.expr, (*at, "columns", name, "expr"))
    is_files = source.kind in READ_AS_FILES
    if source.filter is not None and not (is_files and source.query is not None):
        is_typed = not (is_files and is_plain(source.filter))
        wanted = types.BOOL if is_typed else None
        yield from expression_faults(
            logical, source.filter, (*at, "filter"), wanted=wanted, is_typed=is_typed
        )


def expression_faults(
    logical: LogicalSource,
    sql: str,
    path: Path,
    *,
    wanted: CanonicalType | None = None,
    is_typed: bool = True,
) -> Iterator[Fault]:
    """Why a source cannot compute an expression over its columns, or None.

    Args:
        logical: the source.
        sql: the expression.
        path: of its field.
        wanted: the required type.
        is_typed: False for comparisons that readers of files evaluate value by value.
    """
    try:
        node = parse_expression(sql)
    except ExpressionError as cause:
        yield syntax_fault(cause, path)
        return
    known = types_of(logical.schema)
    try:
        for name in (each for each in nodes_of(node) if isinstance(each, Name)):
            if name.name not in known:
                raise UnknownNameError(name, known)  # noqa: TRY301  as typing does
            if name.name in logical.repeated:
                yield _ambiguous_fault(logical.name, name.name, path)
        if is_typed:
            typed_expression(node, known, wanted=wanted)
        else:
            check_comparisons(node, known)
    except UnknownNameError as cause:
        yield _unknown_fault(logical, cause, path)
    except ExpressionError as cause:
        yield types_fault(logical.name, cause, path)


def types_fault(source: str, cause: ExpressionError, path: Path) -> Fault:
    """What does not fit the columns of a source."""
    return Fault(
        code=SpecCode.INCOMPATIBLE_TYPES,
        path=path,
        message=f"source {source}: {cause}",
        hint=cause.hint or "",
    )


def syntax_fault(cause: ExpressionError, path: Path) -> Fault:
    """What the language does not have."""
    code = SpecCode.FORBIDDEN_SQL if cause.forbidden else SpecCode.NOT_ONE_EXPRESSION
    return Fault(code=code, path=path, message=str(cause), hint=cause.hint or "")


def _unknown_fault(logical: LogicalSource, cause: UnknownNameError, path: Path) -> Fault:
    words = dict(logical.schema.undelivered)
    if cause.name in words:
        return _undelivered_fault(logical.name, cause.name, words[cause.name], path)
    return Fault(
        code=SpecCode.UNKNOWN_COLUMN,
        path=path,
        message=f"source {logical.name}: {cause}",
        hint=cause.hint or "",
    )


def _ambiguous_fault(source: str, column: str, path: Path) -> Fault:
    return Fault(
        code=SpecCode.AMBIGUOUS_COLUMN,
        path=path,
        message=f"source {source} has the column {column!r} more than once"
        if column
        else f"source {source} has more than one column without a name",
        hint="give them different names in the source, or leave them out (`measures`, `except`)",
    )


def _undelivered_fault(source: str, column: str, kind: str, path: Path) -> Fault:
    return Fault(
        code=SpecCode.TYPE_NOT_SUPPORTED,
        path=path,
        message=f"column {column!r} of source {source} has the type {kind}, which cannot be "
        "compared yet",
        hint="leave it out (`except`, `schema.ignore`), or make it a plain column in the source",
    )
