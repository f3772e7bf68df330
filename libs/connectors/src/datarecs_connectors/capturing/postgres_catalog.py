"""What PostgreSQL says about its tables and views, from its catalog alone: nothing is executed.

Every statement runs with `search_path = pg_catalog`, so that no function or operator of a user is
taken for one of the server, and every name in an expression is qualified. Names are compared as
texts, because the server cuts a literal of type `name`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import adapters

from datarecs_connectors.postgres_sessions import Session
from datarecs_connectors.postgres_types import canonical_type
from datarecs_core.captures.request import CaptureScope, ObjectName
from datarecs_core.captures.source_facts import SourceObjects
from datarecs_core.catalog.records import Constraint, ConstraintKind, TableColumn
from datarecs_core.jobs.types import CanonicalType

VIEW = "v"
MATERIALIZED = "m"
KINDS: Mapping[str, str] = {
    "r": "table",
    "p": "partitioned table",
    "f": "foreign table",
    MATERIALIZED: "materialized view",
    VIEW: "view",
}
"""Kinds of relations by the letter of the server."""
_RELATIONS: LiteralString = """
SELECT n.nspname::text, c.relname::text, c.relkind::text,
  has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    AND NOT c.relispartition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'm', 'v')
  AND n.nspname <> 'information_schema' AND NOT starts_with(n.nspname::text, 'pg_')
"""
_RELATION: LiteralString = """
SELECT c.oid, c.relkind::text, obj_description(c.oid, 'pg_class'),
  CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END,
  ARRAY(SELECT a.attname::text FROM pg_partitioned_table p,
    unnest(p.partattrs) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
    WHERE p.partrelid = c.oid ORDER BY k.place),
  c.relhassubclass AND c.relkind <> 'p',
  (SELECT format('%%I.%%I', s.nspname, r.relname) FROM pg_class r
    JOIN pg_namespace s ON s.oid = r.relnamespace
    WHERE c.relispartition AND r.oid = pg_partition_root(c.oid)),
  has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname::text = %s AND c.relname::text = %s AND c.relkind IN ('r', 'p', 'f', 'm', 'v')
"""
_COLUMNS: LiteralString = """
WITH RECURSIVE based AS (
  SELECT a.attnum, a.atttypid AS type, a.atttypmod AS modifier FROM pg_attribute a
  WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attnum, t.typbasetype, t.typtypmod FROM based b JOIN pg_type t ON t.oid = b.type
  WHERE t.typtype = 'd'
)
SELECT a.attnum::int, a.attname::text, b.type::bigint, b.modifier,
  format_type(a.atttypid, a.atttypmod),
  NOT a.attnotnull OR EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = a.attrelid
    AND c.contype = 'n' AND a.attnum = ANY (c.conkey) AND NOT c.convalidated),
  CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
  col_description(a.attrelid, a.attnum)
FROM pg_attribute a JOIN based b ON b.attnum = a.attnum
JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %(oid)s ORDER BY a.attnum
"""
_CONSTRAINTS: LiteralString = """
SELECT c.contype::text, c.conname::text,
  ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number ORDER BY k.place),
  c.convalidated AND coalesce((to_jsonb(c) ->> 'conenforced')::boolean, true),
  CASE WHEN c.contype = 'c' THEN pg_get_expr(c.conbin, c.conrelid) END,
  (SELECT format('%%I.%%I', n.nspname, r.relname) FROM pg_class r
    JOIN pg_namespace n ON n.oid = r.relnamespace WHERE r.oid = c.confrelid),
  ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.number ORDER BY k.place),
  c.confmatchtype::text, c.confupdtype::text, c.confdeltype::text
FROM pg_constraint c WHERE c.conrelid = %s AND c.contype IN ('p', 'u', 'f', 'c', 'n')
ORDER BY c.contype, c.conname
"""
_BASE_RELATIONS: LiteralString = """
SELECT DISTINCT format('%%I.%%I', n.nspname, c.relname) FROM pg_rewrite r
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
  AND d.refclassid = 'pg_class'::regclass
JOIN pg_class c ON c.oid = d.refobjid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.ev_class = %(oid)s AND c.oid <> %(oid)s ORDER BY 1
"""
_CONSTRAINT_KINDS: Mapping[str, ConstraintKind] = {
    "p": ConstraintKind.PRIMARY_KEY,
    "u": ConstraintKind.UNIQUE,
    "f": ConstraintKind.FOREIGN_KEY,
    "c": ConstraintKind.CHECK,
}
_NOT_NULL = "n"
"""Constraints with a name since PostgreSQL 18; before, an attribute of the column."""
_MATCHES: Mapping[str, str] = {"f": "FULL", "p": "PARTIAL", "s": "SIMPLE"}
_ACTIONS: Mapping[str, str] = {
    "a": "NO ACTION",
    "r": "RESTRICT",
    "c": "CASCADE",
    "n": "SET NULL",
    "d": "SET DEFAULT",
}
_UNIQUE = frozenset({ConstraintKind.PRIMARY_KEY, ConstraintKind.UNIQUE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or view of the server."""

    oid: int
    kind: str
    """A key of KINDS."""
    comment: str | None
    partition_spec: str | None
    partition_keys: tuple[str, ...]
    """Columns; an expression is in the spec alone."""
    has_heirs: bool
    """Other tables inherit from it: a read includes them, and no constraint covers them."""
    parent: str | None
    """The partitioned table of a partition."""
    is_readable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerColumn:
    """A column with what its figures need."""

    column: TableColumn
    oid: int
    """Of its type, below all domains."""
    kind: CanonicalType | None
    """None: its values have no canonical form."""


