"""Webhook deliveries: from an event to rows, from due rows to leases, from ends to decisions.

Three steps, each inside one transaction of one tenant. What lies between a lease and its end, the
request itself, happens outside any transaction (`loops.webhook_sending`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from datarecs_application import webhook_consent, webhook_order
from datarecs_application.filter_facts import JobLookup, names_jobs
from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_application.resources import observe_resource
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_consent import ConsentRequest
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.delivery import EventTooLargeError
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import EventId, ResourceUid, RunId
from datarecs_core.webhooks.delivery import (
    Delivery,
    DeliveryState,
    Ended,
    EndpointDeleted,
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
from datarecs_core.webhooks.matching import EndpointFacts, EventFacts, match_endpoint
from datarecs_core.webhooks.ordering import place_of
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_core.webhooks.payload import MAX_DATA_BYTES, Message, with_absolute_dataref
from datarecs_core.webhooks.signature import SECRET_FIELD
from datarecs_core.webhooks.status import endpoint_status, is_failing, is_stale

MAX_ENDPOINTS = 1000
"""Endpoints looked at per event; the quota per tenant is far below."""
TESTS_AT_ONCE = 32
"""Open requests of one endpoint up to which a test may start; its largest `max_concurrent`."""
SETTLED_AT_ONCE = 500
"""Rows decided without sending in one transaction."""

Jitter = Callable[[], float]
"""A number uniform in [0, 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingEvent:
    """An event as the consumer decoded it."""

    event_id: EventId
    type: str
    time: datetime | None
    attributes: Mapping[str, str]
    data: bytes
    endpoint_id: ResourceUid | None = None
    run_id: RunId | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    """What filters read of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A delivery whose attempt has been recorded as started: everything a request needs."""

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
    """What the sending loop knows of an ended attempt."""

    end: AttemptEnd
    log: WebhookAttempt
    """The row as it is to be closed, without `finished_at`."""
    shown_url: str
    """For the event that tells of a disabled endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a transaction decided, for metrics after its commit."""

    closed: tuple[Delivery, ...] = ()
    """Deliveries that reached a terminal state."""
    late: int = 0
    """Results that came after their lease was taken."""
    lost: int = 0
    """Leases that had run out."""
    gaps: int = 0
    """Events that were leased without an earlier one of their run."""
    status_moved: bool = False
    """What the resource shows of the endpoint is to be written anew."""
    consent_request: ConsentRequest | None = None
    """To be sent after the commit."""


def fan_out(
    tx: Transaction,
    event: IncomingEvent,
    *,
    specs: StoredSpecs[WebhookEndpoint],
    ids: Ids,
    base_url: str,
) -> int:
    """Keep the event if its tenant has an endpoint, and make one delivery per matching one.

    Runs in the transaction that holds the inbox mark, so it happens once per event. Returns how
    many deliveries were made.

    Raises:
        EventTooLargeError: the data breaks the event contract; the record is set aside.
    """
    if len(event.data) > MAX_DATA_BYTES:
        raise EventTooLargeError(size_bytes=len(event.data), most=MAX_DATA_BYTES)
    declared = tx.resources.page(Kind.WEBHOOK_ENDPOINT, limit=MAX_ENDPOINTS)
    if not declared:
        return 0
    attributes = with_absolute_dataref(event.attributes, base_url)
    message = Message(attributes=attributes, data=event.data, values=event.values)
    day = tx.deliveries.store_event(event.event_id, message)
    readable = [
        (resource, spec)
        for resource in declared
        if resource.deletion_at is None and (spec := specs.of(resource)) is not None
    ]
    matching = _matching(tx, event, attributes, readable)
    place = place_of(attributes)
    ordered = [one for one, spec in readable if place and webhook_order.is_ordered(spec)]
    accepting = [
        matching[state.endpoint_uid]
        for state in tx.deliveries.states({*matching, *(one.uid for one in ordered)})
        if state.endpoint_uid in matching
        and state.accepts(matching[state.endpoint_uid][0].generation)
    ]
    made = [
        Delivery(
            tenant_id=tx.tenant_id,
            received_on=day,
            delivery_id=ids.new(),
            endpoint_uid=resource.uid,
            event_id=event.event_id,
            event_type=event.type,
            run_id=event.run_id,
            due_at=tx.now,
            expires_at=tx.now + spec.retry.max_age,
            created_at=tx.now,
        )
        for resource, spec in accepting
    ]
    added = tx.deliveries.add(webhook_order.placed(tx, made, ordered, place))
    webhook_order.release_early(tx, ordered, place)
    tx.deliveries.hasten([resource.uid for resource, _ in accepting])
    if added:
        tx.wake()
        crash_point(CrashPoint.DELIVER_AFTER_INSERT)
    return added


_Endpoint = tuple[Resource, WebhookEndpoint]


def _matching(
    tx: Transaction,
    event: IncomingEvent,
    attributes: Mapping[str, str],
    readable: Sequence[_Endpoint],
) -> Mapping[ResourceUid, _Endpoint]:
    """The endpoints that the event goes to."""
    jobs = JobLookup(tx, is_needed=any(names_jobs(spec) for _, spec in readable))
    facts = EventFacts(
        type=event.type,
        time=event.time or tx.now,
        endpoint_id=event.endpoint_id,
        attributes=attributes,
        values=event.values,
        job=jobs.job_of(event.values),
    )
    return {
        one.uid: (one, spec)
        for one, spec in readable
        if match_endpoint(EndpointFacts(uid=one.uid, created_at=one.created_at, spec=spec), facts)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Leasing:
    """How the due deliveries of an endpoint are taken."""

    specs: StoredSpecs[WebhookEndpoint]
    jitter: Jitter
    owner: str
    """The worker, as the attempt log names it."""
    random_bytes: Callable[[int], bytes]
    """From the system's secure source."""

    def lease_due(
        self, tx: Transaction, endpoint: ResourceUid, *, limit: int
    ) -> tuple[list[Leased], Settled]:
        """Settle what is overdue, then lease what may be sent now and record its attempts.

        An endpoint that is disabled or unreadable gets nothing and keeps its waiting deliveries;
        a deleted one loses them.
        """
        (state,) = tx.deliveries.states([endpoint])
        resource = tx.resources.get_by_uid(endpoint)
        if resource is None or resource.deletion_at is not None:
            return [], _discard(tx, state)
        spec = self.specs.of(resource)
        settled = self._settle(tx, endpoint, spec.retry if spec else Retry())
        if spec is None:
            _save_claim_time(tx, state, spec, resource)
            return [], settled
        state, request = self._request_consent(tx, state, spec, resource)
        allowed = _allowance(spec, state, resource, now=tx.now)
        waiting = webhook_order.waiting(tx, endpoint, spec)
        is_withheld = webhook_consent.is_withheld(state, spec, now=tx.now)
        leased = [] if is_withheld else self._lease_tests(tx, endpoint, waiting)
        if allowed is not None:
            running = waiting.leased + len(leased)
            count = min(limit, sendable_now(state, allowed, leased=running, now=tx.now))
            due = webhook_order.due(tx, endpoint, spec, count)
            live = self._lease(tx, due)
            settled = replace(settled, gaps=webhook_order.skip_gaps(tx, endpoint, due))
            state = paid(state, allowed, started=len(live), now=tx.now)
            leased += live
        _save_claim_time(tx, state, spec, resource)
        # A person, a changed spec or a receiver's consent, which its status does not say yet.
        shown = webhook_consent.consent_shown(state, spec, now=tx.now)
        moved = is_stale(resource.status, state, resource.generation, shown)
        settled = replace(settled, status_moved=moved, consent_request=request)
        return self._with_contents(tx, leased, spec, resource), settled

    def _request_consent(
        self, tx: Transaction, state: EndpointState, spec: WebhookEndpoint, resource: Resource
    ) -> tuple[EndpointState, ConsentRequest | None]:
        if not spec.enabled or not state.accepts(resource.generation):
            return state, None
        return webhook_consent.request_consent(
            state, spec, now=tx.now, random_bytes=self.random_bytes
        )

    def _lease_tests(
        self, tx: Transaction, endpoint: ResourceUid, waiting: Waiting
    ) -> list[Delivery]:
        """Tests are sent whatever the state of the endpoint, a few at a time."""
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


def _discard(tx: Transaction, state: EndpointState) -> Settled:
    """The endpoint is gone: what waited for it is discarded, a batch at a time."""
    pending = tx.deliveries.pending(state.endpoint_uid, SETTLED_AT_ONCE)
    closed = [
        decide_delivery(one, EndpointDeleted(), retry=Retry(), now=tx.now).state for one in pending
    ]
    tx.deliveries.save(closed)
    claim_at = tx.now if len(closed) == SETTLED_AT_ONCE else None
    tx.deliveries.save_state(replace(state, next_claim_at=claim_at))
    return Settled(closed=tuple(closed))


def _allowance(
    spec: WebhookEndpoint, state: EndpointState, resource: Resource, *, now: datetime
) -> Allowance | None:
    if not spec.enabled or not state.accepts(resource.generation):
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
        endpoint: whose attempts have ended.
        ends: in any order.
        leasing: reads its spec, and has the jitter of waits.
        excused: outcomes that say nothing about the endpoint, because our own network is suspect.
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
        if ended.end.outcome in excused:
            continue
        receiver = _receiver(ended, resource, spec)
        after = decide_endpoint(state, ended.end, receiver=receiver, now=tx.now, u=leasing.jitter())
        tx.outbox.append(*after.events)
        state = after.state
    tx.deliveries.save(decided)
    _save_claim_time(tx, state, spec, resource)
    moved = state.disabled != before.disabled or is_failing(state) != is_failing(before)
    return Settled(closed=_closed(decided), late=len(ends) - len(decided), status_moved=moved)


def _save_claim_time(
    tx: Transaction,
    state: EndpointState,
    spec: WebhookEndpoint | None,
    resource: Resource | None,
) -> None:
    """Store the state with the time of its next claim: at once where the endpoint is gone."""
    if resource is None:
        tx.deliveries.save_state(replace(state, next_claim_at=tx.now))
        return
    waiting = webhook_order.waiting(tx, state.endpoint_uid, spec)
    allowed = check = None
    if spec is not None:
        allowed = _allowance(spec, state, resource, now=tx.now)
        check = webhook_consent.next_check(state, spec, now=tx.now)
        if webhook_consent.is_withheld(state, spec, now=tx.now):
            waiting = replace(waiting, first_test=None)
    claim_at = next_claim_time(state, waiting, allowed, now=tx.now)
    moments = [moment for moment in (claim_at, check) if moment is not None]
    tx.deliveries.save_state(replace(state, next_claim_at=min(moments, default=None)))


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
        shown=webhook_consent.consent_shown(state, specs.of(resource), now=tx.now),
    )
    observe_resource(tx, endpoint, status, observed_generation=resource.generation)
