"""Topics, principals and access rules of the broker, made from the event catalogue and compared.

The only module that administers the broker: services use the topics and rights declared here.
Everything is safe to repeat; a rule of a platform principal without a grant in the catalogue is
removed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import NamedTuple

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_events.catalogue import DEAD_LETTER_TOPICS, SUBSCRIPTIONS, TOPICS, TopicDef
from datarecs_kafka.access import BrokerAccess, connecting

OPERATORS = "operators"
"""Principal for people: reads dead letters, writes nothing."""
LOCAL_PARTITIONS = 3
MAX_EVENT_BYTES = 524_288
"""Limit of an event topic: twice the codec's limit, and small enough that every record fits into a
dead letter with its reason; the producer sends at most 1 MiB."""
SHOWN_TRIES, SHOWN_PAUSE_S = 200, 0.05
DECLARED: tuple[TopicDef, ...] = (*TOPICS, *DEAD_LETTER_TOPICS)
GROUPS = tuple(sorted({str(one.service) for one in SUBSCRIPTIONS}))


class Right(NamedTuple):
    """One ACL: a principal may read or write one topic, or read in one group."""

    principal: str
    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal} may {self.operation} {self.resource} {self.name}"


def rights() -> frozenset[Right]:
    """Every right that exists; each implies Describe."""
    granted = {Right(who, "WRITE", "TOPIC", t.name) for t in DECLARED for who in t.writers}
    granted |= {Right(who, "READ", "TOPIC", t.name) for t in DECLARED for who in t.readers}
    granted |= {Right(OPERATORS, "READ", "TOPIC", t.name) for t in DEAD_LETTER_TOPICS}
    granted |= {Right(group, "READ", "GROUP", group) for group in GROUPS}
    granted |= {Right(group, "READ", "GROUP", f"{group}.redrive") for group in GROUPS}
    granted.add(Right(OPERATORS, "READ", "GROUP", OPERATORS))
    return frozenset(granted)


def configuration(topic: TopicDef, *, local: bool) -> dict[str, str]:
    """Settings of a topic on the broker, as text."""
    dead_letters = topic in DEAD_LETTER_TOPICS
    settings = {
        "cleanup.policy": "delete",
        "retention.ms": str(int(topic.retention.total_seconds() * 1000)),
        "max.message.bytes": str(2 * 1_048_576 if dead_letters else MAX_EVENT_BYTES),
    }
    if not local:
        settings |= {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    return settings


def apply(access: BrokerAccess, *, principals: Mapping[str, str], local: bool) -> tuple[str, ...]:
    """Make the broker agree with the catalogue; return the changes as text.

    Args:
        access: of an administrator.
        principals: user -> password; created, or changed to this password.
        local: one node: 3 partitions, one replica; else partitions of the catalogue, 3 replicas.

    Raises:
        LogUnavailableError: the broker cannot be reached, or it refused a change.
    """
    with administration(access) as admin:
        changes = _make_topics(admin, local=local)
        changes += set_configuration(admin, _deviating(admin, DECLARED, local=local))
        if principals:
            _make_principals(admin, access, principals)
        changes += _make_rights(admin, access)
        return tuple(changes)


def verify(access: BrokerAccess, *, local: bool) -> tuple[str, ...]:
    """Differences between broker and catalogue as text; empty if there are none."""
    with administration(access) as admin:
        counts = _partition_counts(admin)
        differences = []
        for topic in DECLARED:
            wanted, count = _partitions(topic, local=local), counts.get(topic.name)
            if count is None:
                differences.append(f"topic {topic.name} is missing")
            elif count != wanted:
                differences.append(f"topic {topic.name} has {count} partitions, not {wanted}")
        present = [topic for topic in DECLARED if topic.name in counts]
        for name, changed in _deviating(admin, present, local=local).items():
            differences.append(f"topic {name} deviates in {', '.join(sorted(changed))}")
        present_rights = _read_rights(admin)
        differences += [f"missing: {one}" for one in sorted(rights() - present_rights)]
        differences += [f"unexpected: {one}" for one in sorted(present_rights - rights())]
        return tuple(differences)


@contextmanager
def administration(access: BrokerAccess) -> Iterator[KafkaAdminClient]:
    with connecting(access) as network:
        admin = KafkaAdminClient(
            kafka_client=network, request_timeout_ms=20_000, **access.settings()
        )
    try:
        yield admin
    except KafkaError as cause:
        raise LogUnavailableError(where=access.bootstrap, cause=str(cause)) from cause
    finally:
        admin.close()


def _partitions(topic: TopicDef, *, local: bool) -> int:
    return LOCAL_PARTITIONS if local else topic.partitions


def _partition_counts(admin: KafkaAdminClient) -> dict[str, int]:
    return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics()}


def _make_topics(admin: KafkaAdminClient, *, local: bool) -> list[str]:
    known = _partition_counts(admin)
    missing = {
        topic.name: {
            "num_partitions": _partitions(topic, local=local),
            "replication_factor": 1 if local else 3,
            "configs": configuration(topic, local=local),
        }
        for topic in DECLARED
        if topic.name not in known
    }
    if missing:
        admin.create_topics(missing, wait_for_metadata=True)
    return [f"topic {name} created" for name in missing]


def _deviating(
    admin: KafkaAdminClient, topics: Sequence[TopicDef], *, local: bool
) -> dict[str, dict[str, str]]:
    """Topic -> settings that differ, with their required values."""
    wanted = {topic.name: configuration(topic, local=local) for topic in topics}
    if not wanted:
        return {}
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, name, dict(settings))
        for name, settings in wanted.items()
    ]
    configs = admin.describe_configs(resources, config_filter="all")["topic"]
    changed = {
        name: {
            key: value for key, value in settings.items() if configs[name][key]["value"] != value
        }
        for name, settings in wanted.items()
    }
    return {name: settings for name, settings in changed.items() if settings}


def set_configuration(
    admin: KafkaAdminClient, settings: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Set these settings of these topics; return the changes as text."""
    if settings:
        admin.alter_configs(
            [
                ConfigResource(ConfigResourceType.TOPIC, str(name), dict(changed))
                for name, changed in settings.items()
            ]
        )
    return [f"topic {name} set {', '.join(sorted(settings[name]))}" for name in settings]


