"""Webhooks and mail: their queues inside a transaction, and the two ways out of the platform.

Queues live and are locked with the rest of a tenant's rows; the client and the mailer work outside
any transaction and return bad responses as values.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import NamedTuple, Protocol
from uuid import UUID

from datarecs_core.notifications.content import Content
from datarecs_core.notifications.evaluation import RuleState
from datarecs_core.notifications.feedback import NewSuppression
from datarecs_core.notifications.mail import Mail, MailState
from datarecs_core.notifications.replies import Reply
from datarecs_core.values import EventId, JobId, ResourceUid, RunId, TenantId
from datarecs_core.webhooks.actions import Position, WebhookAction
from datarecs_core.webhooks.delivery import Delivery, DeliveryState
from datarecs_core.webhooks.health import EndpointState, Waiting
from datarecs_core.webhooks.ordering import RunPlace
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_core.webhooks.payload import Message


class DeliveryKey(NamedTuple):
    """A delivery within its tenant."""

    received_on: date
    delivery_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAttempt:
    """One row of the attempt log. Written STARTED before a byte is sent, closed once."""

    key: DeliveryKey
    attempt_no: int
    lease_epoch: int
    worker: str
    reason: str = "event"
    started_at: datetime
    trace_id: str | None = None
    finished_at: datetime | None = None
    outcome: Outcome | None = None
    phases: Mapping[str, int] = field(default_factory=dict)
    """Milliseconds of dns, connect, tls, first_byte, total, up to the last phase reached."""
    url: str = ""
    """As delivered, query values masked; scheme, host and port alone where the URL is a secret."""
    request_headers: Mapping[str, str] = field(default_factory=dict)
    """Secret values and signatures masked."""
    body_sha256: str = ""
    key_ids: tuple[str, ...] = ()
    """Which secrets signed."""
    status: int | None = None
    response_headers: Mapping[str, str] = field(default_factory=dict)
    """Values of secret-looking headers masked."""
    response_body: bytes = b""
    """The first 10,240 bytes."""
    truncated: bool = False
    error: str = ""
    address_class: str | None = None
    """Why the address was refused; the address itself is only in the operator's log."""


