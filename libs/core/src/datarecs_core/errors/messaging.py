"""Codes and exceptions of the event log: no connection, no access, unreadable records.

A separate family because broker, memory twin, relay and consumer raise and handle the same ones,
and none of them may import another.
"""

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class MessagingCode(ErrorCode):
    LOG_UNAVAILABLE = Entry(
        docs_id="DR5701",
        meaning="A Kafka cluster, the platform's or that of a connection, cannot be reached or "
        "does not answer in time.",
        causes="Broker down or restarting, wrong address, wrong password, certificate not trusted.",
        remedy="Read the cause in the message and in the broker's log; correct the connection "
        "that is named there, or DATARECS_KAFKA__BOOTSTRAP for the platform's broker. Work "
        "resumes automatically; nothing is lost.",
        retryable=True,
    )
    LOG_ACCESS_DENIED = Entry(
        docs_id="DR5702",
        meaning="The principal has no access to a topic or group, or it does not exist.",
        causes="Topics or access rules not applied, or a service on the topic of another one.",
        remedy="Run `datarecs admin topics apply`; compare the service with the event catalogue.",
    )
    SUBSCRIPTION_REFUSED = Entry(
        docs_id="DR5703",
        meaning="A service registered a handler that the event catalogue does not allow.",
        causes="The wiring differs from `datarecs_events.catalogue` in a topic or event type.",
        remedy="Change the catalogue's subscription of the group, or the wiring.",
    )
    CONSUMER_STOPPED = Entry(
        docs_id="DR5704",
        meaning="A consumer stopped itself after too many records it could not handle.",
        causes="A release that cannot read the events, or a foreign producer on the topic.",
        remedy="Read the reasons in the dead letters, correct the cause, restart, then `redrive`.",
    )
    OFFSET_GAP = Entry(
        docs_id="DR5705",
        meaning="A group's committed offset is older than the first record of the topic.",
        causes="The consumer was stopped for longer than the topic's retention.",
        remedy="No action: the consumer reads the missing events from the outbox. If it repeats,"
        " keep the consumer running, or raise the topic's retention.",
    )
    DEAD_LETTER_UNAVAILABLE = Entry(
        docs_id="DR5706",
        meaning="A record cannot be handled, and its dead letter could not be written either.",
        causes="Dead letter topic missing, full, or not writable for the group's principal.",
        remedy="Repair the topic; the partition waits and nothing is skipped.",
    )
    OUTBOX_ROW_PARKED = Entry(
        docs_id="DR5707",
        meaning="The broker refuses an event for good, so the relay parked it.",
        causes="Record larger than the topic allows, or refused as invalid.",
        remedy="Correct the topic's limit, then `datarecs admin outbox unpark`.",
    )
    MEMORY_TOO_SHORT = Entry(
        docs_id="DR5709",
        meaning="Inbox entries would be removed while their events can still arrive again.",
        causes="DATARECS_OUTBOX__RETENTION_DAYS, or a topic's retention, within a week of the 45 "
        "days of the inbox.",
        remedy="Set DATARECS_OUTBOX__RETENTION_DAYS to 38 at most.",
    )
    RECORD_UNREADABLE = Entry(
        docs_id="DR5708",
        meaning="A record cannot be parsed; the consumer skipped it.",
        causes="Written by a foreign producer, or damaged on the broker's disk.",
        remedy="The message names topic, partition and offset; the bytes stay in the topic.",
    )
    CONSUMER_REFUSED = Entry(
        docs_id="DR5710",
        meaning="An external consumer cannot be created or deleted.",
        causes="A name that is in use or reserved for the platform, or a topic without events.",
        remedy="The message names the problem; `datarecs admin consumer list` lists the consumers.",
    )


class ConsumerRefusedError(DatarecsError):
    """The name or a topic of an external consumer is not allowed; nothing was changed."""

    code = MessagingCode.CONSUMER_REFUSED

    def __init__(self, *, name: str, reason: str) -> None:
        super().__init__(f"consumer {name}: {reason}")
        self.name, self.reason = name, reason


class LogUnavailableError(DatarecsError):
    """The log cannot be reached; nothing was read or written. Safe to repeat."""

    code = MessagingCode.LOG_UNAVAILABLE
    what = "event log"

    def __init__(self, *, where: str, cause: str) -> None:
        super().__init__(f"{self.what} at {where} is not available: {cause}")
        self.where, self.cause = where, cause


class ClusterUnavailableError(LogUnavailableError):
    """As its parent, of a cluster that a connection declares."""

    what = "Kafka cluster"


class LogAccessDeniedError(DatarecsError):
    """Topics or a group the principal may not use, or that do not exist: brokers hide which."""

    code = MessagingCode.LOG_ACCESS_DENIED

    def __init__(self, *, principal: str, names: tuple[str, ...]) -> None:
        super().__init__(
            f"principal {principal} has no access to {', '.join(names)}, or it does not exist; "
            "run `datarecs admin topics apply`"
        )
        self.principal, self.names = principal, names


class MemoryTooShortError(DatarecsError):
    """An event could take effect twice, because its inbox entry expires first; ends start-up."""

    code = MessagingCode.MEMORY_TOO_SHORT

    def __init__(self, *, inbox_days: int, events_days: int, margin_days: int) -> None:
        super().__init__(
            f"the inbox keeps entries {inbox_days} days and events are kept {events_days} days; "
            f"the inbox must keep them {margin_days} days longer"
        )
        self.inbox_days, self.events_days = inbox_days, events_days


class SubscriptionRefusedError(DatarecsError):
    """A handler is wired to what the catalogue does not grant its group; start-up ends here."""

    code = MessagingCode.SUBSCRIPTION_REFUSED

    def __init__(self, *, group: str, topic: str, types: tuple[str, ...]) -> None:
        what = ", ".join(types) or "all types"
        super().__init__(f"group {group} is not subscribed to {what} on {topic} in the catalogue")
        self.group, self.topic, self.types = group, topic, types
