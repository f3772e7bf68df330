"""The sections of the configuration: each setting with its meaning, its unit and its default.

Services combine the sections they need; docs, chart and the check for unknown names read all of
them. `DATARECS_KAFKA__SECURITY` is field `security` of section `kafka`.
"""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from datarecs_core.access.references import parse_use
from datarecs_core.egress.addresses import NAT64_LENGTHS, Profile
from datarecs_runtime.values import (
    AsTable,
    Duration,
    Names,
    Networks,
    Networks6,
    Paths,
    Ports,
    Texts,
)

PortNumber = Annotated[int, Field(ge=1, le=65535)]
_HEAP = r"^[1-9][0-9]*[mg]$"
_KEY_ID = r"^[A-Za-z0-9._-]{1,64}$"
TenantLabel = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9]{0,31}$")]


class Section(BaseModel):
    """Frozen; an unknown name is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )


class RelayDatabase(Section):
    url: SecretStr | None = None
    """URL of the relay's database login, the only one that may mark outbox rows as sent. Only the
    run-controller needs it; no default, because it is a credential."""


class CaptureDatabase(Section):
    url: SecretStr | None = None
    """URL of the database login `datarecs_capture` in core-api, for the control API of remote
    workers; only with DATARECS_WORKER__API__ENABLED. No default, because it is a credential."""


class Database(Section):
    url: SecretStr
    """URL of the platform database with the login of this service, `postgresql://…`. No default,
    because it is a credential."""
    pool_size: int = Field(default=10, ge=1, le=100)
    """Connections per process. 10 serves the loops of one service and leaves room for many
    replicas below the server's usual 100 to 200."""
    statement_timeout_s: int = Field(default=30, ge=1, le=3600)
    """Seconds that one statement may take. Statements of the services are indexed and short; 30 s
    ends others before they delay the rest."""
    relay: RelayDatabase = RelayDatabase()
    """The login of the relay."""
    capture: CaptureDatabase = CaptureDatabase()
    """The login of the control API."""


class KafkaSecurity(StrEnum):
    SASL_SSL = "SASL_SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"


class RelayKafka(Section):
    username: str = ""
    """Principal of the relay, the only one that may write event topics. Empty: no relay."""
    password: SecretStr = SecretStr("")
    """Its password; no default, because it is a credential."""


class Kafka(Section):
    bootstrap: Texts = ()
    """Brokers as `host:port`, separated by commas. Empty: the service uses no broker."""
    security: KafkaSecurity | None = None
    """SASL_SSL or SASL_PLAINTEXT, both with SCRAM-SHA-512. Not set: SASL_SSL, or
    SASL_PLAINTEXT in profile `local`, where everything stays on the loopback."""
    username: str = ""
    """Principal of this service; access rules are by principal, so no two share one."""
    password: SecretStr = SecretStr("")
    """Its password; no default, because it is a credential."""
    ca_file: Path | None = None
    """Certificate authority of the brokers, PEM. Not set: the system's store."""
    relay: RelayKafka = RelayKafka()
    """The principal of the relay, in the run-controller."""
    home: Path | None = None
    """An unpacked Apache Kafka 4 for `datarecs up`, instead of fetched jars."""

    def protocol(self, profile: Profile) -> KafkaSecurity:
        """The protocol to use, with the default of the profile."""
        local = KafkaSecurity.SASL_PLAINTEXT if profile is Profile.LOCAL else KafkaSecurity.SASL_SSL
        return self.security or local


class SecretReferences(Section):
    """How references to the secrets of tenants are resolved."""

    file_root: Path | None = None
    """Folder of the tenants' secret files. A `file:` reference of a tenant is `file:` and the
    absolute path of a file below `<file_root>/<tenant id>/`. Not set: `file:` references are
    refused."""
    tenant_names: Annotated[dict[UUID, TenantLabel], AsTable] = {}
    """JSON object tenant id -> label for `env:` references, `DATARECS_CONN_<LABEL>_…`. The label of
    any other tenant is its id in 32 upper-case hexadecimal digits."""
    uses: Annotated[dict[str, Texts], AsTable] = {}
    """JSON object secret reference -> targets to which it may be sent, such as
    `{"env:DATARECS_CONN_ACME_LEDGER": ["postgres:ledger.example.com"]}`. Purposes are `postgres`,
    `iceberg`, `object-store`, `kafka`, `webhook` and `signing`, each with a host, and `url` without
    one.
    Empty: no reference may be sent anywhere, except in profile `local` to databases, catalogs and
    object stores. Use the same value in
    core-api, which checks references when they are written, and in the services that send them."""

    @field_validator("uses")
    @classmethod
    def _uses_are_purpose_and_host(cls, uses: dict[str, Texts]) -> dict[str, Texts]:
        for texts in uses.values():
            for text in texts:
                parse_use(text)
        return uses


