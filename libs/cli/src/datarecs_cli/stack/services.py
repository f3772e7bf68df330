"""The services of the local platform as data: a new service is one line of `SERVICES`.

Each service has its own database role, its own broker principal if it uses Kafka, and the settings
of the deployment page; it reads secrets from files.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM
from urllib.parse import quote, urlsplit, urlunsplit

from datarecs_cli.stack import health, kafka
from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.part import Part
from datarecs_cli.stack.process import Command
from datarecs_core.access.references import LOCALLY_FREE, SecretPurpose, parse_use

RELAY_ROLE = "datarecs_relay"
RELAY_PRINCIPAL = "relay"
KEK_ID = "local-1"
FIRST_TENANT_LABEL = "DEFAULT"
"""Prefix of names in `env:` references: DATARECS_CONN_DEFAULT_…"""
HANDED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables of the environment, besides settings, that every program needs."""
COMMON = frozenset({"PROFILE", "BASE_URL", "LOG", "SIDE", "OTEL", "LIVE", "SECRETS_DIR"})
"""Settings of every service."""
SECRETS_OF_TENANTS = "DATARECS_CONN_"
USES = "DATARECS_SECRETS__USES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    name: str
    argv: tuple[str, ...]
    side_port: int
    """Default side port, for /livez /startupz /readyz /metrics."""
    role: str
    """Database role."""
    principal: str | None = None
    """Broker principal; None for services without Kafka."""
    sections: frozenset[str] = frozenset()
    """Settings that it reads besides COMMON, its database login and its broker principal."""
    names: frozenset[str] = frozenset()
    """Single settings from sections of other services."""
    purposes: frozenset[SecretPurpose] = frozenset()
    """Purposes for which it sends secrets of tenants; it gets no variable of other purposes."""
    hosts_relay: bool = False
    needs_java: bool = False
    stop_limit_s: float = 25
    """Limit from SIGTERM to its end."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of this service alone; `{data}`, `{project}`, `{api_port}` and `{tenant}`, the id of
    tenant `default`, are filled in. The worker's drain is short of the 25 s that `down` waits."""

    @property
    def side_port_name(self) -> str:
        return f"{self.name} side"


def _module(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name)


