"""What a supervisor passes to its child: the run frame, the credentials file, the scratch folder.

Separate from supervision because this is the border the platform's secrets must not cross: the
frame holds addresses and no password, the credentials are in a 0600 file that the child deletes
after reading, and neither has credentials of database or broker.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from datarecs_application.child_frames import RUN
from datarecs_application.ports.comparing import Connector
from datarecs_application.ports.outside import SecretStore
from datarecs_application.ports.state import LeasedRun, Transaction
from datarecs_core.comparison.planning.scan import Pin
from datarecs_core.documents import to_document
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, secret_uses
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.runs.model import Run
from datarecs_core.values import TenantId

_PINNED_BY_CHILD = frozenset({SourceKind.ICEBERG, SourceKind.KAFKA})
"""The process that holds the platform's credentials parses no metadata of a lake, which is a
customer's file, and no answer of a customer's brokers."""


class ConnectionMissingError(DatarecsError):
    """A source names a connection that its tenant does not have (any more)."""

    code = RunDetail.CONNECTION_FAILED

    def __init__(self, *, source: str, connection: str) -> None:
        super().__init__(
            f"source {source} names the connection {connection!r}, which does not exist; "
            "apply it and run again"
        )
        self.source, self.connection = source, connection


class SourceNotPinnedError(Exception):
    """A source could not be reached or pinned by the supervisor. The cause is the real error."""

    def __init__(self, index: int) -> None:
        super().__init__(f"extract-{index}")
        self.index = index


class Decode(Protocol):
    """Reads stored declarations; `datarecs_specs` implements it."""

    def job(self, name: str, spec: Mapping[str, object]) -> ReconciliationJob: ...

    def connection(self, name: str, spec: Mapping[str, object]) -> Connection: ...


class Scratch(Protocol):
    """The folder of one attempt on this host."""

    def make(self, leased: LeasedRun) -> str:
        """An empty folder, 0700; its path."""

    def write_secret(self, folder: str, data: Mapping[str, str]) -> str:
        """A 0600 file with the credentials as JSON; its path."""

    def read_result(self, folder: str) -> bytes | None:
        """The result file's bytes, at most one more than allowed; None when there is none."""

    def artefacts(self, folder: str) -> Mapping[str, str]:
        """Path by key of the files that the child leaves to be stored; never a link."""

    def remove(self, folder: str) -> None:
        """Everything below; safe to repeat."""


Connect = Callable[[Source, Connection | None, Mapping[str, str]], Connector]
"""Opens a source's connection with its resolved secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Pins on their way through a pipe, each with its kind."""

    by_source: Mapping[str, Pin]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Everything read from the platform for one attempt."""

    run: Run
    job: ReconciliationJob
    connections: Mapping[str, Connection]
    secrets: Mapping[str, str]
    """`<connection>/<field>` -> value; goes only into the credentials file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """Reads the run, its connections and their secrets; pins the databases."""

    decode: Decode
    secrets: SecretStore
    connect: Connect
    break_key: Callable[[TenantId], str]
    """The tenant's key for break ids, in hexadecimal."""

    def read(self, tx: Transaction, run: Run) -> Prepared:
        """Raises ConnectionMissingError, or why a secret cannot be resolved."""
        job = self.decode.job(run.job_name, run.spec)
        connections = {}
        for source in job.sources:
            name = source.connection
            if name is None or name in connections:
                continue
            resource = tx.resources.get(Kind.CONNECTION, DEFAULT_NAMESPACE, name)
            if resource is None:
                raise ConnectionMissingError(source=source.name, connection=name)
            connections[name] = self.decode.connection(name, resource.spec)
        secrets = {
            f"{name}/{field}": self.secrets.resolve(reference, tenant=run.tenant_id, uses=uses)
            for name, connection in connections.items()
            for field, reference in connection.auth.items()
            if (uses := secret_uses(connection.config, field))
        }
        return Prepared(run=run, job=job, connections=connections, secrets=secrets)

    def pin(self, prepared: Prepared, held: ExitStack) -> dict[str, Pin]:
        """Pin the databases; the child pins files itself. `held` keeps the pins readable.

        Raises SourceNotPinnedError.
        """
        pins = {}
        for index, source in enumerate(prepared.job.sources):
            connection = prepared.connections.get(source.connection or "")
            if connection is None or (not connection.auth and source.relation is None):
                continue
            if source.path is not None or source.kind in _PINNED_BY_CHILD:
                continue
            try:
                connector = self.connect(source, connection, credentials_of(source, prepared))
                held.callback(connector.close)
                pin = connector.pin(source)
                held.callback(pin.close)
            except Exception as error:
                raise SourceNotPinnedError(index) from error
            pins[source.name] = pin.pin
        return pins

    def frame(
        self, prepared: Prepared, leased: LeasedRun, pins: Mapping[str, Pin], *, folder: str
    ) -> dict[str, JsonValue]:
        """The run frame; ids, spec and pins, no secret."""
        run = prepared.run
        return {
            "type": RUN,
            "tenant_id": str(run.tenant_id),
            "run_id": str(run.run_id),
            "job_id": str(run.job_id),
            "job": run.job_name,
            "spec_hash": run.spec_hash,
            "spec": stored_json(run.spec),
            "parameters": stored_json(run.parameters),
            "attempt": leased.attempt,
            "lease_epoch": leased.lease_epoch,
            "started_at": None if run.started_at is None else run.started_at.isoformat(),
            "remaining_s": int(leased.remaining.total_seconds()),
            "connections": {
                name: to_document(connection) for name, connection in prepared.connections.items()
            },
            "pins": to_document(Pins(by_source=pins)),
            "folder": folder,
            "triggered_by": run.triggered_by,
        }

    def credentials(self, prepared: Prepared) -> dict[str, str]:
        """What the 0600 file holds."""
        return {**prepared.secrets, "break_key": self.break_key(prepared.run.tenant_id)}


def credentials_of(source: Source, prepared: Prepared) -> dict[str, str]:
    """The resolved secrets of one source's connection, by field."""
    prefix = f"{source.connection}/"
    return {
        name.removeprefix(prefix): value
        for name, value in prepared.secrets.items()
        if name.startswith(prefix)
    }


def stored_json(value: object) -> JsonValue:
    """Stored JSON as canonical JSON values."""
    match value:
        case Mapping():
            return {str(key): stored_json(item) for key, item in value.items()}
        case list() | tuple():
            return [stored_json(item) for item in value]
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)
