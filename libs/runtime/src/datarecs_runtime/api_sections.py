"""The sections of core-api: its address, rates and quotas, and the secret of mail reports.

A separate module because only core-api has them.
"""

from datetime import timedelta
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from datarecs_core.webhooks.signature import secret_fault
from datarecs_runtime.sections import PortNumber, Section
from datarecs_runtime.values import Duration, Networks


class Api(Section):
    host: str = "127.0.0.1"
    """Address of REST and live views. The default is loopback; another address needs profile
    `server`."""
    port: PortNumber = 8080
    """Its port."""
    max_body_bytes: int = Field(default=1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    """Largest request body of any route, counted before it is buffered. A declaration may have
    256 KiB."""
    trusted_proxies: Networks = ()
    """Networks of the proxies in front, separated by commas. `X-Forwarded-For` is used only from
    these peers: the client is its right-most address outside of them. Empty: no proxy, the address
    of the peer is used."""
    tls_cert_file: Path | None = None
    """Certificate of the API and those between it and its authority, PEM. Set: the API itself
    serves https. Not set: http, for a proxy with TLS. A new file needs a restart."""
    tls_key_file: Path | None = None
    """Private key of the certificate, PEM, without a password."""
    max_connections: int = Field(default=2000, ge=10, le=100_000)
    """Connections of one replica; further ones are answered 503 and closed. 2000 holds all streams
    a replica allows and leaves room for requests."""
    connections_per_address: int = Field(default=200, ge=1, le=100_000)
    """Connections of one address, except trusted proxies. 200 is enough for an office behind one
    address and prevents that one machine takes all connections."""
    header_timeout: Duration = Field(
        default=timedelta(seconds=30), ge=timedelta(seconds=1), le=timedelta(minutes=5)
    )
    """Time to send all headers of a request, from the connection or the first byte; then the
    connection is closed. 30 s is enough for the slowest mobile network."""
    idle_timeout: Duration = Field(
        default=timedelta(seconds=75), ge=timedelta(seconds=1), le=timedelta(hours=1)
    )
    """How long a connection stays open between two requests. Longer than the 60 s after which
    common proxies drop theirs, so that the proxy closes first."""
    min_body_rate: int = Field(default=1024, ge=1, le=1024 * 1024)
    """Least bytes per second of a request body, in every ten seconds of its transfer; the
    connection of a slower client is closed. Waiting for the server does not count."""
    write_timeout: Duration = Field(
        default=timedelta(seconds=60), ge=timedelta(seconds=1), le=timedelta(hours=1)
    )
    """Time that a client may leave an answer unread after its buffers are full; then the connection
    is closed. 60 s is 1 KiB per second for the buffered bytes."""

    @model_validator(mode="after")
    def _certificate_has_its_key(self) -> Self:
        if (self.tls_cert_file is None) is not (self.tls_key_file is None):
            raise ValueError("set both or none of `tls_cert_file` and `tls_key_file`")
        return self


class WaitingRunLimits(Section):
    waiting_runs_per_job: int = Field(default=10, ge=1, le=1_000_000)
    """Runs of a job that wait for their start; a further trigger is answered 429, and a further
    time of a schedule starts no run."""
    waiting_runs_per_tenant: int = Field(default=200, ge=1, le=1_000_000)
    """The same for all jobs of a tenant."""


class Limits(WaitingRunLimits):
    sign_in_failures_per_minute: int = Field(default=10, ge=1, le=10_000)
    """Failed sign-ins of an address (of IPv6: its /64) that are answered 401; more are answered
    429. Valid keys of the address still pass."""
    requests_per_minute: int = Field(default=600, ge=1, le=10_000_000)
    """Requests of one key per replica, also the burst. 10 a second serves a busy program."""
    tenant_requests_per_minute: int = Field(default=3000, ge=1, le=10_000_000)
    """Requests of all keys of a tenant per replica, so that one tenant leaves room for others."""
    writes_per_minute: int = Field(default=120, ge=1, le=10_000_000)
    """Requests of one key that may change something (POST, PUT, PATCH, DELETE), per replica."""
    keys_per_hour: int = Field(default=20, ge=1, le=10_000_000)
    """New keys of one owner, per replica; enough for manual work."""
    jobs_per_tenant: int = Field(default=1000, ge=1, le=1_000_000)
    """ReconciliationJobs of a tenant; a further one is answered 429."""
    connections_per_tenant: int = Field(default=200, ge=1, le=1_000_000)
    """Connections of a tenant."""
    schedules_per_tenant: int = Field(default=1000, ge=1, le=1_000_000)
    """Schedules of a tenant."""
    endpoints_per_tenant: int = Field(default=50, ge=1, le=1_000_000)
    """WebhookEndpoints of a tenant; deliveries to each one are separate work."""
    rules_per_tenant: int = Field(default=500, ge=1, le=1_000_000)
    """NotificationRules of a tenant; each one is evaluated for each finished run."""
    retention_policies_per_tenant: int = Field(default=50, ge=1, le=1_000_000)
    """RetentionPolicies of a tenant; each one examines all runs of the tenant."""
    sinks_per_tenant: int = Field(default=50, ge=1, le=1_000_000)
    """SinkTables of a tenant; each of their tasks is a process of iceberg-sink."""
    captures_per_tenant: int = Field(default=200, ge=1, le=1_000_000)
    """Captures of a tenant; each one has at most one running job."""
    open_captures_per_tenant: int = Field(default=300, ge=1, le=1_000_000)
    """Captures of a tenant that have not ended, also those that declarations have started; a
    further start over REST is answered 429. More than `captures_per_tenant`, so that declared ones
    alone leave room."""


class MailReports(Section):
    secret: SecretStr | None = None
    """Secret that signs reports of bounces and complaints to `POST /api/v1/inbound/email-events`:
    `whsec_` and the base64 of 24 to 64 random bytes, usually in a file named by
    DATARECS_MAIL_REPORTS__SECRET_FILE. Not set: no report is accepted."""

    @field_validator("secret")
    @classmethod
    def _is_a_signing_secret(cls, secret: SecretStr | None) -> SecretStr | None:
        problem = secret and secret_fault(secret.get_secret_value())
        if problem:
            raise ValueError(problem)
        return secret
