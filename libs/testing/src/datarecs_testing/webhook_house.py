"""The webhook-service without Kafka, Postgres and sockets: fan-out, actions and sending in memory.

Separate from the tests, because tests of actions and of deliveries use it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from datarecs_application.loops.webhook_expanding import WebhookExpanding
from datarecs_application.loops.webhook_sending import WebhookSending
from datarecs_application.ports.delivery import DeliveryKey, OutgoingWebhook, WebhookAttempt
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_actions import Expanding
from datarecs_application.webhook_fan_out import IncomingEvent, fan_out
from datarecs_application.webhook_requests import RequestMaker
from datarecs_application.webhooks import Leasing
from datarecs_core.resources.resource import Resource
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId
from datarecs_core.webhooks.delivery import Delivery
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_core.webhooks.outcome import AttemptEnd
from datarecs_core.webhooks.signature import new_secret, secret_context
from datarecs_events.endpoint_tests import make_test
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_testing.builders import A_TENANT, NOON, an_id
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.deliveries import FINALISED, a_message, an_endpoint, read_endpoint
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.scripted_delivery import OK, ScriptedWebhookClient

SECRET = new_secret(bytes(range(32)))
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass(slots=True)
class WebhookHouse:
    """The webhook-service without Kafka, Postgres and sockets."""

    answer: Callable[[OutgoingWebhook], AttemptEnd | None] = lambda _: OK
    clock: ManualClock = field(default_factory=lambda: ManualClock(now=NOON))
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)
    environment: dict[str, str] = field(default_factory=dict)
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shared: MemoryStore | None = None
    """A store that other services of the test use too."""
    store: MemoryStore = field(init=False)
    unit: MemoryUnitOfWork = field(init=False)
    client: ScriptedWebhookClient = field(init=False)
    secrets: TenantSecrets = field(init=False)
    specs: StoredSpecs[WebhookEndpoint] = field(init=False)

    def __post_init__(self) -> None:
        self.store = self.shared or MemoryStore(self.clock, FixedIds())
        self.unit = MemoryUnitOfWork(self.store)
        self.client = ScriptedWebhookClient(self._answered)
        self.secrets = TenantSecrets(
            Secrets(uses=self.uses),
            keyring=Keyring({"kek-1": bytes(32)}, current="kek-1"),
            environment=self.environment,
        )
        self.specs = StoredSpecs(read_endpoint)

    def _answered(self, request: OutgoingWebhook) -> AttemptEnd | None:
        """By today's script: a test may change it on its way."""
        return self.answer(request)

    def sending(self, owner: str = "w-1") -> WebhookSending:
        return WebhookSending(
            MemoryWorkFinder(self.store),
            self.unit,
            self.client,
            leasing=Leasing(
                specs=self.specs,
                jitter=lambda: 0.5,
                owner=owner,
                ids=self.store.ids,
                random_bytes=lambda count: an_id().bytes * (count // 16),
            ),
            requests=RequestMaker(
                secrets=self.secrets,
                user_agent="datarecs-webhook/0.1.0",
                child_trace=lambda _: TRACE,
                base_url="https://recs.example.com",
            ),
            metrics=self.metrics,
            clock=self.clock,
        )

    def expanding(self) -> WebhookExpanding:
        return WebhookExpanding(
            MemoryWorkFinder(self.store),
            self.unit,
            Expanding(specs=self.specs, ids=self.store.ids, make_test=make_test),
            metrics=self.metrics,
            clock=self.clock,
        )

    def expand(self) -> None:
        """Until no action is open."""
        loop = self.expanding()
        while loop.turn():
            pass

    def declare(
        self, spec: WebhookEndpoint | None = None, *, tenant: TenantId = A_TENANT
    ) -> Resource:
        """An endpoint with a managed secret."""
        endpoint = an_endpoint(spec, tenant_id=tenant)
        with self.unit.begin(tenant) as tx:
            tx.resources.add(endpoint)
            context = secret_context(tenant, endpoint.uid, "k1")
            sealed = self.secrets.seal(SECRET.encode(), context=context)
            tx.secrets.put(endpoint.uid, "signing", "k1", sealed)
        return endpoint

    def publish(
        self,
        *,
        tenant: TenantId = A_TENANT,
        type_: str = FINALISED,
        about: ResourceUid | None = None,
        data: bytes = b'{"v":0.010}',
        values: Mapping[str, str] | None = None,
        **attributes: str,
    ) -> EventId:
        event = EventId(UUID(attributes["id"])) if "id" in attributes else EventId(an_id())
        message = a_message(event, type=type_, **attributes)
        with self.unit.begin(tenant, feed=8) as tx:
            if tx.inbox.first_time("webhook-service", "/datarecs/core-api", event):
                fan_out(
                    tx,
                    IncomingEvent(
                        event_id=event,
                        type=type_,
                        time=tx.now,
                        attributes=message.attributes,
                        data=data,
                        endpoint_id=about,
                        run_id=RunId(an_id()),
                        values=values or {},
                    ),
                    specs=self.specs,
                    ids=self.store.ids,
                    base_url="https://recs.example.com",
                )
        return event

    def deliveries(self, endpoint: Resource) -> list[Delivery]:
        with self.unit.begin(endpoint.tenant_id, read_only=True) as tx:
            return tx.deliveries.of_endpoint(endpoint.uid, 1000)

    def attempts(self, delivery: Delivery) -> list[WebhookAttempt]:
        with self.unit.begin(delivery.tenant_id, read_only=True) as tx:
            key = DeliveryKey(delivery.received_on, delivery.delivery_id)
            return tx.deliveries.attempts(key)

    def event_types(self, family: str = "webhook.") -> list[str]:
        """Short types of a family in the outbox of tenant A."""
        rows = self.store.committed(A_TENANT).outbox.values()
        types = [queued.row.type.removeprefix("io.datarecs.") for queued in rows]
        return [one for one in types if one.startswith(family)]

    def run(self, loop: WebhookSending, *, turns: int = 3) -> None:
        for _ in range(turns):
            loop.turn()

    def play_until_quiet(self, loop: WebhookSending, endpoint: Resource) -> None:
        """Advance time to each next claim until nothing waits."""
        while True:
            self.run(loop, turns=2)
            state = self.store.committed(endpoint.tenant_id).delivery.endpoints[endpoint.uid]
            if state.next_claim_at is None:
                return
            self.clock.advance(max(timedelta(), state.next_claim_at - self.clock.now()))
