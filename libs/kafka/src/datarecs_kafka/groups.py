"""Remove members of a group after their process has ended, instead of waiting for a timeout.

A killed member keeps its partitions until its session of 45 s ends. The local stack supervises the
processes and removes such members before it starts a service again.
"""

import logging

from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import KafkaError

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_kafka.access import BrokerAccess, connecting
from datarecs_kafka.probe import refusal

PATIENCE_MS = 3_000


def remove_members(bootstrap: str, *, username: str, password: str, group: str) -> int:
    """Remove every member of a group; the number of members. Safe to repeat.

    A live member joins again by itself and reads its last batch twice; inboxes ignore the
    repetition.

    Args:
        bootstrap: `host:port` of the broker.
        username: an administrator, SCRAM-SHA-512 on loopback.
        password: of that administrator.
        group: the consumer group.

    Raises:
        LogUnavailableError: the broker does not answer.
    """
    nobody = refusal(bootstrap)
    if nobody is not None:
        raise LogUnavailableError(where=bootstrap, cause=nobody)
    access = BrokerAccess(bootstrap=bootstrap, username=username, password=password)
    limits = {"bootstrap_timeout_ms": PATIENCE_MS, "request_timeout_ms": PATIENCE_MS}
    library = logging.getLogger("kafka")
    spreads, library.propagate = library.propagate, False  # do not log the restart of a broker
    try:
        with connecting(access), KafkaAdminClient(**access.settings() | limits) as admin:
            members = admin.describe_groups([group])[group].get("members", [])
            gone = [
                MemberToRemove(member_id=member["member_id"], reason="its process has ended")
                for member in members
            ]
            admin.remove_group_members(group, gone)
    except KafkaError as cause:
        raise LogUnavailableError(where=bootstrap, cause=str(cause)) from cause
    finally:
        library.propagate = spreads
    return len(gone)