def _make_principals(
    admin: KafkaAdminClient, access: BrokerAccess, principals: Mapping[str, str]
) -> None:
    answers = admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, password)
            for name, password in principals.items()
        ]
    )
    refused = {name: why for name, why in answers.items() if why is not None}
    if refused:
        raise LogUnavailableError(where=access.bootstrap, cause=f"principals refused: {refused}")
    wanted = principals.keys()
    wait_until(lambda: wanted <= admin.describe_user_scram_credentials().keys(), access)


def _make_rights(admin: KafkaAdminClient, access: BrokerAccess) -> list[str]:
    present = _read_rights(admin)
    missing, foreign = sorted(rights() - present), sorted(present - rights())
    if missing:
        failed = admin.create_acls([acl_of(one) for one in missing])["failed"]
        if failed:
            raise LogUnavailableError(where=access.bootstrap, cause=f"rights refused: {failed}")
    if foreign:
        admin.delete_acls([_filter(one) for one in foreign])
    wait_until(lambda: _read_rights(admin) == rights(), access)
    return [f"granted: {one}" for one in missing] + [f"revoked: {one}" for one in foreign]


def wait_until(shown: Callable[[], bool], access: BrokerAccess) -> None:
    """Wait for a change: the controller accepts it first, the broker applies it later."""
    for _ in range(SHOWN_TRIES):
        if shown():
            return
        Event().wait(SHOWN_PAUSE_S)
    raise LogUnavailableError(where=access.bootstrap, cause="accepted changes have no effect")


def _read_rights(admin: KafkaAdminClient) -> frozenset[Right]:
    """Rules of principals in the catalogue; rules of other principals are ignored."""
    ours = {one.principal for one in rights()}
    everything = ACLFilter(
        principal=None,
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ALLOW,  # a denial can only restrict the grants
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    acls, _ = admin.describe_acls(everything)
    return frozenset(
        Right(
            principal=acl.principal.removeprefix("User:"),
            operation=acl.operation.name,
            resource=acl.resource_pattern.resource_type.name,
            name=acl.resource_pattern.resource_name,
        )
        for acl in acls
        if acl.principal.removeprefix("User:") in ours
    )


def acl_of(right: Right) -> ACL:
    return ACL(
        principal=f"User:{right.principal}",
        host="*",
        operation=ACLOperation[right.operation],
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType[right.resource], right.name),
    )


def _filter(right: Right) -> ACLFilter:
    return ACLFilter(
        principal=f"User:{right.principal}",
        host=None,
        operation=ACLOperation[right.operation],
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(
            ResourceType[right.resource], right.name, ACLResourcePatternType.ANY
        ),
    )
