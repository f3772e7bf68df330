"""Webhook deliveries: from due rows to leases, from ends of attempts to decisions.

Each step runs in one transaction of one tenant; `webhook_fan_out` makes the rows. The request
itself, between a lease and its end, happens outside any transaction (`loops.webhook_sending`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from datarecs_application import webhook_consent, webhook_order
from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_application.resources import observe_resource
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_alerts import alert_facts, queue_alerts
from datarecs_application.webhook_consent import ConsentRequest
from datarecs_application.webhook_draining import discard_waiting
from datarecs_core.resources.resource import Resource
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.delivery import (
    Delivery,
    DeliveryState,
    Ended,
    Expired,
    LeaseExpired,
    decide_delivery,
    lease,
)
from datarecs_core.webhooks.endpoint import Retry, WebhookEndpoint
from datarecs_core.webhooks.health import (
    Allowance,
    EndpointState,
    Receiver,
    Waiting,
    decide_endpoint,
    next_claim_time,
    paid,
    sendable_now,
)
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_core.webhooks.overflow import after_end, counted_again
from datarecs_core.webhooks.payload import Message
from datarecs_core.webhooks.signature import SECRET_FIELD
from datarecs_core.webhooks.status import endpoint_status, is_failing, is_stale

TESTS_AT_ONCE = 32
"""Open requests of one endpoint up to which a test may start; its largest `max_concurrent`."""
SETTLED_AT_ONCE = 500
"""Rows decided without sending in one transaction."""

Jitter = Callable[[], float]
"""A number uniform in [0, 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A delivery with a started attempt: everything a request needs."""

    delivery: Delivery
    message: Message
    spec: WebhookEndpoint
    generation: int
    secrets: tuple[tuple[str, bytes], ...]
    """Sealed signing secrets with their key ids, newest first; only in mode `managed`."""
    leased_at: datetime
    """Database time of the lease."""

    @property
    def key(self) -> DeliveryKey:
        return DeliveryKey(self.delivery.received_on, self.delivery.delivery_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """The result of an ended attempt, from the sending loop."""

    end: AttemptEnd
    log: WebhookAttempt
    """The row as it is to be closed, without `finished_at`."""
    shown_url: str
    """For the event about a disabled endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a transaction decided, for metrics after its commit."""

    closed: tuple[Delivery, ...] = ()
    """Deliveries that reached a terminal state."""
    late: int = 0
    """Results that arrived after the lease was lost."""
    lost: int = 0
    """Leases that had run out."""
    gaps: int = 0
    """Leased events without an earlier event of their run."""
    status_moved: bool = False
    """The status in the resource must be written again."""
    is_drained: bool = False
    """The endpoint is being deleted and nothing of it is open."""
    consent_request: ConsentRequest | None = None
    """To send after the commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leasing:
    """How the due deliveries of an endpoint are taken."""

    specs: StoredSpecs[WebhookEndpoint]
    jitter: Jitter
    owner: str
    """The worker, as the attempt log names it."""
    ids: Ids
    """Of alert mails."""
    random_bytes: Callable[[int], bytes]
    """From the system's secure source."""

    def lease_due(
        self, tx: Transaction, endpoint: ResourceUid, *, limit: int
    ) -> tuple[list[Leased], Settled]:
        """Settle what is overdue, then lease what may be sent now and record its attempts.

        An endpoint that is disabled or unreadable gets nothing and its deliveries wait;
        those of a deleted one are discarded.
        """
        (state,) = tx.deliveries.states([endpoint])
        resource = tx.resources.get_by_uid(endpoint)
        if resource is None or resource.deletion_at is not None:
            drained = discard_waiting(tx, state, is_marked=resource is not None)
            return [], Settled(closed=drained.closed, is_drained=drained.is_drained)
        spec = self.specs.of(resource)
        settled = self._settle(tx, endpoint, spec.retry if spec else Retry())
        state = _after_closing(state, settled.closed, spec, now=tx.now)
        leased: list[Delivery] = []
        if spec is not None:
            state, request = self._request_consent(state, spec, resource, now=tx.now)
            state, leased, gaps = self._lease_sendable(tx, state, spec, resource, limit=limit)
            settled = replace(settled, gaps=gaps, consent_request=request)
        _save_claim_time(tx, state, spec, resource)
        consent = webhook_consent.consent_shown(state, spec, now=tx.now)
        moved = is_stale(state, resource.generation, resource.status, consent)
        settled = replace(settled, status_moved=moved)
        return (self._with_contents(tx, leased, spec, resource) if spec else []), settled

    def _request_consent(
        self, state: EndpointState, spec: WebhookEndpoint, resource: Resource, *, now: datetime
    ) -> tuple[EndpointState, ConsentRequest | None]:
        """An endpoint that is disabled requests no consent."""
        if not spec.enabled or not state.accepts(resource.generation):
            return state, None
        return webhook_consent.request_consent(state, spec, now=now, random_bytes=self.random_bytes)

    def _lease_sendable(
        self,
        tx: Transaction,
        state: EndpointState,
        spec: WebhookEndpoint,
        resource: Resource,
        *,
        limit: int,
    ) -> tuple[EndpointState, list[Delivery], int]:
        """Lease what consent, order and limits allow now.

        Returns the state, the leased deliveries, and the number of gaps in the order of runs.
        """
        endpoint = state.endpoint_uid
        waiting = tx.deliveries.waiting(endpoint)
        is_withheld = webhook_consent.is_withheld(state, spec, now=tx.now)
        tests = [] if is_withheld else self._lease_tests(tx, endpoint, waiting)
        allowed = _allowance(spec, state, resource, now=tx.now)
        if allowed is None:
            return state, tests, 0
        running = waiting.leased + len(tests)
        count = min(limit, sendable_now(state, allowed, leased=running, now=tx.now))
        due = webhook_order.due(tx, endpoint, spec, count)
        live = self._lease(tx, due)
        gaps = webhook_order.skip_gaps(tx, endpoint, due)
        return paid(state, allowed, started=len(live), now=tx.now), [*tests, *live], gaps

    def _lease_tests(
        self, tx: Transaction, endpoint: ResourceUid, waiting: Waiting
    ) -> list[Delivery]:
        """Tests are sent in every state of the endpoint, a few at a time."""
        if waiting.first_test is None or waiting.first_test > tx.now:
            return []
        free = TESTS_AT_ONCE - waiting.leased
        return self._lease(tx, tx.deliveries.due(endpoint, max(0, free), tests_only=True))

    def _lease(self, tx: Transaction, due: Sequence[Delivery]) -> list[Delivery]:
        leased = [lease(one, owner=self.owner, now=tx.now) for one in due]
        tx.deliveries.save(leased)
        tx.deliveries.open_attempts(
            [
                WebhookAttempt(
                    key=DeliveryKey(one.received_on, one.delivery_id),
                    attempt_no=one.attempt_no,
                    lease_epoch=one.lease_epoch,
                    worker=self.owner,
                    reason=one.origin.value,
                    started_at=tx.now,
                )
                for one in leased
            ]
        )
        return leased

    def _settle(self, tx: Transaction, endpoint: ResourceUid, retry: Retry) -> Settled:
        """Decide leases that ran out and deliveries that expired."""
        overdue = tx.deliveries.overdue(endpoint, SETTLED_AT_ONCE)
        lost = [one for one in overdue if one.state is DeliveryState.LEASED]
        tx.deliveries.close_attempts([_lost_attempt(one, now=tx.now) for one in lost])
        decided = []
        for delivery in overdue:
            running = delivery.state is DeliveryState.LEASED
            fact = LeaseExpired(u=self.jitter()) if running else Expired()
            decision = decide_delivery(delivery, fact, retry=retry, now=tx.now)
            tx.outbox.append(*decision.events, caused_by=delivery.event_id)
            decided.append(decision.state)
        tx.deliveries.save(decided)
        return Settled(closed=_closed(decided), lost=len(lost))

    def _with_contents(
        self,
        tx: Transaction,
        leased: Sequence[Delivery],
        spec: WebhookEndpoint,
        resource: Resource,
    ) -> list[Leased]:
        if not leased:
            return []
        secrets = tuple(tx.secrets.live(resource.uid, SECRET_FIELD))
        messages = tx.deliveries.messages(leased)
        return [
            Leased(
                delivery=delivery,
                message=messages[delivery.event_id],
                spec=spec,
                generation=resource.generation,
                secrets=secrets,
                leased_at=tx.now,
            )
            for delivery in leased
        ]


def _closed(deliveries: Iterable[Delivery]) -> tuple[Delivery, ...]:
    return tuple(one for one in deliveries if one.state.is_terminal)


def _after_closing(
    state: EndpointState,
    closed: Sequence[Delivery],
    spec: WebhookEndpoint | None,
    *,
    now: datetime,
) -> EndpointState:
    most = spec.limits.max_pending if spec else None
    return after_end(state, len(closed), max_pending=most, now=now)


def _allowance(
    spec: WebhookEndpoint | None, state: EndpointState, resource: Resource, *, now: datetime
) -> Allowance | None:
    if spec is None or not spec.enabled or not state.accepts(resource.generation):
        return None
    if webhook_consent.is_withheld(state, spec, now=now):
        return None
    return Allowance(
        rate_per_minute=webhook_consent.rate_of(state, spec),
        max_concurrent=spec.limits.max_concurrent,
    )


def _lost_attempt(delivery: Delivery, *, now: datetime) -> WebhookAttempt:
    return WebhookAttempt(
        key=DeliveryKey(delivery.received_on, delivery.delivery_id),
        attempt_no=delivery.attempt_no,
        lease_epoch=delivery.lease_epoch,
        worker=delivery.lease_owner or "",
        started_at=now,
        finished_at=now,
        outcome=Outcome.WORKER_LOST,
        error="the worker was lost; whether the request arrived is unknown",
    )


def record_ends(
    tx: Transaction,
    endpoint: ResourceUid,
    ends: Sequence[EndedAttempt],
    *,
    leasing: Leasing,
    excused: Collection[Outcome] = (),
) -> Settled:
    """Close attempts of one endpoint and decide what follows for deliveries and endpoint.

    A result under an old epoch completes its row of the log and changes nothing else.

    Args:
        tx: of the endpoint's tenant.
        endpoint: of the ended attempts.
        ends: in any order.
        leasing: reads its spec, and has the jitter of waits.
        excused: outcomes that do not count against the endpoint, because the platform's network is
            suspect.
    """
    (before,) = tx.deliveries.states([endpoint])
    state = before
    resource = tx.resources.get_by_uid(endpoint)
    spec = leasing.specs.of(resource) if resource else None
    retry = spec.retry if spec else Retry()
    tx.deliveries.close_attempts([replace(ended.log, finished_at=tx.now) for ended in ends])
    held = tx.deliveries.get([ended.log.key for ended in ends])
    decided = []
    for ended in ends:
        delivery = held.get(ended.log.key)
        if delivery is None:
            continue
        fact = Ended(lease_epoch=ended.log.lease_epoch, end=ended.end, u=leasing.jitter())
        decision = decide_delivery(delivery, fact, retry=retry, now=tx.now)
        if decision.state is delivery:
            continue
        decided.append(decision.state)
        tx.outbox.append(*decision.events, caused_by=delivery.event_id)
        if ended.end.outcome not in excused:
            state = _judge_endpoint(tx, state, ended, (resource, spec), leasing=leasing)
    tx.deliveries.save(decided)
    state = _after_closing(state, _closed(decided), spec, now=tx.now)
    _save_claim_time(tx, state, spec, resource)
    moved = (
        state.disabled != before.disabled
        or is_failing(state) != is_failing(before)
        or state.is_overflowing != before.is_overflowing
    )
    return Settled(closed=_closed(decided), late=len(ends) - len(decided), status_moved=moved)


def _judge_endpoint(
    tx: Transaction,
    state: EndpointState,
    ended: EndedAttempt,
    declared: tuple[Resource | None, WebhookEndpoint | None],
    *,
    leasing: Leasing,
) -> EndpointState:
    """The endpoint after one attempt; its events and alert mails are queued here."""
    resource, spec = declared
    receiver = _receiver(ended, resource, spec)
    after = decide_endpoint(state, ended.end, receiver=receiver, now=tx.now, u=leasing.jitter())
    tx.outbox.append(*after.events)
    if resource is not None and spec is not None:
        facts = alert_facts(resource, spec, url=ended.shown_url, end=ended.end)
        queue_alerts(tx, (state, after.state), spec, facts, ids=leasing.ids)
    return after.state


def _save_claim_time(
    tx: Transaction,
    state: EndpointState,
    spec: WebhookEndpoint | None,
    resource: Resource | None,
) -> None:
    """Save the state with the time of its next claim: at once where the endpoint is deleted."""
    if resource is None or resource.deletion_at is not None:
        tx.deliveries.save_state(replace(state, next_claim_at=tx.now))
        return
    waiting = webhook_order.waiting(tx, state.endpoint_uid, spec)
    state = counted_again(state, waiting)
    check = None
    if spec is not None:
        check = webhook_consent.next_check(state, spec, now=tx.now)
        if webhook_consent.is_withheld(state, spec, now=tx.now):
            waiting = replace(waiting, first_test=None)
    allowed = _allowance(spec, state, resource, now=tx.now)
    claim_at = next_claim_time(state, waiting, allowed, now=tx.now)
    times = [time for time in (claim_at, check) if time is not None]
    tx.deliveries.save_state(replace(state, next_claim_at=min(times, default=None)))


def _receiver(
    ended: EndedAttempt, resource: Resource | None, spec: WebhookEndpoint | None
) -> Receiver:
    return Receiver(
        generation=resource.generation if resource else 0,
        shown_url=ended.shown_url,
        disable_after=spec.auto_disable.after if spec and spec.auto_disable.enabled else None,
    )


def show_status(
    tx: Transaction, endpoint: ResourceUid, *, specs: StoredSpecs[WebhookEndpoint]
) -> None:
    """Write what the resource shows of its endpoint; safe to repeat.

    The transaction is begun with `feed=1`, because a status is a change of the resource.
    """
    known = tx.resources.get_by_uid(endpoint)
    resource = known and tx.resources.for_update(known.kind, known.namespace, known.name)
    if resource is None:
        return
    (state,) = tx.deliveries.states([endpoint])
    status = endpoint_status(
        state,
        resource.generation,
        before=resource.status,
        now=tx.now,
        consent=webhook_consent.consent_shown(state, specs.of(resource), now=tx.now),
    )
    observe_resource(tx, endpoint, status, observed_generation=resource.generation)
