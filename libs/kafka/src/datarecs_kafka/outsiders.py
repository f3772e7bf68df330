"""Consumers outside the platform: principals that only read event topics.

Separate from `topics`, where the catalogue defines the rights: an operator creates and deletes
these consumers, and `topics apply` does not change them. A topic has the events of every tenant, so
a consumer reads events of all tenants.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from datarecs_core.errors.faults import did_you_mean
from datarecs_core.errors.messaging import ConsumerRefusedError, LogUnavailableError
from datarecs_events.catalogue import TOPICS
from datarecs_events.topics import RELAY, Service
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.topics import GROUPS, OPERATORS, administration, wait_until

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
RESERVED = frozenset({*Service, *GROUPS, RELAY, OPERATORS})
"""Principals of the platform."""


class Outsider(NamedTuple):
    """A consumer and what it may read."""

    name: str
    topics: tuple[str, ...]

    @property
    def group_prefix(self) -> str:
        """Prefix of its consumer groups."""
        return f"{self.name}."


def create_consumer(
    access: BrokerAccess, name: str, topics: Sequence[str], *, secret: str
) -> Outsider:
    """Create the principal with this secret, and its rights: read these topics, in its groups.

    Raises:
        ConsumerRefusedError: the name or a topic is not allowed, or the name is taken.
        LogUnavailableError: the broker cannot be reached, or it refused a change.
    """
    made = Outsider(name=name, topics=tuple(sorted(set(topics))))
    _check(made, administrator=access.username)
    with administration(access) as admin:
        if name in _credentials(admin) or _rules(admin, name):
            raise ConsumerRefusedError(name=name, reason="a principal with this name exists")
        failed = admin.create_acls(_acls_of(made))["failed"]
        if failed:
            raise LogUnavailableError(where=access.bootstrap, cause=f"rights refused: {failed}")
        login = UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, secret)
        _alter(admin, access, login)
        wait_until(lambda: name in _credentials(admin), access)
        wait_until(lambda: len(_rules(admin, name)) == len(_acls_of(made)), access)
    return made


def list_consumers(access: BrokerAccess) -> tuple[Outsider, ...]:
    """Every consumer, by name; identified by the right on its groups, which no service has.

    Raises:
        LogUnavailableError: the broker cannot be reached.
    """
    with administration(access) as admin:
        topics: dict[str, list[str]] = {}
        for acl in _rules(admin, None):
            name = acl.principal.removeprefix("User:")
            pattern = acl.resource_pattern
            is_group = pattern.resource_type is ResourceType.GROUP
            if is_group and pattern.resource_name == f"{name}.":
                topics.setdefault(name, [])
        for acl in _rules(admin, None):
            name = acl.principal.removeprefix("User:")
            if name in topics and acl.resource_pattern.resource_type is ResourceType.TOPIC:
                topics[name].append(acl.resource_pattern.resource_name)
    return tuple(
        Outsider(name=name, topics=tuple(sorted(patterns)))
        for name, patterns in sorted(topics.items())
    )


def delete_consumer(access: BrokerAccess, name: str) -> None:
    """Remove rights and login; open connections end with their next request.

    Raises:
        ConsumerRefusedError: no consumer has this name.
        LogUnavailableError: the broker cannot be reached, or it refused a change.
    """
    if name not in {one.name for one in list_consumers(access)}:
        raise ConsumerRefusedError(name=name, reason="there is no consumer with this name")
    with administration(access) as admin:
        admin.delete_acls([_filter_of(name)])
        if name in _credentials(admin):
            _alter(admin, access, UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512))
        wait_until(lambda: name not in _credentials(admin), access)
        wait_until(lambda: not _rules(admin, name), access)


def _check(wanted: Outsider, *, administrator: str) -> None:
    if not NAME.fullmatch(wanted.name):
        reason = "a name has at most 63 characters of a-z, 0-9 and -, and - not at its ends"
        raise ConsumerRefusedError(name=wanted.name, reason=reason)
    if wanted.name in RESERVED or wanted.name == administrator:
        raise ConsumerRefusedError(name=wanted.name, reason="it is a principal of the platform")
    known = [str(one.name) for one in TOPICS]
    for topic in wanted.topics:
        if topic not in known:
            hint = did_you_mean(topic, known) or f"the event topics are {', '.join(known)}"
            reason = f"{topic} is not an event topic; {hint}"
            raise ConsumerRefusedError(name=wanted.name, reason=reason)
    if not wanted.topics:
        raise ConsumerRefusedError(name=wanted.name, reason="it needs at least one topic")


def _acls_of(consumer: Outsider) -> list[ACL]:
    """Rights to read each topic, and to join groups with the prefix `<consumer>.`."""
    literal, prefixed = ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED
    patterns = [ResourcePattern(ResourceType.TOPIC, one, literal) for one in consumer.topics]
    patterns.append(ResourcePattern(ResourceType.GROUP, consumer.group_prefix, prefixed))
    return [
        ACL(
            principal=f"User:{consumer.name}",
            host="*",
            operation=ACLOperation.READ,
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=pattern,
        )
        for pattern in patterns
    ]


def _filter_of(name: str | None) -> ACLFilter:
    return ACLFilter(
        principal=None if name is None else f"User:{name}",
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )


def _rules(admin: KafkaAdminClient, name: str | None) -> list[ACL]:
    rules, _ = admin.describe_acls(_filter_of(name))
    return list(rules)


def _credentials(admin: KafkaAdminClient) -> Mapping[str, object]:
    credentials: Mapping[str, object] = admin.describe_user_scram_credentials()
    return credentials


def _alter(
    admin: KafkaAdminClient,
    access: BrokerAccess,
    change: UserScramCredentialUpsertion | UserScramCredentialDeletion,
) -> None:
    answers = admin.alter_user_scram_credentials([change])
    refused = {user: why for user, why in answers.items() if why is not None}
    if refused:
        raise LogUnavailableError(where=access.bootstrap, cause=f"login refused: {refused}")
