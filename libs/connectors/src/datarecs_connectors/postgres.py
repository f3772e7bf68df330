"""PostgreSQL: one exported snapshot is the pin, COPY is the read, the server's types are the types.

Connections are opened for one run alone and never come from the platform's pool. The session is
READ ONLY and REPEATABLE READ; each reader adopts the exported snapshot with its first statement.
The address is checked, and the connection goes to the checked address.
"""

import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.rows import dict_row, tuple_row

from datarecs_application.ports.comparing import ProbeStep, Read
from datarecs_application.stopping import StoppedError, Stopping
from datarecs_connectors.errors import (
    ColumnMissingError,
    ConnectionFailedError,
    PermissionDeniedError,
    QueryFailedError,
    SnapshotLostError,
    SourceError,
    StatementTimeoutError,
)
from datarecs_connectors.extracting import Readers, write_extract, write_together
from datarecs_connectors.postgres_copy import blocks
from datarecs_connectors.postgres_groups import GroupedAnswer, typed_batch
from datarecs_connectors.postgres_login import CONNECT_TIMEOUT_S, login_failure, login_parameters
from datarecs_connectors.postgres_privileges import excess_privileges, refuse_privileged_role
from datarecs_connectors.postgres_ranges import (
    AUTO,
    NONE,
    conditions_of,
    ranges_of,
    relation_of,
    standing,
    usable_cores,
)
from datarecs_connectors.postgres_sessions import (
    HeldSnapshot,
    Session,
    Sessions,
    deadline,
    ending,
)
from datarecs_connectors.postgres_statements import (
    counting,
    explaining,
    origin,
    source_of,
    statement,
)
from datarecs_connectors.postgres_statistics import groups_exactly, statistics_of
from datarecs_connectors.postgres_types import canonical_type, plain_reader
from datarecs_connectors.probing import steps
from datarecs_core.comparison.planning.pushdown import NotPushedError
from datarecs_core.comparison.planning.scan import (
    ExportedSnapshot,
    Pin,
    Ranges,
    Scan,
    SourceColumn,
    SourceSchema,
)
from datarecs_core.egress.addresses import Policy, admit
from datarecs_core.egress.urls import check_source_port
from datarecs_core.errors.security import AddressBlockedError, UrlRefusedError
from datarecs_core.jobs.definition import Source
from datarecs_core.resources.connection import PostgresConfig

