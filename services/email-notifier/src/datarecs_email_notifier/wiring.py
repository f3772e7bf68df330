"""The email-notifier, joined top to bottom: it reads only run.finalised and drains the queue."""

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

from datarecs_application.loops.mail_sending import MailSending, RelayHealth
from datarecs_application.mail_content import Links
from datarecs_application.mailing import Sending
from datarecs_application.notifications import MailPolicy, Planning
from datarecs_application.ports.delivery import Mailer
from datarecs_application.ports.outside import Metrics
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.tracing import Tracing
from datarecs_core.errors.process import SettingsError
from datarecs_core.notifications.address import ascii_domain
from datarecs_core.notifications.mail import OnUnknown
from datarecs_core.notifications.rule import NotificationRule
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.events import RunFinalised
from datarecs_core.values import TenantId
from datarecs_email_notifier.handlers import Handlers
from datarecs_email_notifier.settings import Settings
from datarecs_events.catalogue import Service, Topic
from datarecs_kafka import redrive_command
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.depth import depth_loop
from datarecs_kafka.handling import Subscription
from datarecs_kafka.remembering import refuse_short_memory
from datarecs_knative.receiving import inlet_of
from datarecs_outbound.maildir import MaildirMailer
from datarecs_outbound.smtp import RelayAccess, SmtpLimits, SmtpMailer
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.event_archive import PostgresEventArchive
from datarecs_postgres.listener import Listener
from datarecs_postgres.server_checks import start_checks
from datarecs_postgres.session import Woken, concerns
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_reports.mail import MailTemplates
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids, random_fraction
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.sections import Links as LinkSettings
from datarecs_runtime.sections import MailTransport
from datarecs_runtime.tracing import tracing_of
from datarecs_specs.documents import decode_stored


