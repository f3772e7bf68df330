"""The webhook-service, joined top to bottom: it reads every event and sends signed requests."""

import os
import socket
from collections.abc import Mapping, Sequence
from datetime import timedelta
from importlib.metadata import version

from datarecs_application.loops.webhook_expanding import WebhookExpanding
from datarecs_application.loops.webhook_sending import WebhookSending
from datarecs_application.ports.outside import Clock
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_actions import Expanding
from datarecs_application.webhook_requests import RequestMaker
from datarecs_application.webhooks import Leasing
from datarecs_core.egress.addresses import Policy, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_core.errors.process import SettingsError
from datarecs_core.resources.resource import Kind
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_events.catalogue import Service, subscriptions_of
from datarecs_events.endpoint_tests import make_test
from datarecs_kafka import redrive_command
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.depth import depth_loop
from datarecs_kafka.handling import Subscription
from datarecs_kafka.remembering import refuse_short_memory
from datarecs_knative.receiving import inlet_of
from datarecs_outbound.dialling import Dialling
from datarecs_outbound.http import GuardedHttp, GuardedTransport
from datarecs_outbound.webhook import GuardedWebhookClient
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.event_archive import PostgresEventArchive
from datarecs_postgres.server_checks import start_checks
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids, random_bytes, random_fraction
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.secrets import TenantSecrets
from datarecs_runtime.tracing import child_of, tracing_of
from datarecs_specs.documents import decode_stored
from datarecs_webhook_service.handlers import Handlers
from datarecs_webhook_service.settings import Settings

GRACE = timedelta(seconds=35)
"""An attempt may take 30 s, and its end is still recorded."""


def build(settings: Settings) -> Process:
    """Everything this process runs; opens connections lazily, starts one idle event loop."""
    clock, ids, metrics = SystemClock(), UuidV7Ids(), PrometheusMetrics()
    database = Database(
        settings.database.url.get_secret_value(),
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application=Service.WEBHOOK_SERVICE,
    )
    unit = PostgresUnitOfWork(database, ids)
    tracing = tracing_of(settings.otel, Service.WEBHOOK_SERVICE)
    specs = StoredSpecs(read_endpoint)
    handlers = Handlers(specs=specs, ids=ids, base_url=_base_url(settings), metrics=metrics)
    archive = PostgresEventArchive(database)
    consumer = Consumer(
        KafkaLogClient(_access(settings)),
        unit,
        group=Service.WEBHOOK_SERVICE,
        subscriptions=subscriptions(handlers),
        metrics=metrics,
        clock=clock,
        archive=archive,
        feed=0,
        tracing=tracing,
    )
    sending = WebhookSending(
        PostgresWorkFinder(database),
        unit,
        _client(settings),
        leasing=_leasing(specs, ids),
        requests=_requests(settings),
        metrics=metrics,
        clock=clock,
        max_in_flight=settings.webhook.max_in_flight,
        claim_batch=settings.webhook.claim_batch,
    )
    eventing = settings.eventing
    inlet = inlet_of(consumer, mode=eventing.mode, host=eventing.host, port=eventing.port)
    letters = depth_loop(_access(settings), Service.WEBHOOK_SERVICE, metrics=metrics, clock=clock)
    return Process(
        name=Service.WEBHOOK_SERVICE,
        loops=(
            inlet,
            sending,
            _expanding(database, handlers, clock=clock),
            *((letters,) if inlet is consumer else ()),
        ),
        ready_when={"database": database.ready, "broker": inlet.ready},
        start_checks=(
            *start_checks((database,), settings.profile, now=clock.now),
            lambda: refuse_short_memory(
                archive.memory(Service.WEBHOOK_SERVICE), group=Service.WEBHOOK_SERVICE
            ),
        ),
        closing=(database.close, tracing.close),
        grace=GRACE,
        side=settings.side,
        metrics=metrics,
    )


def _leasing(specs: StoredSpecs[WebhookEndpoint], ids: UuidV7Ids) -> Leasing:
    return Leasing(
        specs=specs,
        jitter=random_fraction,
        owner=f"{socket.gethostname()}/{os.getpid()}",
        ids=ids,
        random_bytes=random_bytes,
    )


def _requests(settings: Settings) -> RequestMaker:
    return RequestMaker(
        secrets=TenantSecrets.of(settings.secrets, settings.profile),
        user_agent=f"datarecs-webhook/{version('datarecs')}",
        child_trace=child_of,
        base_url=_base_url(settings),
    )


def _expanding(database: Database, handlers: Handlers, *, clock: Clock) -> WebhookExpanding:
    """Makes the deliveries of actions, with what the handlers of events use."""
    return WebhookExpanding(
        PostgresWorkFinder(database),
        PostgresUnitOfWork(database, handlers.ids),
        Expanding(specs=handlers.specs, ids=handlers.ids, make_test=make_test),
        metrics=handlers.metrics,
        clock=clock,
    )


def redrive(settings: Settings, arguments: Sequence[str]) -> int:
    """Pass the dead letters of this service to its handlers again."""
    process = build(settings)
    try:
        process.check_start()
        return redrive_command.redrive(process.loops, arguments)
    finally:
        for close in process.closing:
            close()


def subscriptions(handlers: Handlers) -> tuple[Subscription, ...]:
    """Every event of every topic that the catalogue opens to this service."""
    return tuple(
        Subscription(one.topic, None, handlers.deliver)
        for one in subscriptions_of(Service.WEBHOOK_SERVICE)
    )


def read_endpoint(spec: Mapping[str, object]) -> WebhookEndpoint:
    """The typed spec of a stored endpoint."""
    endpoint = decode_stored(Kind.WEBHOOK_ENDPOINT, "", spec)
    if not isinstance(endpoint, WebhookEndpoint):
        raise TypeError("a stored WebhookEndpoint was read as another kind")
    return endpoint


def _client(settings: Settings) -> GuardedWebhookClient:
    egress = settings.egress
    policy = Policy(
        purpose=Purpose.WEBHOOK,
        profile=settings.profile,
        allowed_cidrs=egress.allowed_cidrs.webhook,
        denied_cidrs=egress.denied_cidrs,
        nat64_prefixes=egress.nat64_prefixes,
    )
    dialling = Dialling(policy=policy, proxy_url=egress.proxy_url)
    most = settings.webhook.max_in_flight
    return GuardedWebhookClient(
        lambda: GuardedHttp(GuardedTransport(dialling, max_connections=most)),
        rules=UrlRules(
            policy=policy,
            allowed_ports=egress.allowed_ports,
            allowed_hosts=egress.allowed_hosts,
        ),
    )


def _base_url(settings: Settings) -> str:
    if settings.base_url is None:
        raise SettingsError(("DATARECS_BASE_URL is missing: references in events start with it",))
    return settings.base_url.rstrip("/")


def _access(settings: Settings) -> BrokerAccess:
    kafka = settings.kafka
    return BrokerAccess(
        bootstrap=",".join(kafka.bootstrap),
        username=kafka.username,
        password=kafka.password.get_secret_value(),
        security=kafka.protocol(settings.profile),
        ca_file=None if kafka.ca_file is None else str(kafka.ca_file),
    )
