"""Members of a group whose process is known to be dead: taken out, instead of waited for.

A killed member keeps its partitions until its session of 45 s ends. Who supervises the processes
knows better, so the local stack asks for this before it starts a service again.
"""

import logging

from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import KafkaError

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_kafka.access import BrokerAccess, connecting
from datarecs_kafka.probe import refusal

PATIENCE_MS = 3_000


def remove_members(bootstrap: str, *, username: str, password: str, group: str) -> int:
    """Take every member out of a group; how many there were. Safe to repeat.

    A living member would join again by itself and read its last batch twice, which inboxes absorb.

    Args:
        bootstrap: `host:port` of the broker.
        username: an administrator, SCRAM-SHA-512 on loopback.
        password: of that administrator.
        group: the consumer group.

    Raises:
        LogUnavailableError: the broker does not answer now.
    """
    nobody = refusal(bootstrap)
    if nobody is not None:
        raise LogUnavailableError(where=bootstrap, cause=nobody)
    access = BrokerAccess(bootstrap=bootstrap, username=username, password=password)
    limits = {"bootstrap_timeout_ms": PATIENCE_MS, "request_timeout_ms": PATIENCE_MS}
    library = logging.getLogger("kafka")
    spreads, library.propagate = library.propagate, False  # a restarting broker is no news
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
