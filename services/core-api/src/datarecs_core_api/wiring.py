"""core-api, joined top to bottom: REST and live views over the platform database."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from datarecs_application.capturing.control import LocalControl
from datarecs_application.notifications import MailPolicy, Planning
from datarecs_application.observing import ObservedUnit
from datarecs_application.ports.outside import Ids, Metrics
from datarecs_application.previewing import Previewing
from datarecs_application.stats import stats_loop
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import SettingsError
from datarecs_core.notifications.address import ascii_domain
from datarecs_core.notifications.rule import NotificationRule
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import Backend
from datarecs_core.values import TenantId
from datarecs_core.webhooks.signature import secret_key
from datarecs_core_api.app import Service
from datarecs_core_api.app import build as build_app
from datarecs_core_api.auth import Authenticator
from datarecs_core_api.buckets import Rate
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.feed import Feed
from datarecs_core_api.following import Following
from datarecs_core_api.limits import MINUTE_S, RequestLimits
from datarecs_core_api.pagination import Cursors
from datarecs_core_api.peers import Peers
from datarecs_core_api.places import DatedPlaces, Places
from datarecs_core_api.run_updates import RunUpdates
from datarecs_core_api.serving import Serving
from datarecs_core_api.settings import Settings
from datarecs_core_api.sign_in import FailedSignIns
from datarecs_core_api.tenant_live import RunEventForm
from datarecs_core_api.watching import ChangeForm
from datarecs_core_api.worker_door import WorkerDoor
from datarecs_core_api.worker_tokens import TokenVerifier
from datarecs_events.catalogue import Service as Name
from datarecs_outbound.issuer import Issuer, plain_client
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.server_checks import start_checks
from datarecs_postgres.session import RUN_CHANNEL, Woken, concerns
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_reports.mail import MailTemplates
from datarecs_runtime.api_sections import Api, MailReports
from datarecs_runtime.clock import SystemClock, UuidV7Ids, random_bytes, random_fraction
from datarecs_runtime.derived_keys import derived_key
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.secrets import TenantSecrets
from datarecs_runtime.sections import Links, MailPreview
from datarecs_runtime.tracing import tracing_of
from datarecs_specs.documents import StoredSpecs as StoredDeclarations
from datarecs_specs.documents import decode_stored
from datarecs_storage.opening import open_blob_stores

ISSUER_CONNECT = timedelta(seconds=10)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def build(settings: Settings) -> Process:
    """Everything this process runs; starts nothing."""
    if settings.profile is Profile.LOCAL:
        _refuse_server_address(settings.api)
    url = settings.database.url.get_secret_value()
    database = Database(
        url,
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application=Name.CORE_API,
    )
    metrics = PrometheusMetrics()
    ports = _ports(settings, database, metrics)
    remote = _control_api(settings, ports, metrics)
    databases = [database] if remote is None else [database, remote.database]
    ready_when = {"database": database.ready, "blobs": ports.blobs.ready}
    feed, watch_feed, clock = ports.feed, ports.watch_feed, ports.clock
    tracing = tracing_of(settings.otel, Name.CORE_API)
    observed = ObservedUnit(unit=ports.unit, metrics=metrics, clock=clock, tracing=tracing)
    ports = replace(ports, unit=observed)
    failures = FailedSignIns(
        unit=ports.unit,
        clock=clock,
        metrics=metrics,
        rate=Rate(quota=settings.limits.sign_in_failures_per_minute, window_s=MINUTE_S),
    )
    door = None if remote is None else remote.door
    service = Service(
        ports=ports,
        worker_door=door,
        authenticator=Authenticator(
            finder=ports.finder,
            unit=ports.unit,
            clock=clock,
            failures=failures,
            limits=RequestLimits(clock, settings.limits),
            refuse_worker=(lambda _: None) if door is None else door.refuse_elsewhere,
        ),
        metrics=metrics,
        ready_when=ready_when,
        max_body_bytes=settings.api.max_body_bytes,
        peers=Peers(settings.api.trusted_proxies),
    )
    serving = Serving(build_app(service), ports.following, settings=settings.api, metrics=metrics)

    stats = stats_loop(ports.finder, metrics.samples, instance=ports.ids.new(), clock=clock)
    return Process(
        name=Name.CORE_API,
        loops=(
            *_listening(settings, ports),
            *(feed, watch_feed, failures, stats, serving),
        ),
        wakes=(feed.wake, watch_feed.wake),
        ready_when={**ready_when, "http": serving.ready},
        start_checks=start_checks(databases, settings.profile, now=SystemClock().now),
        closing=(ports.run_updates.close, *_closing(databases, remote), tracing.close),
        side=settings.side,
        metrics=metrics,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ControlApi:
    """What the control API of remote workers runs on."""

    door: WorkerDoor
    database: Database
    issuer: Issuer


def _closing(
    databases: Sequence[Database], remote: _ControlApi | None
) -> Iterator[Callable[[], None]]:
    yield from (one.close for one in databases)
    if remote is not None:
        yield remote.issuer.close


def _control_api(settings: Settings, ports: Ports, metrics: Metrics) -> _ControlApi | None:
    """Over the login of the capture-worker, whose rights remote workers have, too."""
    login, wanted, clock = settings.database.capture.url, settings.worker.api, ports.clock
    if login is None or wanted.issuer is None:
        return None
    database = Database(
        login.get_secret_value(),
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application="control-api",
    )
    issuer = Issuer(wanted.issuer, plain_client(ISSUER_CONNECT))
    control = LocalControl(
        unit=ObservedUnit(
            unit=PostgresUnitOfWork(database, UuidV7Ids()), metrics=metrics, clock=clock
        ),
        finder=PostgresWorkFinder(database),
        blobs=ports.blobs,
        decode=StoredDeclarations(),
        ids=ports.ids,
        clock=clock,
        jitter=lambda: 0.5 + 0.5 * random_fraction(),
    )
    verifier = TokenVerifier(
        read_keys=issuer.keys, issuer=wanted.issuer, audience=wanted.audience, clock=clock
    )
    door = WorkerDoor(control=control, verifier=verifier, header=settings.worker.token_header)
    return _ControlApi(door=door, database=database, issuer=issuer)


def _listening(settings: Settings, ports: Ports) -> tuple[Listener, ...]:
    """Wakes live views as soon as something is committed; without it they only poll."""

    def wake_followers(channel: str, payload: str) -> None:
        if channel == RUN_CHANNEL:
            ports.following.wake_followers(payload)
            ports.feed.hint()
        elif concerns(payload, Woken.CHANGES):
            ports.watch_feed.hint()

    listener = Listener(settings.database.url.get_secret_value(), wake_followers)
    return (listener,) if settings.live.notify else ()


def _refuse_server_address(api: Api) -> None:
    """Profile `local` serves http on the loopback."""
    faults = []
    if api.host not in LOOPBACK:
        faults.append("DATARECS_API__HOST is not a loopback address; set DATARECS_PROFILE=server")
    if api.tls_cert_file is not None:
        faults.append(
            "DATARECS_API__TLS_CERT_FILE has no use on loopback; set DATARECS_PROFILE=server"
        )
    if faults:
        raise SettingsError(tuple(faults))


def _ports(settings: Settings, database: Database, metrics: Metrics) -> Ports:
    ids, clock, changes = UuidV7Ids(), SystemClock(), PostgresChangeFeed(database)
    places = Places(derived_key(settings.secrets, tenant=None, purpose="places"))
    watch_places = DatedPlaces(derived_key(settings.secrets, tenant=None, purpose="watch-places"))
    resource_changes = PostgresResourceFeed(database)
    secrets, queries = (
        TenantSecrets.of(settings.secrets, settings.profile),
        PostgresQueries(database),
    )
    return Ports(
        unit=PostgresUnitOfWork(database, ids),
        queries=queries,
        changes=changes,
        resource_changes=resource_changes,
        finder=PostgresWorkFinder(database),
        blobs=open_blob_stores(settings.blob.url, **settings.blob.store_options()),
        secrets=secrets,
        clock=clock,
        ids=ids,
        random_bytes=random_bytes,
        cursors=Cursors(derived_key(settings.secrets, tenant=None, purpose="cursors")),
        following=Following(metrics),
        run_updates=RunUpdates(queries),
        feed=Feed(changes, clock, metrics, form=RunEventForm(places)),
        places=places,
        watch_feed=Feed(resource_changes, clock, metrics, form=ChangeForm(watch_places, clock)),
        watch_places=watch_places,
        base_url=settings.base_url,
        profile=settings.profile,
        egress=settings.egress,
        backend=Backend(settings.launcher.backend),
        limits=settings.limits,
        link_keys=link_keys(settings.links),
        mail_report_key=_report_key(settings.mail_reports),
        previewing=previewing_of(settings.mail, base_url=settings.base_url, ids=ids),
        reference_rules=secrets.rules,
    )


def _report_key(reports: MailReports) -> bytes | None:
    return None if reports.secret is None else secret_key(reports.secret.get_secret_value())


def link_keys(links: Links) -> tuple[bytes, ...]:
    """Keys under which links are read, the current one first."""
    secrets = (links.key, links.previous_key)
    return tuple(key.get_secret_value().encode() for key in secrets if key is not None)


def previewing_of(mail: MailPreview, *, base_url: str | None, ids: Ids) -> Previewing:
    """What rules would send, with the email-notifier's settings."""
    sender = mail.sender or "datarecs@localhost"
    mail_domain = mail.mail_domain or sender.rpartition("@")[2]
    domains = {
        TenantId(tenant): frozenset(filter(None, map(ascii_domain, names)))
        for tenant, names in mail.recipient_domains.items()
    }
    planning = Planning(
        consumer=Name.EMAIL_NOTIFIER,
        specs=StoredSpecs(read_rule),
        policy=MailPolicy(mail_domain=mail_domain, domains=domains),
        ids=ids,
    )
    renderer = MailTemplates(
        sender=sender, mail_domain=mail_domain, base_url=(base_url or "").rstrip("/")
    )
    return Previewing(planning=planning, renderer=renderer)


def read_rule(spec: Mapping[str, object]) -> NotificationRule:
    """The typed spec of a stored rule."""
    rule = decode_stored(Kind.NOTIFICATION_RULE, "", spec)
    if not isinstance(rule, NotificationRule):
        raise TypeError("a stored NotificationRule was read as another kind")
    return rule
