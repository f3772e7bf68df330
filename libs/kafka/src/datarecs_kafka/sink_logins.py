"""A topic on the local broker, and logins with exactly the rights of a sink and of a producer.

Separate from `topics`, where the catalogue defines rights: a sink reads topics of a tenant, and its
login is one of the tenant.
"""

from collections.abc import Iterable
from contextlib import closing
from typing import Final, NamedTuple

from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import CoordinatorNotAvailableError, GroupIdNotFoundError, KafkaError

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_kafka.access import BrokerAccess, connecting
from datarecs_kafka.topics import administration, wait_until

PREFIX: Final = "datarecs.sink."
"""Of control topics, dead letters, groups and transactional ids of every sink."""
_CLUSTER: Final = "kafka-cluster"
_NO_GROUP_YET: Final = (CoordinatorNotAvailableError, GroupIdNotFoundError)


class SinkRight(NamedTuple):
    """One access rule of the login of a sink."""

    resource: ResourceType
    name: str
    operation: ACLOperation
    is_prefix: bool = False


def sink_rights(topics: Iterable[str], *, prefix: str = PREFIX) -> tuple[SinkRight, ...]:
    """What a sink needs on its cluster, as docs/howto/sink.md lists it.

    `prefix` is that of every sink, or `datarecs.sink.<uid>` of one.
    """
    read, write, describe = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE
    operations = (ACLOperation.CREATE, read, write, describe, ACLOperation.DELETE)
    return (
        *(
            SinkRight(ResourceType.TOPIC, topic, operation)
            for topic in topics
            for operation in (read, describe)
        ),
        *(
            SinkRight(ResourceType.TOPIC, prefix, operation, is_prefix=True)
            for operation in operations
        ),
        SinkRight(ResourceType.GROUP, prefix, read, is_prefix=True),
        SinkRight(ResourceType.TRANSACTIONAL_ID, prefix, write, is_prefix=True),
        SinkRight(ResourceType.TRANSACTIONAL_ID, prefix, describe, is_prefix=True),
        SinkRight(ResourceType.CLUSTER, _CLUSTER, describe),
    )


def create_topic(access: BrokerAccess, name: str, *, partitions: int) -> None:
    """Create an empty topic with one replica; one with this name is deleted before.

    Raises:
        LogUnavailableError: the broker cannot be reached, or it refused a change.
    """
    with administration(access) as admin:
        if name in admin.list_topics():
            admin.delete_topics([name])
            wait_until(lambda: name not in admin.list_topics(), access)
        settings = {"num_partitions": partitions, "replication_factor": 1}
        admin.create_topics({name: settings}, wait_for_metadata=True)


def create_login(
    access: BrokerAccess,
    name: str,
    topics: Iterable[str],
    *,
    password: str,
    prefix: str = PREFIX,
) -> None:
    """Create a login for sinks of these topics; other rights of it are removed. Safe to repeat.

    With a `prefix` as in `sink_rights`.

    Raises:
        LogUnavailableError: the broker cannot be reached, or it refused a change.
    """
    _create(access, name, sink_rights(topics, prefix=prefix), password)


def create_producer(
    access: BrokerAccess, name: str, topics: Iterable[str], *, password: str
) -> None:
    """Create a login that sends records to these topics; other rights of it are removed.

    Safe to repeat.

    Raises:
        LogUnavailableError: the broker cannot be reached, or it refused a change.
    """
    rights = [
        SinkRight(ResourceType.TOPIC, topic, operation)
        for topic in topics
        for operation in (ACLOperation.WRITE, ACLOperation.DESCRIBE)
    ]
    _create(access, name, rights, password)


def _create(access: BrokerAccess, name: str, rights: Iterable[SinkRight], password: str) -> None:
    wanted = [_acl_of(name, right) for right in rights]
    with administration(access) as admin:
        if _rules(admin, name):
            admin.delete_acls([_filter_of(name)])
            wait_until(lambda: not _rules(admin, name), access)
        failed = admin.create_acls(wanted)["failed"]
        if failed:
            raise LogUnavailableError(where=access.bootstrap, cause=f"rights refused: {failed}")
        login = UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, password)
        refused = {
            user: why
            for user, why in admin.alter_user_scram_credentials([login]).items()
            if why is not None
        }
        if refused:
            raise LogUnavailableError(where=access.bootstrap, cause=f"login refused: {refused}")
        wait_until(lambda: name in admin.describe_user_scram_credentials(), access)
        wait_until(lambda: len(_rules(admin, name)) == len(wanted), access)


def send_values(access: BrokerAccess, topic: str, values: Iterable[bytes]) -> None:
    """Send records to the partitions in turn, and wait until the broker has stored all of them.

    Raises:
        LogUnavailableError: the broker cannot be reached, or it refused a record.
    """
    with connecting(access) as network:
        producer = KafkaProducer(kafka_client=network, linger_ms=20, **access.settings())
    with closing(producer):
        try:
            partitions = sorted(producer.partitions_for(topic) or ())
            sent = [
                producer.send(topic, value, partition=partitions[number % len(partitions)])
                for number, value in enumerate(values)
            ]
            producer.flush()
            for record in sent:
                record.get(0)
        except KafkaError as cause:
            raise LogUnavailableError(where=access.bootstrap, cause=str(cause)) from cause


def member_count(access: BrokerAccess, group: str) -> int:
    """Members of a group that all have their partitions; 0 while they are divided anew.

    Also 0 for a group that does not exist yet.

    Raises:
        LogUnavailableError: the broker cannot be reached.
    """
    with administration(access) as admin:
        try:
            described = admin.describe_groups([group])[group]
        except _NO_GROUP_YET:
            return 0
    return len(described["members"]) if described["group_state"] == "Stable" else 0


def _acl_of(name: str, right: SinkRight) -> ACL:
    pattern = ACLResourcePatternType.PREFIXED if right.is_prefix else ACLResourcePatternType.LITERAL
    return ACL(
        principal=f"User:{name}",
        host="*",
        operation=right.operation,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(right.resource, right.name, pattern),
    )


def _filter_of(name: str) -> ACLFilter:
    return ACLFilter(
        principal=f"User:{name}",
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )


def _rules(admin: KafkaAdminClient, name: str) -> list[ACL]:
    rules, _ = admin.describe_acls(_filter_of(name))
    return list(rules)