BATCH_ROWS = 10_000
"""Limit of `options.fetch_size`."""
_SHORT = timedelta(seconds=CONNECT_TIMEOUT_S)
_ABOUT_OBJECTS = "42"
"""SQLSTATEs with messages that name tables, columns and positions; others may quote values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresConnector:
    """Port Connector over one server; it opens every session itself."""

    source: str
    config: PostgresConfig
    password: str = field(repr=False)
    policy: Policy
    stop: Stopping = field(default_factory=Stopping)
    """Ends the statements that its sessions wait for."""

    def pin(self, source: Source) -> HeldSnapshot:
        limit = source.limits.statement_timeout
        session = self._session(limit)
        try:
            with self._timed(session, limit):
                refuse_privileged_role(
                    session,
                    source=self.source,
                    profile=self.policy.profile,
                    user=self.config.user,
                )
                # The server ends a session that is idle for this long: it retains old rows.
                held_ms = max(int(source.snapshot.max_hold.total_seconds() * 1000), 1)
                session.execute(f"SET idle_in_transaction_session_timeout = {held_ms}".encode())
                session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                row = session.execute(
                    "SELECT pg_export_snapshot(), current_database(), pg_current_snapshot()::text,"
                    " CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
                    " ELSE pg_current_wal_lsn() END::text, now(),"
                    " (SELECT system_identifier::text FROM pg_control_system())"
                ).fetchone()
        except SourceError:
            session.close()
            raise
        if row is None:
            raise SnapshotLostError(self.source, "the server exported no snapshot")
        snapshot, database, transactions, lsn, taken_at, system = row
        pin = ExportedSnapshot(
            snapshot_id=str(snapshot),
            system_id=str(system),
            database=str(database),
            snapshot=str(transactions),
            lsn=str(lsn),
            taken_at=_instant(taken_at),
        )
        return HeldSnapshot(source=self.source, pin=pin, session=session, limit=limit)

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Columns as the server plans them.

        Columns that cannot be compared are listed, and refused where a job names them.
        """
        with self._pinned_session(source, pin) as session:
            query = sql.SQL("SELECT * FROM ") + origin(source)
            columns, undelivered = self._columns(session, query)
            names = [column.name for column in columns] + [name for name, _ in undelivered]
            self._check_partition(source, names)
            known = statistics_of(session, source)
            ranges = self._ranges(session, source)
        return SourceSchema(
            columns=tuple(known.of(column) for column in columns),
            undelivered=tuple(undelivered),
            estimated_rows=known.rows,
            estimated_bytes=known.size_bytes,
            ranges=ranges,
        )

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        """Every row, also by COPY, so that oracle and engine read the same texts."""
        readers = [plain_reader(column.type) for column in scan.columns]
        whole = replace(scan, groups=None, only=None)
        for batch in self._copied(scan, statement(whole), len(readers)):
            columns = [column.to_pylist() for column in batch.columns]
            for row in zip(*columns, strict=True):
                yield tuple(
                    None if text is None else read(text)
                    for text, read in zip(row, readers, strict=True)
                )

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        """All rows, only the rows that a stage needs, or groups of rows.

        Also raises NotPushedError if all rows of the source must be read instead.
        """
        if scan.groups is None and scan.only is None:
            return self._brought(scan, directory, progress)
        try:
            return self._extract_pushed(scan, directory, progress)
        except QueryFailedError as cause:  # such as a sum that overflows its type
            raise NotPushedError("the server refuses the pushed-down statement") from cause

    def _extract_pushed(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        if scan.groups is not None:
            answered = GroupedAnswer(scan=scan, groups=scan.groups)
            with closing(self._copied(scan, statement(scan), answered.width)) as batches:
                return answered.stored(batches, directory, progress)
        brought = self._brought(scan, directory, progress)
        if brought.extract is None:
            raise TypeError("the scan has no extract")
        counted = self._counted(scan, counting(scan))
        return replace(brought, extract=replace(brought.extract, source_rows=counted))

    def _brought(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        """Extract its rows with the number of readers in its description."""
        ranges, sessions = scan.schema.ranges, Sessions()
        cut = self._cut(scan, ranges)
        if ranges is None or not cut:
            with closing(self._typed_batches(scan, None, sessions)) as batches:
                return write_extract(scan, batches, directory, progress)
        brought = write_together(
            scan,
            [partial(self._typed_batches, scan, within, sessions) for within in cut],
            directory,
            progress,
            readers=Readers(at_once=ranges.at_once, interrupt=sessions.interrupt),
        )
        self._verify(scan, brought, counts=ranges.by is not None)
        return brought

    def _cut(self, scan: Scan, ranges: Ranges | None) -> Sequence[sql.Composable]:
        """A condition per range; none if one reader reads everything."""
        few = scan.only is not None and scan.only.keys is not None
        if ranges is None or ranges.count == 1 or few:
            return ()
        with self._pinned_session(source_of(scan), scan.pin) as session:
            return conditions_of(session, source_of(scan), ranges)

    def _verify(self, scan: Scan, brought: Scan, *, counts: bool) -> None:
        """Count the rows of the ranges again if `options.verify_count` or `counts` is true."""
        if brought.extract is None or not dict(scan.options).get("verify_count", counts):
            return
        rows, counted = (
            brought.extract.rows,
            self._counted(scan, counting(scan, is_restricted=True)),
        )
        if rows != counted:
            raise SnapshotLostError(
                self.source,
                f"its ranges returned {rows} rows, but {counted} were counted in the same "
                "snapshot; run again, or read it by one reader (partition.by: none)",
            )

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        """Name, address, login, version, privileges; then the relation, if one is given."""

        def login() -> str:
            with self._session(_SHORT) as session:
                version = session.info.server_version // 10000
                shield = "TLS" if session.pgconn.ssl_in_use else "not encrypted"
                return f"PostgreSQL {version}, {shield}"

        def privileges() -> str:
            with closing(self._session(_SHORT)) as session, self._timed(session, _SHORT):
                refuse_privileged_role(
                    session,
                    source=self.source,
                    profile=self.policy.profile,
                    user=self.config.user,
                )
                excess = excess_privileges(session)
            return (
                f"role {self.config.user} {' and '.join(excess)}: use one that only reads; profile "
                "server refuses this one"
                if excess
                else f"role {self.config.user} only reads"
            )

        def relation() -> str:
            if source is None:
                return ""
            held = self.pin(source)
            try:
                return f"{len(self.describe(source, held.pin).columns)} columns"
            finally:
                held.close()

        return steps(
            ("address", self._address),
            ("login", login),
            ("privileges", privileges),
            *((("relation", relation),) if source else ()),
        )

    def fetch_rows(self, statement: str, values: Mapping[str, str]) -> list[dict[str, object]]:
        """Rows of one statement of this product in a read-only session, by column name."""
        with self.read_only_session() as session, session.cursor(row_factory=dict_row) as cursor:
            return list(cursor.execute(statement.encode(), values).fetchall())

    def explain(self, scan: Scan) -> list[str]:
        """The server's plan of the scan's statement, line by line; nothing is read."""
        with self.read_only_session() as session:
            return [str(row[0]) for row in session.execute(explaining(scan)).fetchall()]

    def close(self) -> None:
        """Nothing to close: each session is closed where it was opened."""

    def _address(self) -> str:
        """The checked address to connect to; every resolved address must be allowed."""
        host, port = self.config.host, self.config.port
        try:
            check_source_port(port)
        except UrlRefusedError as cause:
            raise ConnectionFailedError(self.source, str(cause)) from cause
        try:
            answers = [
                str(answer[4][0])
                for answer in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            ]
        except OSError as cause:
            raise ConnectionFailedError(self.source, f"the name {host} has no address") from cause
        try:
            return str(admit(answers, self.policy)[0])
        except AddressBlockedError as cause:
            raise ConnectionFailedError(
                self.source, f"{host} has an address of class {cause.address_class}: not allowed"
            ) from cause

    def _session(self, statement_timeout: timedelta) -> Session:
        self.stop.check()
        config, address = self.config, self._address()
        login = login_parameters(self.source, config, address=address, password=self.password)
        try:
            return psycopg.connect(
                host=config.host,
                hostaddr=address,
                port=config.port,
                dbname=config.database,
                user=config.user,
                **login,
                connect_timeout=CONNECT_TIMEOUT_S,
                # A server that disappears without a message is noticed within half a minute.
                keepalives_idle=15,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=30_000,
                application_name="datarecs",
                autocommit=True,
                row_factory=tuple_row,
                options="-c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601"
                " -c extra_float_digits=1 -c lock_timeout=5000 -c row_security=off"
                f" -c statement_timeout={int(statement_timeout.total_seconds() * 1000)}",
            )
        except psycopg.OperationalError as cause:
            raise login_failure(self.source, cause, config) from cause

    @contextmanager
    def _timed(self, session: Session, limit: timedelta) -> Iterator[None]:
        """Run statements with a time limit of this process, and translate their errors."""
        with deadline(session, limit, self.stop) as late:
            try:
                # The query of a killed reader ends. Older servers and some systems cannot do this.
                with suppress(psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue):
                    session.execute("SET client_connection_check_interval = '5s'")
                yield
            except (psycopg.Error, SnapshotLostError) as cause:
                self._check_stopped(cause)
                if late.is_set():
                    raise self._too_long() from cause
                if isinstance(cause, SnapshotLostError):
                    raise
                raise self._source_error(cause) from cause
            if late.is_set():  # a request for statistics only continues without them
                raise self._too_long()

    def _check_stopped(self, cause: Exception) -> None:
        """Replace the error of a statement that a stop has ended."""
        if self.stop.is_set():
            raise StoppedError from cause

    @contextmanager
    def read_only_session(self, limit: timedelta = _SHORT) -> Iterator[Session]:
        """A transaction for statements of this product: one snapshot, and no writes."""
        with closing(self._session(limit)) as session, self._timed(session, limit):
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield session

    @contextmanager
    def _pinned_session(self, source: Source, pin: Pin) -> Iterator[Session]:
        """A session that reads exactly the pinned snapshot."""
        if not isinstance(pin, ExportedSnapshot):
            raise TypeError("a postgres source is pinned by an exported snapshot")
        limit = source.limits.statement_timeout
        session = self._session(limit)
        with ending(session), self._timed(session, limit):
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            adopting = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(pin.snapshot_id))
            try:
                session.execute(adopting)
            except psycopg.Error as cause:
                raise SnapshotLostError(
                    self.source, "its exported snapshot no longer exists; run again"
                ) from cause
            yield session

    def _columns(
        self, session: Session, query: sql.Composable
    ) -> tuple[list[SourceColumn], list[tuple[str, str]]]:
        """Columns that the server describes; `prepare` refuses a second statement in the text.

        Columns without a canonical type are returned separately, with the server's type name.
        """
        cursor = session.execute(query + sql.SQL(" LIMIT 0"), prepare=True)
        columns, others = [], []
        for column in cursor.description or ():
            native = column.type_display
            kind = canonical_type(column.type_code, column.precision, column.scale)
            if kind is None:
                others.append((column.name, native))
                continue
            exact = groups_exactly(column.type_code, kind, session)
            columns.append(
                SourceColumn(name=column.name, type=kind, native_type=native, groups_exactly=exact)
            )
        return columns, others

    def _copied(
        self, scan: Scan, query: sql.Composable, width: int, sessions: Sessions | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Rows of a SELECT as text columns, block by block."""
        names = [f"c{number}" for number in range(width)]
        most_rows = int(str(dict(scan.options).get("fetch_size", BATCH_ROWS)))
        with (
            self._pinned_session(source_of(scan), scan.pin) as session,
            (sessions or Sessions()).holding(session),
        ):
            self._check_standing(session, source_of(scan))
            with session.cursor().copy(
                sql.SQL("COPY ({}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')").format(query)
            ) as copy:
                yield from blocks(copy, names, most_rows)

    def _ranges(self, session: Session, source: Source) -> Ranges:
        return ranges_of(
            source,
            relation_of(session, source),
            version=session.info.server_version,
            cores=usable_cores(),
        )

    def _check_standing(self, session: Session, source: Source) -> None:
        """A snapshot does not protect against commands that empty or rewrite a whole table.

        The session's lock blocks them from here on.
        """
        if source.relation is None:
            return
        row = session.execute(standing(source)).fetchone()
        if row is None or not row[0]:
            raise SnapshotLostError(
                self.source,
                f"{source.relation} was emptied, rewritten or recreated after its snapshot was "
                "taken (TRUNCATE, VACUUM FULL, CLUSTER, REFRESH, ALTER TABLE); run again",
            )

    def _check_partition(self, source: Source, names: Sequence[str]) -> None:
        by = source.partition.by
        if source.query is None and by not in {AUTO, NONE, *names}:
            raise ColumnMissingError(self.source, by, names)

    def _counted(self, scan: Scan, query: sql.Composed) -> int:
        with self._pinned_session(source_of(scan), scan.pin) as session:
            row = session.execute(query).fetchone()
        return int(str(row[0])) if row else 0

    def _typed_batches(
        self, scan: Scan, within: sql.Composable | None, sessions: Sessions
    ) -> Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]:
        """Rows of one range, or all rows, as batches of an extract."""
        kinds = [(column.name, column.type) for column in scan.columns]
        for batch in self._copied(scan, statement(scan, within), len(kinds), sessions):
            yield typed_batch(batch, kinds)

    def _source_error(self, cause: psycopg.Error) -> SourceError:
        """Translate an error with the server's primary message: it names objects, never values."""
        message = cause.diag.message_primary or "the server gave no reason"
        if isinstance(cause, psycopg.errors.QueryCanceled):
            return self._too_long()
        if isinstance(cause, psycopg.errors.LockNotAvailable):
            return QueryFailedError(
                self.source, "another session locked it for 5 s; run again after that session ends"
            )
        if isinstance(cause, psycopg.errors.InsufficientPrivilege):
            if "row-level security" in message:
                return PermissionDeniedError(
                    self.source,
                    f"{message}; a policy would hide rows, and a result of a part would look like "
                    "one of the table: read a view that selects the rows on purpose, or use a role "
                    "with BYPASSRLS",
                )
            return PermissionDeniedError(self.source, f"{message}; grant SELECT to the login")
        if (cause.sqlstate or "").startswith(_ABOUT_OBJECTS):
            return QueryFailedError(self.source, message)
        return self._read_failure(cause)

    def _read_failure(self, cause: psycopg.Error) -> SourceError:
        """Translate an error without the server's message, which may quote values."""
        if isinstance(cause, psycopg.DataError):
            return QueryFailedError(
                self.source,
                "an expression, a filter or a query fails for a row: a value does not fit its "
                f"type ({type(cause).__name__})",
            )
        if isinstance(cause, psycopg.OperationalError):
            return ConnectionFailedError(self.source, "the connection was lost while reading")
        return QueryFailedError(self.source, f"{type(cause).__name__}: the read failed")

    def _too_long(self) -> StatementTimeoutError:
        return StatementTimeoutError(
            self.source, "the statement took longer than limits.statement_timeout"
        )


def _instant(value: object) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError("now() is an instant")
    return value