def objects_of(session: Session, scope: CaptureScope) -> SourceObjects:
    """The relations in the scope that the login may read; partitions belong to their parent.

    A table or view that the scope names is listed also without the right to read it, and so is a
    partition, so that its capture reports what is wrong.
    """
    named = {*scope.tables, *((scope.view,) if scope.view else ())}
    is_broad = not named
    tables: list[ObjectName] = []
    views: list[ObjectName] = []
    for schema, relation, kind, is_listed in session.execute(_RELATIONS).fetchall():
        name = ObjectName(namespace=(str(schema),), name=str(relation))
        if not (_is_in(scope, name) and is_listed if is_broad else name in named):
            continue
        (views if kind == VIEW else tables).append(name)
    return SourceObjects(tables=_sorted(tables), views=_sorted(views))


def _is_in(scope: CaptureScope, name: ObjectName) -> bool:
    return not scope.namespaces or name.namespace in scope.namespaces


def _sorted(names: Sequence[ObjectName]) -> tuple[ObjectName, ...]:
    return tuple(sorted(names, key=lambda each: (each.namespace, each.name)))


def relation_named(session: Session, name: ObjectName) -> Relation | None:
    """None if there is no such relation."""
    row = session.execute(_RELATION, (".".join(name.namespace), name.name)).fetchone()
    if row is None:
        return None
    oid, kind, comment, spec, keys, has_heirs, parent, is_readable = row
    return Relation(
        oid=int(str(oid)),
        kind=str(kind),
        comment=_text(comment),
        partition_spec=_text(spec),
        partition_keys=_texts(keys),
        has_heirs=bool(has_heirs),
        parent=_text(parent),
        is_readable=bool(is_readable),
    )


def columns_of(session: Session, relation: Relation) -> tuple[ServerColumn, ...]:
    """In the order of the table; the number of a column never changes."""
    rows = session.execute(_COLUMNS, {"oid": relation.oid}).fetchall()
    columns = []
    for number, name, oid, modifier, native, nullable, default, comment in rows:
        type_oid = int(str(oid))
        kind = _canonical(type_oid, int(str(modifier)))
        columns.append(
            ServerColumn(
                oid=type_oid,
                kind=kind,
                column=TableColumn(
                    field_id=int(str(number)),
                    name=str(name),
                    type=str(native if kind is None else kind),
                    nullable=bool(nullable),
                    default=_text(default),
                    comment=_text(comment),
                ),
            )
        )
    return tuple(columns)


def _canonical(oid: int, modifier: int) -> CanonicalType | None:
    known = adapters.types.get(oid)
    if known is None:
        return None
    return canonical_type(oid, known.get_precision(modifier), known.get_scale(modifier))


def constraints_of(
    session: Session, relation: Relation, columns: Sequence[ServerColumn]
) -> tuple[Constraint, ...]:
    """Constraints of the table and of its columns; enforced ones hold for every row."""
    rows = session.execute(_CONSTRAINTS, (relation.oid,)).fetchall()
    not_null = {_texts(row[2]): str(row[1]) for row in rows if row[0] == _NOT_NULL}
    return (
        *(_constraint(row) for row in rows if row[0] != _NOT_NULL),
        *(
            Constraint(
                type=ConstraintKind.NOT_NULL,
                name=not_null.get((each.column.name,)),
                columns=(each.column.name,),
                enforced=True,
                referenced_columns=(),
            )
            for each in columns
            if not each.column.nullable
        ),
    )


def _constraint(row: Sequence[object]) -> Constraint:
    kind, name, columns, enforced, expression, referenced, referenced_columns, *rest = row
    match, on_update, on_delete = (str(each) for each in rest)
    return Constraint(
        type=_CONSTRAINT_KINDS[str(kind)],
        name=str(name),
        columns=_texts(columns),
        enforced=bool(enforced),
        expression=_text(expression),
        referenced_table=_text(referenced),
        referenced_columns=_texts(referenced_columns),
        match=_MATCHES.get(match),
        on_update=_ACTIONS.get(on_update),
        on_delete=_ACTIONS.get(on_delete),
    )


def unique_columns(relation: Relation, constraints: Sequence[Constraint]) -> frozenset[str]:
    """Columns with different values in all rows, NULL aside."""
    if relation.has_heirs:
        return frozenset()
    return frozenset(
        each.columns[0]
        for each in constraints
        if each.type in _UNIQUE and each.enforced and len(each.columns) == 1
    )


def view_definition(session: Session, relation: Relation) -> tuple[str, tuple[str, ...]]:
    """The SELECT of a view and the relations that it names, each qualified by its schema."""
    row = session.execute("SELECT pg_get_viewdef(%s::oid)", (relation.oid,)).fetchone()
    bases = session.execute(_BASE_RELATIONS, {"oid": relation.oid}).fetchall()
    return str(row[0]) if row else "", tuple(str(base[0]) for base in bases)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