class Secrets(SecretReferences):
    """Of a service that also seals, opens or derives."""

    kek: SecretStr | None = None
    """Key-encryption key: 32 random bytes in base64, usually set with DATARECS_SECRETS__KEK_FILE.
    Not set: stored secrets can neither be sealed nor opened."""
    kek_id: str = Field(default="kek-1", pattern=_KEY_ID)
    """Name of that key, stored with every secret that it seals, to distinguish it from a later
    key."""
    previous_kek: SecretStr | None = None
    """The key before it, usually DATARECS_SECRETS__PREVIOUS_KEK_FILE, during a rotation: it opens
    what it has sealed, until `datarecs admin rotate-kek` has sealed everything again."""
    previous_kek_id: str | None = Field(default=None, pattern=_KEY_ID)
    """Its name, needed with `previous_kek`."""
    id_key: SecretStr | None = None
    """Key from which ids of differences and cursors are computed, usually
    DATARECS_SECRETS__ID_KEY_FILE. Not set: the key-encryption key. After a rotation set it to the
    first key-encryption key, so that ids of differences remain the same."""

    @model_validator(mode="after")
    def _previous_key_has_a_different_name(self) -> Self:
        if (self.previous_kek is None) is not (self.previous_kek_id is None):
            raise ValueError("set both or none of `previous_kek` and `previous_kek_id`")
        if self.previous_kek_id == self.kek_id:
            raise ValueError("`previous_kek_id` equals `kek_id`; the new key needs a new name")
        return self


class AllowedCidrs(Section):
    webhook: Networks = ()
    """Private, shared or benchmarking networks that webhooks may reach. Empty, because receivers
    are on the internet."""
    connection: Networks = ()
    """The same for connections to sources; they may always reach private and shared networks."""


class Egress(Section):
    allowed_cidrs: AllowedCidrs = AllowedCidrs()
    """Networks allowed by the operator, by purpose; `denied_cidrs` overrides them."""
    denied_cidrs: Networks = ()
    """Addresses of the platform: database, broker, blob store, cluster networks. Empty:
    connections reach every address that no other rule refuses."""
    allowed_ports: Ports = frozenset()
    """Ports for webhooks besides 443 and 8443. Empty, because other ports are rarely HTTPS."""
    allowed_hosts: Names = frozenset()
    """Single-label and internal names that webhooks may use. Empty, because such names resolve to
    internal addresses."""
    nat64_prefixes: Networks6 = ()
    """NAT64 prefixes of this network; the embedded IPv4 address is checked. Empty: none allowed."""
    proxy_url: str | None = Field(default=None, pattern=r"^http://[^/]+/?$")
    """The proxy for outgoing HTTP, `http://host:port`; it gets CONNECT requests for the checked
    address. Not set: direct. HTTP(S)_PROXY of the environment is ignored."""

    @field_validator("nat64_prefixes")
    @classmethod
    def _lengths_of_rfc_6052(cls, prefixes: Networks6) -> Networks6:
        if any(prefix.prefixlen not in NAT64_LENGTHS for prefix in prefixes):
            raise ValueError("a NAT64 prefix is 32, 40, 48, 56, 64 or 96 bits long")
        return prefixes


class Files(Section):
    roots: Paths = ()
    """Folders with the files of file sources, mounted read-only. A tenant reads only
    `<root>/<tenant id>/`, unless `owner` is set. Empty: no file sources, except in profile
    `local`, where it is the project directory."""
    owner: UUID | None = None
    """Id of the one tenant that reads all files below the roots; other tenants then read none.
    `datarecs up` sets it to tenant `default`. Not set: every tenant has a separate folder."""
    excluded: Paths = ()
    """Folders and files that no source reads, for any roots. `datarecs up` sets its data
    directory. The folders of `blob`, `worker.scratch_dir` and `secrets.file_root`, files named by
    settings, `datarecs.toml` and every folder named `.datarecs` are always excluded."""


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