def build(settings: Settings) -> Process:
    """Everything this process runs; opens connections lazily, starts nothing."""
    clock, ids, metrics = SystemClock(), UuidV7Ids(), PrometheusMetrics()
    database = Database(
        settings.database.url.get_secret_value(),
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application=Service.EMAIL_NOTIFIER,
    )
    unit = PostgresUnitOfWork(database, ids)
    tracing = tracing_of(settings.otel, Service.EMAIL_NOTIFIER)
    planning = Planning(
        consumer=Service.EMAIL_NOTIFIER,
        specs=StoredSpecs(read_rule),
        policy=_policy(settings),
        ids=ids,
    )
    archive = PostgresEventArchive(database)
    consumer = Consumer(
        KafkaLogClient(_access(settings)),
        unit,
        group=Service.EMAIL_NOTIFIER,
        subscriptions=subscriptions(Handlers(planning, metrics)),
        metrics=metrics,
        clock=clock,
        archive=archive,
        feed=0,
        tracing=tracing,
    )
    senders = _senders(
        settings, PostgresWorkFinder(database), unit, metrics=metrics, tracing=tracing
    )

    def wake_senders(_channel: str, payload: str) -> None:
        for sender in senders if concerns(payload, Woken.WORK) else ():
            sender.wake.set()

    eventing = settings.eventing
    inlet = inlet_of(consumer, mode=eventing.mode, host=eventing.host, port=eventing.port)
    letters = depth_loop(_access(settings), Service.EMAIL_NOTIFIER, metrics=metrics, clock=clock)
    return Process(
        name=Service.EMAIL_NOTIFIER,
        loops=(
            Listener(
                settings.database.url.get_secret_value(), wake_senders, channels=("datarecs_wake",)
            ),
            *(inlet, *senders, *((letters,) if inlet is consumer else ())),
        ),
        ready_when={"database": database.ready, "broker": inlet.ready},
        start_checks=(
            *start_checks((database,), settings.profile, now=clock.now),
            lambda: refuse_short_memory(
                archive.memory(Service.EMAIL_NOTIFIER), group=Service.EMAIL_NOTIFIER
            ),
        ),
        wakes=[sender.wake for sender in senders],
        closing=(database.close, tracing.close),
        side=settings.side,
        metrics=metrics,
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
    """Only run.finalised."""
    return (Subscription(Topic.RUN_PLATFORM, (RunFinalised,), handlers.plan_mails),)


def _senders(
    settings: Settings,
    finder: WorkFinder,
    unit: UnitOfWork,
    *,
    metrics: Metrics,
    tracing: Tracing,
) -> list[MailSending]:
    """One loop per connection to the relay; they share its health."""
    clock = SystemClock()
    is_relay = settings.mail.transport is MailTransport.SMTP
    health = RelayHealth(clock, rate=settings.mail.relay_rate if is_relay else None)
    templates = _templates(settings)
    owner = f"{socket.gethostname()}/{os.getpid()}"
    return [
        MailSending(
            finder,
            unit,
            mailer,
            sending=Sending(
                renderer=templates,
                policy=_policy(settings),
                ids=UuidV7Ids(),
                links=links_of(settings.links),
                owner=f"{owner}/{number}",
                relay=mailer.relay,
            ),
            health=health,
            jitter=random_fraction,
            metrics=metrics,
            clock=clock,
            wake=Latch(),
            name=f"mail_sending_{number}",
            tracing=tracing,
        )
        for number, mailer in enumerate(_mailers(settings), start=1)
    ]


def read_rule(spec: Mapping[str, object]) -> NotificationRule:
    """The typed spec of a stored rule."""
    rule = decode_stored(Kind.NOTIFICATION_RULE, "", spec)
    if not isinstance(rule, NotificationRule):
        raise TypeError("a stored NotificationRule was read as another kind")
    return rule


def links_of(settings: LinkSettings) -> Links | None:
    """How links are signed; None without a key."""
    if settings.key is None:
        return None
    key = settings.key.get_secret_value().encode()
    return Links(key=key, report_age=timedelta(days=settings.report_days))


def _policy(settings: Settings) -> MailPolicy:
    return MailPolicy(
        mail_domain=settings.mail.mail_domain or _sender(settings).rpartition("@")[2],
        domains={
            TenantId(tenant): _ascii(domains)
            for tenant, domains in settings.mail.recipient_domains.items()
        },
        on_unknown=OnUnknown(settings.mail.on_unknown),
        tenant_rate=settings.mail.tenant_rate,
        recipient_rate=settings.mail.recipient_rate,
    )


def _ascii(domains: Collection[str]) -> frozenset[str]:
    names = {domain: ascii_domain(domain) for domain in domains}
    wrong = tuple(domain for domain, name in names.items() if name is None)
    if wrong:
        raise SettingsError((f"DATARECS_MAIL__RECIPIENT_DOMAINS: not a domain: {wrong[0]}",))
    return frozenset(name for name in names.values() if name)


def _templates(settings: Settings) -> MailTemplates:
    return MailTemplates(
        sender=_sender(settings),
        mail_domain=_policy(settings).mail_domain,
        base_url=_base_url(settings),
    )


def _base_url(settings: Settings) -> str:
    if settings.base_url is None:
        raise SettingsError(("DATARECS_BASE_URL is missing: links in mails start with it",))
    return settings.base_url.rstrip("/")


def _sender(settings: Settings) -> str:
    return settings.mail.sender or f"datarecs@{urlsplit(_base_url(settings)).hostname}"


def _mailers(settings: Settings) -> tuple[Mailer, ...]:
    """One per connection to the relay; a maildir needs one writer."""
    mail = settings.mail
    if mail.transport is MailTransport.FILE and mail.directory is not None:
        return (MaildirMailer(mail.directory),)
    if mail.host is None:
        raise SettingsError(("DATARECS_MAIL__HOST is missing",))
    access = RelayAccess(
        host=mail.host,
        port=mail.port,
        security=mail.security,
        envelope_from=mail.envelope_from or _sender(settings),
        ehlo_name=mail.ehlo_name or urlsplit(_base_url(settings)).hostname,
        username=mail.username,
        password=mail.password.get_secret_value() if mail.password else None,
        ca_file=mail.ca_file,
    )
    limits = SmtpLimits(
        connect=mail.connect_timeout,
        command=mail.command_timeout,
        data=mail.data_timeout,
        total=mail.total_timeout,
    )
    return tuple(SmtpMailer(access, limits=limits) for _ in range(mail.connections))


def _access(settings: Settings) -> BrokerAccess:
    kafka = settings.kafka
    return BrokerAccess(
        bootstrap=",".join(kafka.bootstrap),
        username=kafka.username,
        password=kafka.password.get_secret_value(),
        security=kafka.protocol(settings.profile),
        ca_file=None if kafka.ca_file is None else str(kafka.ca_file),
    )
