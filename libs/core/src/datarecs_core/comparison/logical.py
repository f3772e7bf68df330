"""Logical columns: what a source's columns are called in the job, and where each comes from.

The planner's first step. Names match exactly; a declared mapping wins over a physical column of
the same name.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from datarecs_core.comparison.condition import named_columns
from datarecs_core.comparison.scan import Pin, Scan, ScanColumn, SourceSchema
from datarecs_core.errors.faults import Fault, Path, did_you_mean
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import NESTED, CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import READ_AS_FILES, SourceKind

_SHOWN_COLUMNS = 20
_WIDE = NESTED | {TypeKind.TEXT, TypeKind.BINARY, TypeKind.JSON}


QUERY_KINDS = frozenset({SourceKind.POSTGRES}) | READ_AS_FILES
"""Kinds of sources that answer the queries of a custom_sql stage."""


def query_source(source: Source, query: str) -> Source:
    """The source as one custom_sql stage reads it: by its own query, whose columns are as named.

    Of files and lake tables the query sees one table, named as the source: the rows behind its
    filter, under the names that the files give their columns.
    """
    own = replace(source, query=query, columns={}, cast={})
    if source.kind in READ_AS_FILES:
        return own
    return replace(own, relation=None, path=None, filter=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSource:
    """A source with its columns under their logical names."""

    source: Source
    index: int
    schema: SourceSchema
    columns: Mapping[str, ScanColumn]
    """In the order of the schema, mapped columns first."""
    undelivered: Mapping[str, str]
    """The source's word for the type of a column that no row brings, by logical name."""
    repeated: frozenset[str]
    """Physical names that occur more than once."""

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
        found = self.columns.get(column)
        if found is None:
            known = sorted(self.columns)
            shown = ", ".join(known[:_SHOWN_COLUMNS])
            more = f" and {len(known) - _SHOWN_COLUMNS} more" if len(known) > _SHOWN_COLUMNS else ""
            return Fault(
                code=SpecCode.UNKNOWN_COLUMN,
                path=path,
                message=f"source {self.name} has no column {column!r}; it has {shown}{more}",
                hint=did_you_mean(column, known),
            )
        if found.physical in self.repeated:
            return Fault(
                code=SpecCode.AMBIGUOUS_COLUMN,
                path=path,
                message=f"source {self.name} has the column {found.physical!r} more than once",
            )
        return None

    def _width(self, column: str) -> tuple[bool, str]:
        return self.type_of(column).kind in _WIDE, column

    def scan(self, pin: Pin, wanted: frozenset[str]) -> Scan:
        """What to read: the wanted logical columns, or a small one where only rows are counted."""
        brought = self.columns.keys() - self.undelivered.keys()
        names = sorted(wanted & brought) or sorted(brought, key=self._width)[:1]
        source = self.source
        return Scan(
            source=source.name,
            index=self.index,
            kind=source.kind,
            connection=source.connection,
            relation=source.relation,
            query=source.query,
            path=source.path,
            columns=tuple(self.columns[name] for name in names),
            schema=self.schema,
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
    )


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
    if logical.source.kind in READ_AS_FILES:
        words, named = dict(logical.schema.undelivered), named_columns(logical.source.filter)
        faults += [
            _undelivered_fault(logical.name, column, words[column], (*at, "filter"))
            for column in sorted(words.keys() & (named or ()))
        ]
    return faults


def _undelivered_fault(source: str, column: str, kind: str, path: Path) -> Fault:
    return Fault(
        code=SpecCode.FEATURE_NOT_INSTALLED,
        path=path,
        message=f"column {column!r} of source {source} has the type {kind}, which cannot be "
        "compared yet",
        hint="leave it out (`except`, `schema.ignore`), or make it a plain column in the source",
    )