API_PORT = 8080
RECIPIENT_DOMAINS = "DATARECS_MAIL__RECIPIENT_DOMAINS"
DEMO_DOMAINS = '{"{tenant}": ["demo.localhost"]}'
DEMO_SENDER = "datarecs@demo.localhost"
WAITING_RUNS: Mapping[str, str] = {
    "DATARECS_LIMITS__WAITING_RUNS_PER_JOB": "10000",
    "DATARECS_LIMITS__WAITING_RUNS_PER_TENANT": "10000",
}
UNHINDERED: Mapping[str, str] = {
    "DATARECS_API__CONNECTIONS_PER_ADDRESS": "2000",
    "DATARECS_LIMITS__REQUESTS_PER_MINUTE": "100000",
    "DATARECS_LIMITS__TENANT_REQUESTS_PER_MINUTE": "100000",
    "DATARECS_LIMITS__WRITES_PER_MINUTE": "100000",
    **WAITING_RUNS,
}
"""Limits of core-api on loopback, where one person is every client, so that load scripts can run.
Failed sign-ins, new keys and objects have the limits of a server."""
SERVICES: tuple[Service, ...] = (
    Service(
        name="core-api",
        argv=_module("datarecs_core_api"),
        side_port=9091,
        role="datarecs_api",
        sections=frozenset(
            {
                "API",
                "BLOB",
                "EGRESS",
                "LAUNCHER",
                "LIMITS",
                "LINKS",
                "MAIL_REPORTS",
                "SECRETS",
                "WORKER",
            }
        ),
        names=frozenset({"DATARECS_MAIL__FROM", RECIPIENT_DOMAINS}),
        settings={
            "DATARECS_API__PORT": "{api_port}",
            "DATARECS_MAIL__FROM": DEMO_SENDER,
            RECIPIENT_DOMAINS: DEMO_DOMAINS,
            **UNHINDERED,
        },
    ),
    Service(
        name="run-controller",
        argv=_module("datarecs_run_controller"),
        side_port=9092,
        role="datarecs_controller",
        sections=frozenset({"EVENTING", "LAUNCHER", "OUTBOX", "QUEUE"}),
        principal="run-controller",
        hosts_relay=True,
    ),
    Service(
        name="reconciliation-worker",
        argv=_module("datarecs_reconciliation_worker"),
        side_port=9093,
        role="datarecs_worker_run",
        sections=frozenset(
            {"BLOB", "EGRESS", "FILES", "JAVA", "QUEUE", "SECRETS", "SPARK", "WORKER"}
        ),
        purposes=LOCALLY_FREE,
        needs_java=True,
        settings={
            "DATARECS_WORKER__SCRATCH_DIR": "{data}/scratch",
            "DATARECS_WORKER__DRAIN_S": "10",
            "DATARECS_FILES__ROOTS": "{project}",
            "DATARECS_FILES__OWNER": "{tenant}",
            "DATARECS_FILES__EXCLUDED": "{data}",
        },
    ),
    Service(
        name="email-notifier",
        argv=_module("datarecs_email_notifier"),
        side_port=9094,
        role="datarecs_mail",
        sections=frozenset({"EVENTING", "LINKS", "MAIL"}),
        principal="email-notifier",
        settings={
            "DATARECS_MAIL__TRANSPORT": "file",
            "DATARECS_MAIL__DIRECTORY": "{data}/mail",
            "DATARECS_MAIL__FROM": DEMO_SENDER,
            RECIPIENT_DOMAINS: DEMO_DOMAINS,
        },
    ),
    Service(
        name="resource-controller",
        argv=_module("datarecs_resource_controller"),
        side_port=9096,
        role="datarecs_resources",
        sections=frozenset({"BLOB", "LAUNCHER"}),
        names=frozenset(WAITING_RUNS),
        settings=WAITING_RUNS,
    ),
    Service(
        name="capture-worker",
        argv=_module("datarecs_capture_worker"),
        side_port=9097,
        role="datarecs_capture",
        sections=frozenset({"BLOB", "EGRESS", "EXECUTOR", "FILES"}),
        names=frozenset(
            {
                "DATARECS_WORKER__MAX_PARALLELISM",
                "DATARECS_WORKER__CHILD_MEMORY_MB",
                "DATARECS_WORKER__LANES",
                "DATARECS_WORKER__EXECUTION_CLASSES",
                # References alone: it neither seals nor opens.
                "DATARECS_SECRETS__FILE_ROOT",
                "DATARECS_SECRETS__TENANT_NAMES",
                "DATARECS_SECRETS__USES",
            }
        ),
        purposes=LOCALLY_FREE,
        stop_limit_s=55,
        settings={
            "DATARECS_WORKER__SCRATCH_DIR": "{data}/captures",
            "DATARECS_FILES__ROOTS": "{project}",
            "DATARECS_FILES__OWNER": "{tenant}",
            "DATARECS_FILES__EXCLUDED": "{data}",
        },
    ),
    Service(
        name="iceberg-sink",
        argv=_module("datarecs_iceberg_sink"),
        side_port=9098,
        role="datarecs_sink",
        sections=frozenset({"EGRESS", "FILES", "SINK"}),
        names=frozenset(
            {
                # References alone: it neither seals nor opens.
                "DATARECS_SECRETS__FILE_ROOT",
                "DATARECS_SECRETS__TENANT_NAMES",
                "DATARECS_SECRETS__USES",
            }
        ),
        purposes=LOCALLY_FREE,
        stop_limit_s=55,
        settings={
            "DATARECS_SINK__SCRATCH_DIR": "{data}/sinks",
            "DATARECS_FILES__ROOTS": "{project}",
            "DATARECS_FILES__OWNER": "{tenant}",
            "DATARECS_FILES__EXCLUDED": "{data}",
        },
    ),
    Service(
        name="webhook-service",
        argv=_module("datarecs_webhook_service"),
        side_port=9095,
        role="datarecs_webhook",
        sections=frozenset({"EGRESS", "EVENTING", "SECRETS", "WEBHOOK"}),
        purposes=frozenset(SecretPurpose) - LOCALLY_FREE,
        principal="webhook-service",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Addresses and paths of the started servers, for every service."""

    layout: Layout
    secrets: LocalSecrets
    environment: Mapping[str, str]
    """Environment of this process; a setting in it overrides `Service.settings`."""
    ports: Mapping[str, int]
    database_url: str
    """Database URL of any role; each service gets it with its own role."""
    bootstrap: str
    """Address of the broker; empty without a broker."""
    broker_password: str | None = field(default=None, repr=False)
    """Password of the administrator of the stack's broker; None for another broker."""
    security: str = "SASL_PLAINTEXT"
    tenant_id: str
    """Id of tenant `default`."""
    project: Path
    """The start folder of `up`: its `datarecs.toml` is read, its files may be sources."""
    java_home: Path | None = None
    java_options: str = ""
    """Options of Spark's Java process: those for its start, and those of the user."""
    log_format: str = "json"

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['api']}"


def part_of(service: Service, around: Surroundings) -> Part:
    """The service as a part of the stack; a worker releases its work in time."""
    side_port = around.ports[service.side_port_name]
    return Part(
        name=service.name,
        command=Command(
            argv=service.argv,
            environment=environment_of(service, around),
            log=around.layout.log(service.name),
            directory=around.project,
        ),
        probe=lambda: health.silence(side_port),
        stop_signal=SIGTERM,
        stop_limit_s=service.stop_limit_s,
        may_start=lambda: _group_is_free(service, around),
    )


def _group_is_free(service: Service, around: Surroundings) -> bool:
    """Remove the previous process of a service from its consumer group; False without a broker.

    A killed process stays a member for 45 s; in this time the new process would get no partitions.
    """
    if service.principal is None or around.broker_password is None:
        return True
    from datarecs_core.errors.messaging import LogUnavailableError
    from datarecs_kafka.groups import remove_members

    try:
        remove_members(
            around.bootstrap,
            username=kafka.ADMIN,
            password=around.broker_password,
            group=service.principal,
        )
    except LogUnavailableError:
        return False
    return True


def environment_of(service: Service, around: Surroundings) -> dict[str, str]:
    """The whole environment of a service's process, without secrets of the stack."""
    defaults = {name: _filled(value, around) for name, value in service.settings.items()}
    return (
        _of_its_sections(service, _shared(around))
        | defaults
        | _of_its_sections(service, around.environment)
        | {name: around.environment[name] for name in HANDED_ON if name in around.environment}
        | _secrets_of_tenants(service, around.environment)
        | (_java(around) if service.needs_java else {})
        | _database(service, around)
        | _broker(service, around)
        | {"DATARECS_SIDE__PORT": str(around.ports[service.side_port_name])}
    )


def _of_its_sections(service: Service, settings: Mapping[str, str]) -> dict[str, str]:
    """Only the settings that the service reads, because others may have secrets."""
    read = COMMON | service.sections
    return {
        name: value
        for name, value in settings.items()
        if name in service.names or (name.startswith("DATARECS_") and _section(name) in read)
    }


def _section(name: str) -> str:
    """`MAIL` of DATARECS_MAIL__HOST; DATARECS_BASE_URL has no section."""
    plain = name.removeprefix("DATARECS_")
    return plain.partition("__")[0] if "__" in plain else plain.removesuffix("_FILE")


def _secrets_of_tenants(service: Service, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that tenants refer to, for the services that send them.

    A variable that the operator bound goes to the services of its purposes. Without a binding, in
    profile `local`, it may be of a database or a catalog and goes to the services that open those.
    """
    uses = json.loads(environment.get(USES, "{}"))
    secrets = {}
    for name, value in environment.items():
        if name.startswith(SECRETS_OF_TENANTS):
            texts = uses.get(f"env:{name}")
            bound = LOCALLY_FREE if texts is None else {parse_use(text).purpose for text in texts}
            if not bound.isdisjoint(service.purposes):
                secrets[name] = value
    return secrets


def _filled(value: str, around: Surroundings) -> str:
    known = {
        "{data}": str(around.layout.root),
        "{project}": str(around.project),
        "{api_port}": str(around.ports["api"]),
        "{tenant}": around.tenant_id,
    }
    for word, meaning in known.items():
        value = value.replace(word, meaning)
    return value


def _shared(around: Surroundings) -> dict[str, str]:
    return {
        "DATARECS_PROFILE": "local",
        "DATARECS_BASE_URL": around.base_url,
        "DATARECS_BLOB__URL": around.layout.blobs.as_uri(),
        "DATARECS_SECRETS__KEK_FILE": str(around.secrets.kek()),
        "DATARECS_SECRETS__KEK_ID": KEK_ID,
        "DATARECS_LINKS__KEY_FILE": str(around.secrets.password_file("link-key")),
        "DATARECS_SECRETS__FILE_ROOT": str(around.layout.tenant_secrets),
        "DATARECS_SECRETS__TENANT_NAMES": json.dumps({around.tenant_id: FIRST_TENANT_LABEL}),
        "DATARECS_LOG__FORMAT": around.log_format,
    }


def _java(around: Surroundings) -> dict[str, str]:
    if around.java_home is None:
        return {}
    return {
        "JAVA_HOME": str(around.java_home),
        "DATARECS_JAVA__HOME": str(around.java_home),
        "DATARECS_JAVA__OPTIONS": around.java_options,
    }


def _database(service: Service, around: Surroundings) -> dict[str, str]:
    settings = {"DATARECS_DATABASE__URL_FILE": _url_file(service.role, around)}
    if service.hosts_relay:
        settings["DATARECS_DATABASE__RELAY__URL_FILE"] = _url_file(RELAY_ROLE, around)
    return settings


def _url_file(role: str, around: Surroundings) -> str:
    url = as_role(around.database_url, role, around.secrets.password(role))
    return str(around.secrets.put(f"{role}.url", url))


def as_role(url: str, role: str, password: str) -> str:
    """The URL of the same database with another login."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    who = f"{quote(role, safe='')}:{quote(password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{who}@{place}"))


def _broker(service: Service, around: Surroundings) -> dict[str, str]:
    if service.principal is None:
        return {}
    settings = {
        "DATARECS_KAFKA__BOOTSTRAP": around.bootstrap,
        "DATARECS_KAFKA__SECURITY": around.security,
        "DATARECS_KAFKA__USERNAME": service.principal,
        "DATARECS_KAFKA__PASSWORD_FILE": _password_file(service.principal, around),
    }
    if service.hosts_relay:
        settings |= {
            "DATARECS_KAFKA__RELAY__USERNAME": RELAY_PRINCIPAL,
            "DATARECS_KAFKA__RELAY__PASSWORD_FILE": _password_file(RELAY_PRINCIPAL, around),
        }
    return settings


def _password_file(principal: str, around: Surroundings) -> str:
    name = principal_secret(principal)
    around.secrets.password(name)
    return str(around.secrets.path(name))


def principal_secret(principal: str) -> str:
    """The name under which the password of a broker principal is stored."""
    return f"kafka-{principal}"
