"""Access to a cluster that a tenant declares, as `BrokerAccess` is to the platform's own broker.

Separate because everything here comes from a declaration: security, login and certificates, and the
addresses, each of which is checked before it is dialled.
"""

import ssl
from dataclasses import dataclass, field

from datarecs_core.egress.addresses import Policy
from datarecs_core.errors.messaging import ClusterUnavailableError
from datarecs_core.resources.connection import KafkaConfig, Transport
from datarecs_kafka.access import BOOTSTRAP_TIMEOUT_MS
from datarecs_kafka.checked_sockets import AddressGuard, Resolver, system_resolver
from datarecs_kafka.login_faults import remedy_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Settings of every client of one declared cluster."""

    config: KafkaConfig
    password: str = field(default="", repr=False)
    guard: AddressGuard

    @classmethod
    def declared(
        cls,
        config: KafkaConfig,
        *,
        password: str,
        policy: Policy,
        resolve: Resolver = system_resolver,
    ) -> "ClusterAccess":
        """Of a Connection; without TLS only loopback is dialled, unless it accepts that."""
        is_closed = not config.security.is_encrypted and config.transport is Transport.ENCRYPTED
        guard = AddressGuard(policy, must_be_loopback=is_closed, resolve=resolve)
        return cls(config=config, password=password, guard=guard)

    @property
    def bootstrap(self) -> str:
        return ",".join(self.config.brokers)

    @property
    def username(self) -> str:
        return self.config.user or "without login"

    def unavailable(self, cause: str) -> ClusterUnavailableError:
        """With the field of the connection that mends it, where the cause says which."""
        remedy = remedy_of(cause, has_login=self.config.security.has_login)
        text = f"{cause.rstrip('.')}; {remedy}" if remedy else cause
        return ClusterUnavailableError(where=self.bootstrap, cause=text)

    def settings(self) -> dict[str, object]:
        """Common settings of consumer, producer and administration.

        Raises:
            ClusterUnavailableError: the certificates cannot be read.
        """
        config = self.config
        settings: dict[str, object] = {
            "bootstrap_servers": list(config.brokers),
            "client_id": "datarecs-sink",
            "security_protocol": str(config.security),
            "proxy_url": self.guard.url,
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            "reconnect_backoff_max_ms": 1_000,
            "retry_backoff_ms": 20,
        }
        if config.security.has_login:
            settings |= {
                "sasl_mechanism": str(config.mechanism),
                "sasl_plain_username": config.user,
                "sasl_plain_password": self.password,
            }
        if config.security.is_encrypted:
            settings["ssl_context"] = self._tls()
        return settings

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=self.config.ca)
        except ssl.SSLError as cause:
            raise ClusterUnavailableError(
                where=self.bootstrap,
                cause="the certificates of the connection cannot be read: correct its field ca",
            ) from cause
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def require_none_refused(self) -> None:
        """Raises ClusterUnavailableError if an address that a broker advertises was refused."""
        self.guard.require_none_refused(self.bootstrap)
