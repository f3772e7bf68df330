"""Captures of PostgreSQL: tables and views from the catalog, figures in one transaction.

A snapshot of PostgreSQL ends with its transaction, so a table is counted in the transaction that is
the snapshot. The login, the checked address, TLS and the time limits are those of the connector;
views are described and never read.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql

from datarecs_application.ports.capturing import FileRequest
from datarecs_connectors.capturing.columns import FIELD_ID, counts_columns
from datarecs_connectors.capturing.postgres_catalog import (
    KINDS,
    MATERIALIZED,
    VIEW,
    Relation,
    ServerColumn,
    columns_of,
    constraints_of,
    objects_of,
    relation_named,
    unique_columns,
    view_definition,
)
from datarecs_connectors.capturing.postgres_figures import (
    figures_statement,
    is_whole,
    scalar_stats,
)
from datarecs_connectors.errors import (
    PermissionDeniedError,
    QueryFailedError,
    SnapshotLostError,
    SourceUnsupportedError,
    StatementTimeoutError,
)
from datarecs_connectors.postgres import PostgresConnector
from datarecs_connectors.postgres_privileges import refuse_privileged_role
from datarecs_connectors.postgres_sessions import Session
from datarecs_core.captures.plan import chosen_columns
from datarecs_core.captures.request import CapturePolicy, CaptureScope, ObjectName
from datarecs_core.captures.source_facts import (
    CapturedFile,
    CapturedTable,
    Completion,
    SourceFile,
    SourceObjects,
    SourceSnapshot,
    SourceTable,
    SourceView,
)
from datarecs_core.catalog.records import TableColumn, ViewDefinition
from datarecs_core.jobs.definition import DEFAULT_LIMITS

_BUILT_IN = "pg_catalog"
_SNAPSHOT: LiteralString = """
SELECT statement_timestamp(), pg_current_snapshot()::text,
  CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END::text
"""
_SYSTEM: LiteralString = "SELECT system_identifier::text FROM pg_control_system()"
_TIMELINE: LiteralString = "SELECT timeline_id::text FROM pg_control_checkpoint()"
_SIZE: LiteralString = """
SELECT coalesce(sum(pg_table_size(member)), 0)::bigint FROM (
  SELECT relid AS member FROM pg_partition_tree(%(oid)s) UNION SELECT %(oid)s::regclass) AS members
