"""The cluster of a connection: its login, its checked addresses, and its errors as of sources.

The only module of connectors that uses the client of Kafka.
"""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from datarecs_connectors.errors import (
    ConnectionFailedError,
    CorruptSourceError,
    LoginRefusedError,
    OffsetsGoneError,
    PermissionDeniedError,
    QueryFailedError,
    SourceError,
    SourceUnsupportedError,
)
from datarecs_core.egress.addresses import Policy, admit
from datarecs_core.egress.urls import check_source_port
from datarecs_core.errors.security import AddressBlockedError, UrlRefusedError
from datarecs_core.resources.connection import KafkaConfig, split_broker
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_kafka.topic_reader import (
    TopicFault,
    TopicIdentity,
    TopicReader,
    TopicReadError,
    TopicRecord,
)

__all__ = ["Cluster", "TopicRecord"]
_ERRORS: Mapping[TopicFault, type[SourceError]] = {
    TopicFault.UNREACHABLE: ConnectionFailedError,
    TopicFault.LOGIN_REFUSED: LoginRefusedError,
    TopicFault.FORBIDDEN: PermissionDeniedError,
    TopicFault.MISSING: QueryFailedError,
    TopicFault.OFFSETS_GONE: OffsetsGoneError,
    TopicFault.UNSUPPORTED: SourceUnsupportedError,
    TopicFault.CORRUPT: CorruptSourceError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Reads topics for one source. Every call may raise a SourceError."""

    source: str
    config: KafkaConfig
    password: str = field(repr=False)
    policy: Policy

    def check_addresses(self) -> str:
        """That every broker of the connection may be dialled; their addresses as text."""
        return ", ".join(self._address(broker) for broker in self.config.brokers)

    def topics(self) -> tuple[str, ...]:
        with self._translated():
            return self._reader().topics()

    def identity(self, topic: str) -> TopicIdentity:
        with self._translated(topic):
            return self._reader().identity(topic)

    def earliest(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        with self._translated(topic):
            return self._reader().earliest(topic, partitions)

    def ends(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        with self._translated(topic):
            return self._reader().ends(topic, partitions)

    def at_time(self, topic: str, partitions: Sequence[int], moment_ms: int) -> Mapping[int, int]:
        with self._translated(topic):
            return self._reader().at_time(topic, partitions, moment_ms)

    def records(
        self, topic: str, partition: int, bounds: tuple[int, int], check: Callable[[], None]
    ) -> Iterator[Sequence[TopicRecord]]:
        start, end = bounds
        with self._translated(topic):
            try:
                yield from self._reader().records(topic, partition, bounds, check)
            except TopicReadError as cause:
                if cause.fault is not TopicFault.OFFSETS_GONE:
                    raise
                raise OffsetsGoneError(
                    self.source,
                    f"partition {partition} of topic {topic} no longer has its offsets from "
                    f"{start} to {end}: they were removed by its retention; raise the retention "
                    "or begin later with snapshot.from",
                ) from cause

    @contextmanager
    def _translated(self, topic: str | None = None) -> Iterator[None]:
        try:
            yield
        except TopicReadError as cause:
            if cause.fault is TopicFault.MISSING and topic is not None:
                raise QueryFailedError(
                    self.source,
                    f"the cluster has no topic {topic}, or the login may not describe it",
                ) from cause
            if cause.fault is TopicFault.FORBIDDEN and topic is not None:
                raise PermissionDeniedError(
                    self.source,
                    f"the login may not read topic {topic}; grant READ and DESCRIBE of it",
                ) from cause
            raise _ERRORS[cause.fault](self.source, str(cause)) from cause

    def _reader(self) -> TopicReader:
        access = ClusterAccess.declared(self.config, password=self.password, policy=self.policy)
        return TopicReader(access)

    def _address(self, broker: str) -> str:
        """The checked addresses of a broker; every one of them must be allowed."""
        host, port = split_broker(broker)
        try:
            check_source_port(port)
        except UrlRefusedError as cause:
            raise ConnectionFailedError(self.source, f"{host}: {cause}") from cause
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as cause:
            raise ConnectionFailedError(self.source, f"the name {host} has no address") from cause
        try:
            addresses = admit([str(answer[4][0]) for answer in answers], self.policy)
        except AddressBlockedError as cause:
            raise ConnectionFailedError(
                self.source, f"{host} has an address of class {cause.address_class}: not allowed"
            ) from cause
        return str(addresses[0])
