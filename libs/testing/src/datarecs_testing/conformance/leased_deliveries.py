"""Webhook deliveries and mails with the lease rules.

Neither is renewed: a lease is longer than every attempt. Neither is returned: a stopping sender
finishes its attempts. Mails are ordered by due time, without fairness between tenants.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

import pytest

from datarecs_application.mailing import LeasedMail, Sending
from datarecs_application.notifications import MailPolicy
from datarecs_application.ports.delivery import DeliveryKey, MailAttempt, WebhookAttempt
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhooks import EndedAttempt, Leased, Leasing, record_ends
from datarecs_core.notifications import mail
from datarecs_core.notifications.content import Content
from datarecs_core.notifications.replies import Reply, Stage
from datarecs_core.values import EventId, ResourceUid, TenantId
from datarecs_core.webhooks import delivery
from datarecs_core.webhooks.endpoint import Limits, Retry, WebhookEndpoint
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.deliveries import fresh
from datarecs_testing.conformance.lease_discipline import (
    FairnessDiscipline,
    Grants,
    LeaseDiscipline,
    RetryDiscipline,
    Taken,
)
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.deliveries import a_mail, a_message, an_endpoint, read_endpoint

MIDDLE = 0.5
"""The jitter that does not change a wait."""
ENDPOINT = WebhookEndpoint(
    url="https://receiver.example.com/hook",
    retry=Retry(delays=(timedelta(minutes=1), timedelta(minutes=5))),
    limits=Limits(rate_per_minute=6000, max_concurrent=32),
)


@dataclass(slots=True)
class DeliveryQueue:
    """`webhook_delivery`, with one endpoint per tenant."""

    stores: Stores
    specs: StoredSpecs[WebhookEndpoint] = field(default_factory=lambda: StoredSpecs(read_endpoint))
    endpoints: dict[TenantId, ResourceUid] = field(default_factory=dict)
    keys: dict[Hashable, DeliveryKey] = field(default_factory=dict)
    tries = len(ENDPOINT.retry.delays) + 1
    ttl = delivery.LEASE_TTL
    lasts = delivery.LEASE_TTL
    pause = max(ENDPOINT.retry.delays)

    def put(self, tenant: TenantId = A_TENANT) -> UUID:
        endpoint = self.endpoints.get(tenant) or self._declared(tenant)
        event = EventId(an_id())
        with self.stores.webhook.unit.begin(tenant) as tx:
            tx.deliveries.states([endpoint])
            day = tx.deliveries.store_event(event, a_message(event))
            made = fresh(tx, endpoint, tenant_id=tenant, event_id=event, received_on=day)
            tx.deliveries.add([made])
            tx.deliveries.hasten([endpoint])
        self.keys[made.delivery_id] = DeliveryKey(day, made.delivery_id)
        return made.delivery_id

    def _leasing(self, worker: str) -> Leasing:
        return Leasing(
            specs=self.specs,
            jitter=lambda: MIDDLE,
            owner=worker,
            ids=FixedIds(),
            random_bytes=bytes,
        )

    def take(self, worker: str) -> Grants:
        leasing = self._leasing(worker)
        granted: list[Leased] = []
        for tenant, endpoint in self.stores.webhook.finder.claim_deliveries(1):
            with self.stores.webhook.unit.begin(tenant) as tx:
                granted, _ = leasing.lease_due(tx, endpoint, limit=1)
        return {
            one.delivery.delivery_id: Taken(
                epoch=one.delivery.lease_epoch,
                attempt=one.delivery.attempt_no,
                tenant=one.delivery.tenant_id,
                ticket=one,
            )
            for one in granted
        }

    def end(self, taken: Taken) -> bool:
        return self._ended(taken, AttemptEnd(outcome=Outcome.OK, status=200))

    def fail(self, taken: Taken) -> None:
        assert self._ended(taken, AttemptEnd(outcome=Outcome.HTTP_5XX, status=503))

    def is_set_aside(self, item: Hashable) -> bool:
        key = self.keys[item]
        with self.stores.webhook.unit.begin(A_TENANT) as tx:
            return tx.deliveries.get([key])[key].state is delivery.DeliveryState.DEAD_LETTERED

    def pass_time(self, duration: timedelta) -> None:
        self.stores.pass_time(duration)

    def _ended(self, taken: Taken, end: AttemptEnd) -> bool:
        one = taken.of(Leased)
        log = WebhookAttempt(
            key=one.key,
            attempt_no=one.delivery.attempt_no,
            lease_epoch=one.delivery.lease_epoch,
            worker=one.delivery.lease_owner or "",
            started_at=one.leased_at,
            outcome=end.outcome,
        )
        with self.stores.webhook.unit.begin(taken.tenant) as tx:
            settled = record_ends(
                tx,
                one.delivery.endpoint_uid,
                [EndedAttempt(end=end, log=log, shown_url="")],
                leasing=self._leasing("w"),
            )
        return settled.late == 0

    def _declared(self, tenant: TenantId) -> ResourceUid:
        declared = an_endpoint(ENDPOINT, tenant_id=tenant)
        with self.stores.api.unit.begin(tenant) as tx:
            tx.resources.add(declared)
        with self.stores.webhook.unit.begin(tenant) as tx:
            (state,) = tx.deliveries.states([declared.uid])
            # It has answered before, so that its declared rate applies.
            tx.deliveries.save_state(replace(state, last_success_at=tx.now))
        self.endpoints[tenant] = declared.uid
        return declared.uid


class _StoredRenderer:
    """Port MailRenderer for mails with existing bytes."""

    def render(self, content: Content) -> bytes:
        raise AssertionError(content)


@dataclass(slots=True)
class MailQueue:
    """`email_delivery`."""

    stores: Stores
    tries = 3
    ttl = mail.LEASE_TTL
    lasts = mail.LEASE_TTL
    pause = mail.retry_delay(mail.MAX_ATTEMPTS - 1, u=MIDDLE)

    def put(self, tenant: TenantId = A_TENANT) -> UUID:
        with self.stores.mail.unit.begin(tenant) as tx:
            made = a_mail(
                tenant_id=tenant,
                attempts=mail.MAX_ATTEMPTS - self.tries,
                due_at=tx.now,
                expires_at=tx.now + mail.EXPIRES_AFTER,
            )
            tx.mails.add(made)
            tx.mails.store_mime(made.delivery_id, b"Subject: kept\r\n\r\n")
        return made.delivery_id

    def take(self, worker: str) -> Grants:
        granted: dict[Hashable, Taken] = {}
        for tenant, delivery_id in self.stores.mail.finder.claim_mails(1):
            with self.stores.mail.unit.begin(tenant) as tx:
                leased = self._sending(worker).lease_mail(tx, delivery_id)
            if isinstance(leased, LeasedMail):
                # One attempt per lease: its number in the log is the epoch.
                epoch = leased.lease_epoch
                taken = Taken(epoch=epoch, attempt=epoch, tenant=tenant, ticket=leased)
                granted[delivery_id] = taken
        return granted

    def end(self, taken: Taken) -> bool:
        return self._replied(taken, Reply(stage=Stage.DATA, code=250, text="2.0.0 stored"))

    def fail(self, taken: Taken) -> None:
        assert self._replied(taken, Reply(stage=Stage.RCPT, code=451, text="4.7.1 later"))

    def is_set_aside(self, item: Hashable) -> bool:
        assert isinstance(item, UUID)
        with self.stores.mail.unit.begin(A_TENANT) as tx:
            row = tx.mails.get(item)
        return row is not None and row.state is mail.MailState.FAILED

    def pass_time(self, duration: timedelta) -> None:
        self.stores.pass_time(duration)

    def _replied(self, taken: Taken, reply: Reply) -> bool:
        leased = taken.of(LeasedMail)
        fact = mail.Replied(reply=reply, pause=timedelta(), u=MIDDLE)
        attempt = MailAttempt(
            delivery_id=leased.delivery_id,
            attempt_no=leased.lease_epoch,
            started_at=leased.leased_at,
            reply=reply,
        )
        with self.stores.mail.unit.begin(taken.tenant) as tx:
            return self._sending("").record(tx, leased, fact, attempt) is not None

    def _sending(self, owner: str) -> Sending:
        policy = MailPolicy(mail_domain="mail.example.com", domains={})
        return Sending(
            renderer=_StoredRenderer(),
            policy=policy,
            ids=FixedIds(),
            owner=owner,
            relay="relay:587",
        )


class DeliveryQueueConformance(LeaseDiscipline, RetryDiscipline, FairnessDiscipline):
    """Subclass with a fixture `stores`."""

    @pytest.fixture
    def queue(self, stores: Stores) -> DeliveryQueue:
        return DeliveryQueue(stores)


class MailQueueConformance(LeaseDiscipline, RetryDiscipline):
    """Subclass with a fixture `stores`."""

    @pytest.fixture
    def queue(self, stores: Stores) -> MailQueue:
        return MailQueue(stores)