"""
_STANDING: LiteralString = """
SELECT c.relfilenode = pg_relation_filenode(c.oid) FROM pg_class c
LEFT JOIN (SELECT 1 FROM {} LIMIT 0) q ON true WHERE c.oid = {}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresCaptureSource:
    """Port CaptureSource over one database."""

    connector: PostgresConnector

    @property
    def opened_files(self) -> int:
        """A database has no data files."""
        return 0

    def objects(self, scope: CaptureScope) -> SourceObjects:
        """Relations that the login may SELECT; partitions are part of their parent.

        A relation that the scope names is listed without the right to read it as well: its own
        work then fails with the right that is missing.
        """
        with self._transaction() as session:
            self._check_role(session)
            return objects_of(session, scope)

    def table(self, name: ObjectName, *, known: Sequence[str]) -> SourceTable:  # noqa: ARG002  a snapshot lives as long as its transaction, so none is known
        """The table as of now; its snapshot is that of this transaction."""
        with self._transaction() as session:
            moment = _moment(session)
            relation = self._relation(session, name)
            columns = columns_of(session, relation)
            return SourceTable(
                name=name,
                uri=self._uri(name),
                format="postgres",
                completion=Completion.DIRECT_STATS,
                columns=_plain(columns),
                column_ids=FIELD_ID,
                partition_keys=relation.partition_keys,
                constraints=constraints_of(session, relation, columns),
                snapshots=(moment.snapshot(relation, columns),),
                comment=relation.comment,
                properties={"kind": KINDS[relation.kind]},
            )

    def view(self, name: ObjectName) -> SourceView:
        """The definition, in which every name outside `pg_catalog` has its schema."""
        with self._transaction() as session:
            relation = self._relation(session, name, is_view=True)
            definition, bases = view_definition(session, relation)
            return SourceView(
                name=name,
                definitions=(ViewDefinition(sql=definition, dialect="postgresql"),),
                base_relations=bases,
                search_path=(_BUILT_IN,),
                columns=_plain(columns_of(session, relation)),
                comment=relation.comment,
            )

    def files(self, name: ObjectName, native_id: str) -> Sequence[SourceFile]:
        raise self._without_files(name, native_id)

    def capture_files(
        self,
        name: ObjectName,
        native_id: str,
        files: Sequence[SourceFile],  # noqa: ARG002  there are none
        request: FileRequest,  # noqa: ARG002  see above
    ) -> Iterator[CapturedFile]:
        raise self._without_files(name, native_id)

    def capture_table(self, name: ObjectName, policy: CapturePolicy) -> CapturedTable:
        """Count the rows and the figures of the chosen columns in one scan of one snapshot."""
        with self._transaction() as session:
            is_locked = self._lock(session, name)
            moment = _moment(session)
            relation = self._relation(session, name)
            if not is_locked:
                self._check_standing(session, name, relation)
            columns = columns_of(session, relation)
            chosen = _chosen(columns, policy)
            constraints = constraints_of(session, relation, columns)
            unique = unique_columns(relation, constraints)
            row = session.execute(figures_statement(name, chosen)).fetchone() or (0,)
            rows = int(str(row[0]))
            stats = tuple(
                scalar_stats(
                    each, _figures(figures), rows=rows, is_unique=each.column.name in unique
                )
                for each, figures in zip(chosen, row[1:], strict=True)
            )
            return CapturedTable(
                snapshot=moment.snapshot(relation, columns),
                rows=rows,
                size_bytes=_size(session, relation),
                columns=stats,
                constraints=constraints,
                is_complete=all(map(is_whole, chosen, stats)),
            )

    def close(self) -> None:
        self.connector.close()

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        """One REPEATABLE READ READ ONLY transaction; functions are those of the server alone."""
        limit = DEFAULT_LIMITS.statement_timeout
        try:
            with self.connector.read_only_session(limit) as session:
                # Without this, a function of a user with a better fitting type would be called.
                session.execute("SET LOCAL search_path TO pg_catalog")
                # A thousand aggregates take longer to compile than to compute.
                session.execute("SET LOCAL jit TO off")
                yield session
        except StatementTimeoutError as cause:
            raise StatementTimeoutError(
                self.connector.source,
                f"counting took longer than {limit.total_seconds():.0f} s, the limit of a capture; "
                "capture fewer columns, or TABLE_STATS alone",
            ) from cause

    def _check_role(self, session: Session) -> None:
        connector = self.connector
        refuse_privileged_role(
            session,
            source=connector.source,
            profile=connector.policy.profile,
            user=connector.config.user,
        )

    def _relation(self, session: Session, name: ObjectName, *, is_view: bool = False) -> Relation:
        self._check_role(session)
        relation = relation_named(session, name)
        if relation is None or (relation.kind == VIEW) is not is_view:
            raise QueryFailedError(
                self.connector.source,
                f"there is no {'view' if is_view else 'table'} {_shown(name)}; it may have been "
                "dropped or renamed since it was listed",
            )
        if relation.parent is not None:
            raise SourceUnsupportedError(
                self.connector.source,
                f"{_shown(name)} is a partition, which is captured with its table; capture "
                f"{relation.parent}",
            )
        if not relation.is_readable:
            raise PermissionDeniedError(
                self.connector.source,
                f"user {self.connector.config.user} may not read {_shown(name)}; grant USAGE on "
                "its schema and SELECT on the whole relation to the login",
            )
        return relation

    def _lock(self, session: Session, name: ObjectName) -> bool:
        """Lock before the snapshot is taken: no TRUNCATE, rewrite or DROP comes between.

        False for relations that the server does not lock by name.
        """
        try:
            with session.transaction():
                session.execute(
                    sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(_identifier(name))
                )
        except psycopg.errors.WrongObjectType:
            return False
        return True

    def _check_standing(self, session: Session, name: ObjectName, relation: Relation) -> None:
        """A REFRESH of a materialized view replaces its rows also for older snapshots."""
        if relation.kind != MATERIALIZED:
            return
        query = sql.SQL(_STANDING).format(_identifier(name), sql.Literal(relation.oid))
        row = session.execute(query).fetchone()
        if row is None or not row[0]:
            raise SnapshotLostError(
                self.connector.source,
                f"{_shown(name)} was refreshed while its snapshot was taken; capture it again",
            )

    def _uri(self, name: ObjectName) -> str:
        config = self.connector.config
        parts = (config.database, *name.namespace, name.name)
        path = "/".join(quote(part, safe="") for part in parts)
        return f"postgresql://{config.host}:{config.port}/{path}"

    def _without_files(self, name: ObjectName, native_id: str) -> SourceUnsupportedError:
        return SourceUnsupportedError(
            self.connector.source,
            f"{_shown(name)} has no data files, also not at snapshot {native_id}; a table of "
            "PostgreSQL is captured as a whole",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """When and where the snapshot of a transaction was taken."""

    native_id: str
    taken_at: datetime

    def snapshot(self, relation: Relation, columns: Sequence[ServerColumn]) -> SourceSnapshot:
        return SourceSnapshot(
            native_id=self.native_id,
            committed_at=self.taken_at,
            columns=_plain(columns),
            partition_spec=relation.partition_spec,
            summary={},
        )


def _moment(session: Session) -> _Moment:
    """Take the snapshot: call it before any other statement that reads."""
    taken_at, transactions, position = session.execute(_SNAPSHOT).fetchone() or ("",) * 3
    if not isinstance(taken_at, datetime):
        raise TypeError("statement_timestamp() is an instant")
    system, timeline = _readable(session, _SYSTEM), _readable(session, _TIMELINE)
    return _Moment(native_id=f"{system}/{timeline}/{position}/{transactions}", taken_at=taken_at)


def _plain(columns: Sequence[ServerColumn]) -> tuple[TableColumn, ...]:
    return tuple(each.column for each in columns)


def _chosen(columns: Sequence[ServerColumn], policy: CapturePolicy) -> Sequence[ServerColumn]:
    if not counts_columns(policy):
        return ()
    names = {each.name for each in chosen_columns(policy, _plain(columns))}
    return [each for each in columns if each.column.name in names]


def _figures(value: object) -> Sequence[str | None]:
    return value if isinstance(value, list) else ()


def _identifier(name: ObjectName) -> sql.Identifier:
    return sql.Identifier(*name.namespace, name.name)


def _shown(name: ObjectName) -> str:
    return repr(".".join((*name.namespace, name.name)))


def _readable(session: Session, query: LiteralString) -> str:
    """One text, empty if this login may not read it."""
    try:
        with session.transaction():
            row = session.execute(query).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return ""
    return str(row[0]) if row else ""


def _size(session: Session, relation: Relation) -> int | None:
    """Bytes of the table and its partitions, without indexes; None for a foreign table."""
    if KINDS[relation.kind] == "foreign table":
        return None
    row = session.execute(_SIZE, {"oid": relation.oid}).fetchone()
    return int(str(row[0])) if row else None
