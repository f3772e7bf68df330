"""State: one transaction in one tenant's scope, and what can be loaded, locked and saved in it."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from datarecs_application.ports.capturing import CaptureFinder, WorkItems
from datarecs_application.ports.catalogue import Pointers
from datarecs_application.ports.checks import CheckFinder, Checks
from datarecs_application.ports.delivery import (
    Deliveries,
    DeliveryOrder,
    MailChoices,
    Mails,
    RuleStates,
    WebhookActions,
)
from datarecs_application.ports.keys import ApiKey, ApiKeys
from datarecs_application.ports.quotas import Quotas
from datarecs_application.ports.reconciling import ResourceFinder, ResourceWork
from datarecs_application.ports.resources import Resources
from datarecs_application.ports.retention import Retention
from datarecs_application.ports.schedules import Schedules
from datarecs_application.ports.sealing import SealedSecrets
from datarecs_application.ports.sink_tasks import SinkTasks
from datarecs_application.ports.tickets import SocketTickets
from datarecs_core.decision import Event
from datarecs_core.runs.model import Disposition, Run
from datarecs_core.values import EventId, JobId, ResourceUid, RunId, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One line of `run_event`: a fact a run received, or an event it emitted."""

    sequence: int
    event_id: EventId
    type: str
    """Wire type with prefix, or the name of a synthesised fact."""
    source: str
    time: datetime
    data: Mapping[str, object]
    """Decimals arrive as Decimal, digit for digit."""
    disposition: Disposition
    rv: int = 0