class Log(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged. `info` is one line per change of state; `debug` is for
    development."""
    format: LogFormat = LogFormat.JSON
    """`json` for machines, one object per line, also for output of children and libraries;
    `console` for people during development."""


class Side(Section):
    host: str = "127.0.0.1"
    """Address of the side port with /livez, /startupz, /readyz and /metrics. Loopback, because it
    needs no login; in a container set 0.0.0.0."""
    port: int = Field(default=9090, ge=0, le=65535)
    """Its port; 0 takes a free one. 9090 is what scrapers expect in containers."""


class Otel(Section):
    endpoint: str | None = Field(default=None, pattern=r"^https?://[^/?#]+(/[^?#]*)?$")
    """Collector of traces, OTLP over HTTP, such as `http://collector:4318`; needs the extra `otlp`
    of datarecs. Not set: no spans; ids connect logs and events."""


class Worker(Section):
    max_parallelism: int = Field(default=1, ge=1, le=64)
    """Runs at the same time in one worker; each has its own Spark child. 1, because one child may
    use all cores. In a capture-worker items of captures; there 0 means upkeep alone."""
    drain_s: int = Field(default=600, ge=0, le=86400)
    """Seconds that running runs have to end after SIGTERM, before they are stopped and released;
    most runs take less than ten minutes."""
    scratch_dir: Path = Path("/tmp/datarecs")  # noqa: S108  only a default; `up` and images set it
    """Folder for extracts and spill of one worker; a second worker waits. Files are removed at the
    end of a run, with a replaced child, and, after a kill, at the next start."""
    child_memory_mb: int = Field(default=4096, ge=512)
    """Resident memory, in MiB, of a child and its processes; above it the run ends as
    OUT_OF_MEMORY. A child with a 2 GiB heap has needed nearly twice this size."""
    max_spill_mb: int = Field(default=20_480, ge=1, le=1024 * 1024)
    """Most disk, in MiB, for intermediate data of a run: a job that declares more as
    `execution.spill` gets this. 20 GiB, as jobs have by default; keep it below the free disk of
    `worker.scratch_dir` divided by `max_parallelism`."""
    recycle_after: int = Field(default=50, ge=1, le=10_000)
    """Runs after which a child is replaced, so that small leaks of the engine never add up."""


class Queue(Section):
    lease_ttl: Duration = Field(
        default=timedelta(seconds=60), ge=timedelta(seconds=10), le=timedelta(hours=1)
    )
    """Time until a lease expires after its last renewal (renewed at a third of it). Longer than any
    pause of the host, because after it a second worker starts the same run. 10 s to 1 h."""


class Spark(Section):
    mode: Literal["local", "standalone"] | None = None
    """Place of executors: `local` in the worker's child, `standalone` on a cluster. Not set: as in
    the master's URL; a value must agree with this URL."""
    master: str = Field(
        default="local[*]",
        pattern=r"^(local(\[(\*|[1-9][0-9]*)\])?|spark://[^/@,\s]+:[0-9]+(,[^/@,\s]+:[0-9]+)*)$",
    )
    """Spark's master URL: `local[*]` uses all cores of the machine, `local[4]` four,
    `spark://host:7077` those of a standalone cluster."""
    driver_memory: str = Field(default="2g", pattern=_HEAP)
    """Heap of the driver, which in local mode is also the executor. 2g is enough for tens of
    millions of rows, with spilling."""
    secret: SecretStr | None = None
    """`spark.authenticate.secret` of the cluster, as set by its operator; required for a cluster.
    No default, because it is a credential."""
    driver_host: str | None = None
    """Address at which executors reach the worker. Not set: the machine's host name."""
    executor_memory: str = Field(default="2g", pattern=_HEAP)
    """Heap of an executor on a cluster, at least 450m. 2g, as one machine has by default."""
    max_cores: int | None = Field(default=None, ge=1)
    """Cores of the cluster for each child, which waits up to 30 s for them at its start. Not set:
    all free cores, so that a second child or worker waits until the first one ends."""
    executor_python: Path | None = None
    """The Python of executors, with the same release of datarecs. Not set: the worker's path."""

    @property
    def on_cluster(self) -> bool:
        return self.master.startswith("spark://")

    @model_validator(mode="after")
    def _cluster_is_complete(self) -> Self:
        meant = "standalone" if self.on_cluster else "local"
        if self.mode not in {None, meant}:
            raise ValueError(f"mode `{self.mode}` and master {self.master} do not agree")
        if self.on_cluster and self.secret is None:
            raise ValueError(
                "a cluster needs DATARECS_SPARK__SECRET: rows and a tenant's key are sent to its "
                "executors, and without a secret their connections are not authenticated"
            )
        return self


class Eventing(Section):
    mode: Literal["kafka", "knative"] = "kafka"
    """How events travel: `kafka`, or `knative`, through a Broker to which the relay posts and whose
    Triggers call `POST /ce` of the services. The same for all services."""
    broker_url: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    """Ingress of the Knative Broker, as its `status.address.url` says."""
    host: str = "127.0.0.1"
    """Address on which `POST /ce` listens in mode `knative`; behind network policies that admit the
    Broker alone, `0.0.0.0`."""
    port: PortNumber = 8081
    """Port of `POST /ce`."""


class Argo(Section):
    namespace: str = Field(default="", pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$")
    """Namespace of the workflows, of this installation alone: others there would be stopped as
    orphans. Not set: the namespace of the run-controller's service account."""
    creates_per_s: float = Field(default=5, gt=0, le=100)
    """Workflows created per second and run-controller, at most. Argo's controller does not scale
    out, and its own limit is 20 requests per second for everything that it does."""
    api_url: str = Field(
        default="https://kubernetes.default.svc", pattern=r"^https://[^/@\s]+(:[0-9]+)?$"
    )
    """The Kubernetes API; the default is its address inside of the cluster."""
    account_dir: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    """Folder with `token`, `ca.crt` and `namespace`, as Kubernetes mounts it into a pod. The files
    are read again, because the cluster replaces them."""


class Launcher(Section):
    backend: Literal["queue", "argo"] = "queue"
    """Backend of new runs: `queue`, the durable queue in the platform database, which workers
    serve, or `argo`, one workflow for each run, in a Kubernetes cluster with Argo Workflows. Set it
    for core-api and run-controller alike; a run stays with its backend."""
    argo: Argo = Argo()
    """Where workflows are created."""


class Outbox(Section):
    shards: int = Field(default=16, ge=1, le=256)
    """Shares of the outbox that relays divide among them; set more than the number of replicas.
    Another number takes effect when no event waits to be sent, which is checked every minute."""
    retention_days: int = Field(default=30, ge=1, le=38)
    """Days that sent rows are kept, longer than any topic's retention, so that lost topics can be
    filled again. 38 at most, a week less than the 45 days for which the inbox keeps event ids."""


class Live(Section):
    notify: bool = True
    """Wake live views and loops by NOTIFY. Set it off behind a transaction pooler, which cannot
    LISTEN; polling then finds all changes within a second."""


class MailTransport(StrEnum):
    SMTP = "smtp"
    FILE = "file"


class MailSecurity(StrEnum):
    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class Mail(Section):
    transport: MailTransport = MailTransport.SMTP
    """`smtp`, or `file`: a maildir, as in `datarecs up` without a relay."""
    directory: Path | None = None
    """The maildir of transport `file`."""
    host: str | None = None
    """The SMTP relay, set by the operator: hosts of tenants could be internal addresses."""
    port: PortNumber = 587
    """Its port; 587 is submission with STARTTLS, 465 is for `tls`."""
    security: MailSecurity = MailSecurity.STARTTLS
    """`starttls` (required, no fallback), `tls`, or `none`, which is only for a relay on
    loopback."""
    username: str | None = None
    """Login at the relay; not set: no login. Never sent before TLS."""
    password: SecretStr | None = None
    """Its password, or DATARECS_MAIL__PASSWORD_FILE."""
    ca_file: Path | None = None
    """Certificate authority of the relay, PEM. Not set: the system's store; the check cannot be
    switched off."""
    ehlo_name: str | None = None
    """Name in EHLO; not set: the host of the base URL."""
    sender: str | None = Field(default=None, alias="from")
    """Address in the From header of every mail."""
    envelope_from: str | None = None
    """Address in MAIL FROM; not set: the address in From."""
    mail_domain: str | None = None
    """Domain of Message-IDs and List-Id; not set: the domain of From."""
    connect_timeout: Duration = timedelta(seconds=10)
    """Time limit to connect; a relay that needs longer is down."""
    command_timeout: Duration = timedelta(seconds=30)
    """Time limit of one SMTP command."""
    data_timeout: Duration = timedelta(seconds=120)
    """Time limit of the reply after DATA, because relays scan the mail."""
    total_timeout: Duration = timedelta(seconds=180)
    """Time limit of one mail in total; below the lease of 240 s."""
    connections: int = Field(default=4, ge=1, le=64)
    """Connections to the relay per replica; many relays refuse more."""
    relay_rate: float = Field(default=10.0, gt=0, le=10_000)
    """Mails per second to the relay from one replica, at most those of one second at once; further
    mails wait in the queue. Transport `file` has no rate."""
    tenant_rate: int = Field(default=1000, ge=1)
    """Mails per hour of one tenant; further mails wait and are combined into digests."""
    recipient_rate: int = Field(default=30, ge=1)
    """Mails per hour to one recipient; people do not read more."""
    on_unknown: Literal["resend_once", "stop"] = "resend_once"
    """What to do if it is unknown whether the relay accepted a mail. A lost alert costs more than
    a second copy with the same Message-ID."""
    recipient_domains: Annotated[dict[UUID, tuple[str, ...]], AsTable] = {}
    """JSON object tenant id -> domains of the addresses that may get mails. Empty: no address gets
    mails."""

    @model_validator(mode="after")
    def _transport_is_complete(self) -> Self:
        if self.transport is MailTransport.FILE and self.directory is None:
            raise ValueError("transport `file` needs DATARECS_MAIL__DIRECTORY")
        if self.transport is MailTransport.SMTP and (self.host is None or self.sender is None):
            raise ValueError("transport `smtp` needs DATARECS_MAIL__HOST and DATARECS_MAIL__FROM")
        loopback = self.host in {"localhost", "127.0.0.1", "::1"}
        if self.host and self.security is MailSecurity.NONE and not loopback:
            raise ValueError("security `none` is only for a relay on loopback")
        return self


class MailPreview(Section):
    """The part of `Mail` that a preview needs; only the email-notifier has the rest."""

    model_config = ConfigDict(extra="ignore")

    sender: str | None = Field(default=None, alias="from")
    """Address in From."""
    mail_domain: str | None = None
    """Domain of Message-IDs."""
    recipient_domains: Annotated[dict[UUID, tuple[str, ...]], AsTable] = {}
    """JSON object tenant id -> domains of addresses that get mails."""


class Links(Section):
    key: SecretStr | None = Field(default=None, min_length=32)
    """Key that signs links in mails: 32 random characters or more, usually in a file named by
    DATARECS_LINKS__KEY_FILE; the same in core-api and email-notifier. Not set: mails link to the
    API, which needs a key, and have no link to unsubscribe."""
    previous_key: SecretStr | None = Field(default=None, min_length=32)
    """The previous key; its links still work."""
    report_days: int = Field(default=7, ge=1, le=7)
    """Days that a link to a report works. Anyone with the link can read the report, so it is
    short."""


class Webhook(Section):
    origin: str | None = None
    """Origin in the handshake; not set: the host of the base URL."""
    max_in_flight: int = Field(default=256, ge=1, le=4096)
    """Concurrent attempts per replica; 256 need less than 250 MB."""
    claim_batch: int = Field(default=50, ge=1, le=1000)
    """Deliveries of one endpoint in one lease."""
    retention_days: int = Field(default=30, ge=22, le=400)
    """Days that deliveries and attempts are kept: replay reaches back 14 days and a delivery lives
    7, so 22 at least."""


class Java(Section):
    home: Path | None = None
    """Home of the Java (17 to 23) for Spark and Kafka. Not set: it is found automatically."""
    options: str = ""
    """Further options of the Java process that runs Spark, as on a command line."""


class Jars(Section):
    mirror: str | None = None
    """Maven mirror for the broker's jars. Not set: Maven Central."""


class Up(Section):
    ready_timeout_s: Annotated[float, Field(ge=1, le=86_400)] | None = None
    """Seconds that the start of a part of `datarecs up` may take without progress: no new log
    lines, the same answer, almost no processor time. Not set: 120. A part that works without
    becoming ready has ten times as long."""