class Deliveries(Protocol):
    """The rows of `webhook_message`, `_delivery`, `_attempt` and `_endpoint_state`.

    Lock order: states by uid first, then deliveries by key.
    """

    def store_event(self, event_id: EventId, message: Message) -> date:
        """Store an event; returns the UTC day it is stored under. Call once per event (inbox)."""

    def messages(self, deliveries: Sequence[Delivery]) -> Mapping[EventId, Message]:
        """The events of these deliveries."""

    def add(self, deliveries: Iterable[Delivery]) -> int:
        """Insert; one that its endpoint has for this event already is left. Returns how many."""

    def states(self, endpoints: Iterable[ResourceUid]) -> list[EndpointState]:
        """Lock the endpoints' rows in uid order; a row is made on first use."""

    def save_state(self, state: EndpointState) -> None: ...

    def hasten(self, endpoints: Iterable[ResourceUid], *, added: int = 0) -> None:
        """Let the sending loop check these now; their rows are locked already.

        Counts `added` more pending deliveries of each; fewer if it is negative.
        """

    def get(self, keys: Iterable[DeliveryKey]) -> Mapping[DeliveryKey, Delivery]:
        """Lock deliveries in the order of their keys; unknown ones are left out."""

    def due(self, endpoint: ResourceUid, limit: int, *, tests_only: bool = False) -> list[Delivery]:
        """Lock due pending ones, by priority and then the oldest first."""

    def overdue(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        """Lock those to be decided without sending: lease run out, or `expires_at` passed."""

    def pending(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        """Lock any that are not terminal."""

    def save(self, deliveries: Sequence[Delivery]) -> None: ...

    def waiting(self, endpoint: ResourceUid) -> Waiting:
        """What is left, after everything saved in this transaction."""

    def open_attempts(self, attempts: Sequence[WebhookAttempt]) -> None: ...

    def close_attempts(self, attempts: Sequence[WebhookAttempt]) -> None:
        """Complete the rows of (key, attempt_no); what is closed already stays as it is."""

    def attempts(self, key: DeliveryKey) -> list[WebhookAttempt]:
        """The log of one delivery, by number."""

    def of_endpoint(
        self,
        endpoint: ResourceUid,
        limit: int,
        *,
        state: DeliveryState | None = None,
        before: tuple[datetime, UUID] | None = None,
    ) -> list[Delivery]:
        """Newest first, without locks; those in `state`, older than `before` (made, id)."""

    def by_id(self, ids: Iterable[UUID]) -> list[Delivery]:
        """In the order of their keys, without locks; unknown ids are left out."""

    def stored(
        self, since: datetime, until: datetime, *, after: Position | None, limit: int
    ) -> list[tuple[Position, Message]]:
        """Events received within [since, until), by key, after `after`; without their data."""

    def served(self, endpoint: ResourceUid, events: Sequence[Position]) -> set[EventId]:
        """Those of these events that need no further delivery to the endpoint.

        One has succeeded or waits, or a newer event replaced it.
        """


class Unblocked(NamedTuple):
    """Times that decide when to claim an ordered endpoint again."""

    first_due: datetime | None
    """Of pending deliveries that no earlier one blocks."""
    failing_since: datetime | None
    """The oldest first failure of the deliveries that block."""


class DeliveryOrder(Protocol):
    """Queries about the order of a run's events, under the lock of the endpoint's state."""

    def has_missing(self, endpoint: ResourceUid, place: RunPlace, *, since: datetime) -> bool:
        """Whether an earlier event of the run, emitted at or after `since`, is missing.

        Facts without an event do not count. Numbers before the last one that the endpoint got in
        order, or got after a gap, do not count either.
        """

    def early(self, endpoint: ResourceUid, run_id: RunId) -> list[Delivery]:
        """Lock the deliveries that wait for an earlier event, in the order of their numbers."""

    def waiting_of_type(
        self, endpoint: ResourceUid, run_id: RunId, event_type: str
    ) -> list[Delivery]:
        """Lock pending deliveries of live events with a number, in the order of their numbers."""

    def due(self, endpoint: ResourceUid, limit: int, *, failing_after: datetime) -> list[Delivery]:
        """As `Deliveries.due`, without deliveries that an earlier one of run and action blocks.

        Args:
            endpoint: of the deliveries.
            limit: maximum number.
            failing_after: a delivery that has failed since before this time does not block.
        """

    def unblocked(self, endpoint: ResourceUid, *, failing_after: datetime) -> Unblocked:
        """The times after everything saved in this transaction."""


class WebhookActions(Protocol):
    """The rows of `webhook_action`."""

    def add(self, action: WebhookAction) -> bool:
        """Insert; False when the endpoint has another open recover or replay."""

    def get(self, action_id: UUID) -> WebhookAction | None:
        """Lock an action."""

    def read(self, action_id: UUID) -> WebhookAction | None:
        """Without a lock."""

    def open(self, limit: int) -> list[WebhookAction]:
        """Lock open ones, the oldest first; those that another process holds are left out."""

    def save(self, action: WebhookAction) -> None: ...

    def forget(self, before: datetime) -> None:
        """Remove actions that were closed before this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailAttempt:
    """One row of `email_attempt`."""

    delivery_id: UUID
    attempt_no: int
    """The mail's lease epoch: one attempt per lease."""
    started_at: datetime
    finished_at: datetime | None = None
    phase: str = "OPEN"
    """The last phase it reached."""
    reply: Reply | None = None
    error: str = ""
    relay: str = ""
    """Host and port, or the maildir."""
    tls_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailFilter:
    """Which mails a log shows."""

    run_id: UUID | None = None
    state: MailState | None = None
    before: tuple[datetime, UUID] | None = None
    """Strictly older than this (created_at, id)."""


class Mails(Protocol):
    """The rows of `email_delivery` and `email_attempt`: the shared mail queue."""

    def add(self, mail: Mail) -> bool:
        """Insert; False when the tenant has a mail with this dedupe key already."""

    def get(self, delivery_id: UUID) -> Mail | None:
        """Lock a mail."""

    def save(self, mail: Mail) -> None: ...

    def mime(self, delivery_id: UUID) -> bytes | None:
        """The bytes stored at the first lease."""

    def store_mime(self, delivery_id: UUID, mime: bytes) -> None: ...

    def open_attempt(self, attempt: MailAttempt) -> None: ...

    def close_attempt(self, attempt: MailAttempt) -> None: ...

    def attempts(self, delivery_id: UUID) -> list[MailAttempt]: ...

    def of_run(self, run_id: UUID) -> list[Mail]:
        """By recipient key, without locks."""

    def of_ids(self, delivery_ids: Sequence[UUID]) -> list[Mail]:
        """In the order of their runs' ends, without locks; unknown ones are left out."""

    def fold_of(self, mail: Mail) -> list[Mail] | None:
        """Lock the pending mails that leave with this one, itself included, the oldest run first.

        Those that are due; of the fold of a rate cap all of them. None while another transaction
        folds them.
        """

    def opened_since(self, since: datetime, recipient_key: str | None = None) -> int:
        """How many mails were first leased since then, to a recipient or at all.

        With a recipient, other transactions that count the same wait until this one ends.
        """

    def page(self, where: MailFilter, limit: int) -> list[Mail]:
        """Newest first by (created_at, id), without locks."""


class Suppression(NamedTuple):
    """An address that no mail is sent to."""

    recipient_key: str
    reason: str
    reply: str
    """The reply of the relay, or the text of a report."""
    created_at: datetime
    ends_at: datetime | None = None
    """None: until it is removed."""


class MailChoices(Protocol):
    """The rows of `email_unsubscribe`, `email_suppression`, `email_bounce` and revoked links."""

    def unsubscribed(self, scopes: Collection[str]) -> Collection[tuple[str, str]]:
        """Pairs of recipient hash and scope, of these scopes."""

    def unsubscribe(self, recipient_hash: str, scopes: Collection[str]) -> None:
        """Safe to repeat."""

    def suppressed(self, keys: Collection[str]) -> Collection[str]:
        """Which of these recipient keys get no mail now."""

    def suppress(self, made: NewSuppression) -> None:
        """Safe to repeat; one without an end stays, one with an end is replaced."""

    def suppressions(self, limit: int) -> list[Suppression]:
        """Those that have not ended, newest first."""

    def release(self, recipient_key: str) -> bool:
        """Remove a suppression and what was counted for it; False when there is none."""

    def count_soft_bounce(self, recipient_key: str, report_id: str, *, since: datetime) -> int:
        """Store a temporary refusal, once per report; the address's number of them since then.

        Removes the tenant's older ones.
        """

    def revoke_report_links(self, run_id: RunId) -> None:
        """End every link to the run's report that was issued until now."""

    def report_links_revoked_at(self, run_id: RunId) -> datetime | None:
        """When they were revoked last; None when never."""


class RuleStates(Protocol):
    """The rows of `notification_rule_state`."""

    def of_job(self, job: JobId) -> Mapping[ResourceUid, RuleState]:
        """Locked until the transaction ends, also against a first row of the same job."""

    def save(self, states: Sequence[RuleState]) -> None:
        """Insert or replace."""


class Ticket(NamedTuple):
    """Which attempt a report is about."""

    tenant_id: TenantId
    endpoint_uid: ResourceUid
    key: DeliveryKey | None
    """None for a request for consent."""
    attempt_no: int
    lease_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingWebhook:
    """One request, complete: nothing is looked up while it runs."""

    ticket: Ticket
    method: str = "POST"
    """OPTIONS for a request for consent."""
    url: str
    headers: tuple[tuple[str, str], ...]
    """In order, without Host and Content-Length."""
    body: bytes
    timeout: timedelta
    """Over the whole attempt, name resolution included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookReport:
    """How an attempt ended."""

    ticket: Ticket
    end: AttemptEnd
    phases: Mapping[str, int] = field(default_factory=dict)
    """Milliseconds."""
    response_headers: tuple[tuple[str, str], ...] = ()
    response_body: bytes = b""
    truncated: bool = False
    address_class: str | None = None


class WebhookClient(Protocol):
    """Starts attempts in parallel and returns their ends; a bad response is never an exception.

    Connects only to checked addresses, follows no redirect, uses no environment variable.
    """

    def start(self, request: OutgoingWebhook) -> None:
        """Begin and return at once."""

    def ended(self, timeout: timedelta) -> list[WebhookReport]:
        """What has ended since the last call; waits up to the timeout for the first one."""

    @property
    def in_flight(self) -> int:
        """Started and not yet returned by `ended`."""

    def close(self) -> None:
        """Abort running attempts; their ends are not reported."""


class MailRenderer(Protocol):
    """Content to bytes. Equal content gives equal bytes."""

    def render(self, content: Content) -> bytes:
        """A complete RFC 5322 message with CRLF line ends, at most 100 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMail:
    recipient: str
    message_id: str
    mime: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayReplied:
    """The relay replied: the end of one SMTP transaction, good or bad."""

    reply: Reply
    tls_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayLost:
    """The relay did not reply, or could not be trusted."""

    reason: str


@dataclass(frozen=True, slots=True)
class SmtpUtf8Missing:
    """The address needs SMTPUTF8, which the relay does not offer."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """`may_send_data` returned False: the lease is lost, and DATA was not sent."""


SendOutcome = RelayReplied | RelayLost | SmtpUtf8Missing | Withheld


class Mailer(Protocol):
    """One SMTP transaction per call, for one recipient. Not shared between threads."""

    @property
    def relay(self) -> str:
        """Shown in the attempt log: host and port, or the maildir."""

    def send(self, mail: OutgoingMail, *, may_send_data: Callable[[], bool]) -> SendOutcome:
        """Deliver; every failure is a value.

        Args:
            mail: bytes are sent as they are.
            may_send_data: called once, after the recipient was accepted and before DATA; commits
                the phase. False ends the transaction without data.
        """

    def close(self) -> None: ...