class Runs(Protocol):
    """The rows of `run` and `run_event`; nothing else writes them."""

    def add(self, run: Run) -> None:
        """Insert a new run. Raises RunExistsError when (tenant, run_id) exists."""

    def get(self, run_id: RunId) -> Run | None:
        """Without a lock; None for an unknown id and for a run of another tenant."""

    def for_update(self, run_id: RunId) -> Run | None:
        """Lock the row until the transaction ends. Draw feed numbers first (`UnitOfWork.begin`)."""

    def save(self, run: Run) -> None:
        """Write what differs and raise `row_version`; never touches `last_sequence`, `feed_rv`.

        The adapter writes only columns that changed, since roles hold column grants.
        """

    def record(self, run_id: RunId, entry: HistoryEntry) -> int:
        """Store a fact that has no outbox row; returns its number. `entry.sequence` is ignored.

        Under the run's row lock. An event_id that is recorded already only gets the new
        disposition, and its number is returned.
        """

    def history(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[HistoryEntry]:
        """Entries with a sequence above `after`, in order."""

    def newest_ended(self, job_ids: Collection[JobId]) -> Mapping[JobId, Run]:
        """The last triggered run of each job that has ended; without jobs that have none."""


class RunTimers(Protocol):
    """Rows that produce a fact for a run when they are due; one per (run, reason)."""

    def put(self, run_id: RunId, reason: str, due_at: datetime) -> None:
        """Insert or move."""

    def drop(self, run_id: RunId, *reasons: str) -> None:
        """Remove these, or all of the run when none is named."""

    def due(self, run_id: RunId, reason: str) -> bool:
        """Whether the timer still exists and is due, by database time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The row of `run_lease`: the durable queue of the backend `queue`."""

    run_id: RunId
    due_at: datetime
    priority: int
    attempt: int
    lease_epoch: int
    lease_owner: str | None
    lease_until: datetime | None
    releases: int


class RunLeases(Protocol):
    """Leases inside a transaction. Lock order: the run's row first, then its lease."""

    def submit(self, run: Run, *, due_at: datetime | None = None) -> None:
        """Make the run leasable from `due_at` (default now). Safe to repeat."""

    def reserve(self, run: Run, *, holder: str) -> int:
        """Give the run's lease to an execution outside of the queue; returns its epoch.

        No worker of the queue can take it and it never expires: the execution's end decides. Safe
        to repeat, with the same epoch.
        """

    def pass_to(self, run_id: RunId, holder: str) -> None:
        """The process that executes a reserved run holds its lease from now on, same epoch."""

    def get(self, run_id: RunId) -> Lease | None:
        """Locks the lease row."""

    def is_current(self, run_id: RunId, lease_epoch: int) -> bool:
        """Lock the lease and compare epochs. An expired, unreclaimed lease still counts."""

    def end(self, run_id: RunId) -> None:
        """Remove the lease: the run has ended or will not start. Safe to repeat."""

    def end_current(self, run_id: RunId, lease_epoch: int) -> bool:
        """`is_current` and `end` in one step; False when another worker holds it."""

    def release(self, run_id: RunId, *, due_at: datetime, consume: bool) -> None:
        """Return the run to the queue and raise the epoch, so that its old holder is fenced.

        `consume=False` (a drain) takes back the attempt and counts `releases` instead.
        """

    def fence(self, run_id: RunId) -> None:
        """Raise the epoch and end the holder's right; the row stays, not due."""

    def expired(self, limit: int) -> list[Lease]:
        """Leases of this tenant past `lease_until` + grace, oldest first, not locked."""


class Outbox(Protocol):
    def append(
        self,
        *events: Event,
        caused_by: EventId | None = None,
        ids: Sequence[EventId] | None = None,
        traceparent: str | None = None,
    ) -> tuple[EventId, ...]:
        """Write events in the state's transaction; returns their ids in order.

        Run events are numbered under the run's row lock and recorded in `run_event` (APPLIED for
        platform events, HISTORY for infrastructure and progress), the live feed is notified once a
        transaction. `ids` fixes the ids, one per event; else they come from the Ids port.

        Raises EventEncodeError for an event that does not match its schema: the transaction must
        fail.
        """


class Inbox(Protocol):
    def first_time(self, consumer: str, source: str, event_id: EventId) -> bool:
        """Mark (consumer, source, event_id); False when it took effect before."""

    def first_of(
        self, consumer: str, events: Sequence[tuple[str, EventId]]
    ) -> set[tuple[str, EventId]]:
        """`first_time` of several (source, event_id) at once: those it is True for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The response of a POST with an Idempotency-Key, for repetitions."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class KeyUse(StrEnum):
    NEW = "NEW"
    REPLAY = "REPLAY"
    MISMATCH = "MISMATCH"
    """The same key with another body: 422."""


class IdempotencyKeys(Protocol):
    """Keys are unique per tenant, principal and route, and live for 24 h."""

    def take(
        self, *, principal: str, route: str, key: str, request_hash: bytes
    ) -> tuple[KeyUse, StoredAnswer | None]:
        """Claim the key for this transaction; a concurrent second waits for the first one's end.

        Raises KeyBusyError after 2 s of waiting.
        """

    def store(self, *, principal: str, route: str, key: str, answer: StoredAnswer) -> None:
        """Store the response; call once, in the transaction of the effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Who did what to which object, and how it ended."""

    actor: str
    actor_kind: str
    action: str
    resource_kind: str = ""
    resource_uid: str = ""
    outcome: str = "ok"
    detail: Mapping[str, object] | None = None
    before_sha256: bytes | None = None
    after_sha256: bytes | None = None
    """SHA-256 of the canonical state, where the action changed one."""
    request_id: str = ""
    address: str = ""


class Audit(Protocol):
    def append(self, entry: AuditEntry) -> None:
        """Chain one audit row in the transaction of the effect (spec security 14)."""


class Transaction(Protocol):
    """What a use case uses between begin and commit. Reads and writes only one tenant."""

    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def now(self) -> datetime:
        """Database time of the transaction, aware UTC."""

    @property
    def runs(self) -> Runs: ...
    @property
    def timers(self) -> RunTimers: ...
    @property
    def leases(self) -> RunLeases: ...
    @property
    def outbox(self) -> Outbox: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def resources(self) -> Resources: ...
    @property
    def idempotency(self) -> IdempotencyKeys: ...
    @property
    def api_keys(self) -> ApiKeys: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def secrets(self) -> SealedSecrets: ...
    @property
    def tickets(self) -> SocketTickets: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def delivery_order(self) -> DeliveryOrder: ...
    @property
    def webhook_actions(self) -> WebhookActions: ...
    @property
    def mails(self) -> Mails: ...
    @property
    def mail_choices(self) -> MailChoices: ...
    @property
    def quotas(self) -> Quotas: ...
    @property
    def rule_states(self) -> RuleStates: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def retention(self) -> Retention: ...
    @property
    def checks(self) -> Checks: ...
    @property
    def resource_work(self) -> ResourceWork: ...
    @property
    def pointers(self) -> Pointers: ...
    @property
    def capture_work(self) -> WorkItems: ...
    @property
    def sinks(self) -> SinkTasks: ...
    def next_rv(self) -> int:
        """The next feed number of the block drawn at begin.

        Raises FeedNotDrawnError when `begin` drew none or the block is used up.
        """

    def wake(self) -> None:
        """NOTIFY `datarecs_wake` once at commit; a hint, polling is the truth."""


class UnitOfWork(Protocol):
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> AbstractContextManager[Transaction]:
        """One transaction: commit when the block ends, roll back when it raises.

        Args:
            tenant: its rows are visible and writable; from a principal or a row, never a body.
            feed: the feed numbers to reserve before anything else; 0 when no feed is written.
            read_only: REPEATABLE READ READ ONLY.

        Raises:
            StoreUnavailableError: the database cannot be reached; nothing was committed, or the
                outcome of COMMIT is unknown and the use case starts again from the top.
            StoreBusyError: deadlock, lock or serialization conflict; run it again.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedRun:
    """What `lease_run` grants: the run, RUNNING already, under a new epoch."""

    tenant_id: TenantId
    run_id: RunId
    attempt: int
    lease_epoch: int
    remaining: timedelta
    """Until the run's deadline by database time; count it down on the monotonic clock."""
    lease_ttl: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    tenant_id: TenantId
    run_id: RunId
    lease_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """Result of a heartbeat for one lease."""

    current: bool
    """False: the epoch is stale; stop the child, write nothing."""
    stop: bool
    """The desired state of the row is STOP: cancel requested, or the deadline timer fired."""


class WorkFinder(ResourceFinder, CheckFinder, CaptureFinder, Protocol):
    """Due work of all tenants, by the closed list of definer functions (security 5).

    Each call commits by itself and returns ids and numbers only; the work follows in one
    transaction per tenant.
    """

    def claim_runs(self, limit: int) -> list[tuple[TenantId, RunId]]:
        """Runs with a due `next_reconcile_at`, which moves by 30 s."""

    def due_timers(self, limit: int) -> list[tuple[TenantId, RunId, str]]:
        """Runs with a due timer and its reason, held for 30 s."""

    def due_tenants(self, what: str) -> list[tuple[TenantId, int]]:
        """Tenants with anything else due: `run_leases` that expired, open `webhook_actions`."""

    def lease_run(self, executor: str) -> LeasedRun | None:
        """Take the most urgent leasable run: epoch + 1, attempt + 1, QUEUED becomes RUNNING."""

    def renew(self, held: Sequence[HeldLease]) -> Mapping[RunId, Renewal]:
        """Extend leases with a current epoch, one statement per tenant; separate connection."""

    def claim_deliveries(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        """Endpoints to check; the time of the next check moves by 5 s."""

    def claim_mails(self, limit: int) -> list[tuple[TenantId, UUID]]:
        """Mails with a due `due_at`, oldest first; it moves by 30 s."""

    def claim_schedules(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        """Schedules that are due, of each tenant its share; each is due again after 12 s."""

    def decide_schedules_again(self, tzdata: str) -> int:
        """Make schedules due that another version of the zone data decided; their number."""

    def claim_sweeps(self, limit: int) -> list[tuple[TenantId, ResourceUid]]:
        """Retention policies that are due, oldest first; each is due again after 30 s."""

    def feed_after(self, feed: str, rv: int, limit: int) -> list[tuple[TenantId, int]]:
        """(tenant, rv) of feed `run` or `resource` in commit order; skips no slower writer."""

    def report_stats(self, instance: UUID, counters: Mapping[str, float]) -> None:
        """Replace the counters of a process, which are of no tenant."""

    def read_stats(self) -> list[Mapping[str, float]]:
        """The counters of each process that has reported within 60 s."""

    def resolve_api_key(self, key_id: str) -> ApiKey | None:
        """A stored key by its public id, before a tenant is known; revoked and expired included."""

    def resolve_session(self, sha256: bytes) -> TenantId | None:
        """The holder of the socket ticket with this hash, without a tenant; expired included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    position: int
    event_id: EventId
    topic: str
    partition_key: str
    headers: tuple[tuple[str, bytes], ...]
    data: bytes
    type: str
    created_at: datetime


class OutboxReader(Protocol):
    """The relay's view of the outbox: all tenants, by shard, selection never by a cursor."""

    def hold_shards(self, owner: str, *, ttl: timedelta) -> Mapping[int, int]:
        """Renew the owner's shards and take free ones, fairly over live owners: shard -> epoch."""

    def release_shards(self, owner: str) -> None: ...

    def unsent(self, limits: Mapping[int, int]) -> Mapping[int, list[OutboxRow]]:
        """Rows neither sent nor parked: a maximum per shard, by position.

        All shards in one query, since most of them are empty most of the time.
        """

    def mark_sent(self, event_ids: Sequence[EventId]) -> None:
        """Only rows still unsent; safe to repeat."""

    def mark_failed(self, event_id: EventId, error: str, *, park: bool) -> None:
        """Count an attempt; `park` sets aside a record the broker can never take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Filters of a run list; None means any."""

    job_id: JobId | None = None
    job_name: str | None = None
    status: str | None = None
    result: str | None = None
    error_code: str | None = None
    mode: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    cancel_requested: bool | None = None


class Queries(Protocol):
    """Read models for lists and live views; keyset cursors, no locks."""

    def runs(
        self,
        tenant: TenantId,
        where: RunFilter,
        *,
        limit: int,
        before: tuple[datetime, RunId] | None = None,
    ) -> list[Run]:
        """Newest first by (created_at, run_id), strictly before the cursor."""

    def run(self, tenant: TenantId, run_id: RunId) -> Run | None: ...

    def runs_with_prefix(self, tenant: TenantId, prefix: str) -> list[RunId]:
        """At most two ids that start with the text: enough to decide whether it is unique."""

    def run_events(
        self, tenant: TenantId, run_id: RunId, *, after: int, limit: int
    ) -> list[HistoryEntry]: ...

    def runs_of(self, tenant: TenantId, run_ids: Collection[RunId]) -> Mapping[RunId, Run]:
        """Those of these runs that the tenant has."""

    def news(
        self, tenant: TenantId, seen: Sequence[tuple[RunId, int]], *, limit: int
    ) -> list[list[HistoryEntry]]:
        """`run_events` of many followers in one query, in their order.

        Args:
            tenant: owner of the runs.
            seen: of each follower its run, and the number of the last entry it has seen.
            limit: entries for each follower.
        """
