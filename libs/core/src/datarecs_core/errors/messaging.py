"""Codes and exceptions of the event log: reaching it, being allowed, trusting what it delivers.

A family of its own because broker, memory twin, relay and consumer raise and meet the same ones,
and none of those may import another.
"""

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class MessagingCode(ErrorCode):
    LOG_UNAVAILABLE = Entry(
        docs_id="DR5701",
        meaning="The event log (Kafka) cannot be reached or does not answer in time.",
        causes="Broker down or restarting, wrong address, wrong password, certificate not trusted.",
        remedy="Read the cause in the message; check DATARECS_KAFKA__BOOTSTRAP and the broker's "
        "log. Work resumes by itself, nothing is lost meanwhile.",
        retryable=True,
    )
    LOG_ACCESS_DENIED = Entry(
        docs_id="DR5702",
        meaning="The broker does not show or open a topic or group to this principal.",
        causes="Topics or access rules not applied, or a service wired to a foreign topic.",
        remedy="Run `datarecs admin topics apply`; compare the service with the event catalogue.",
    )
    SUBSCRIPTION_REFUSED = Entry(
        docs_id="DR5703",
        meaning="A service registered a handler for a topic or type the catalogue denies it.",
        causes="Wiring and `datarecs_events.catalogue` disagree.",
        remedy="Change the catalogue's subscription of the group, or the wiring.",
    )
    CONSUMER_STOPPED = Entry(
        docs_id="DR5704",
        meaning="A consumer stopped itself after too many records it could not handle.",
        causes="A release that cannot read its events, or a producer that writes none of ours.",
        remedy="Read the reasons in the dead letters, fix the code, restart, then `redrive`.",
    )
    OFFSET_GAP = Entry(
        docs_id="DR5705",
        meaning="A group's committed offset is older than the first record the topic still holds.",
        causes="The consumer was away longer than the topic's retention.",
        remedy="Nothing by hand: what is missing is read again from the outbox. If it comes again,"
        " keep the consumer running, or let the topic keep records longer.",
    )
    DEAD_LETTER_UNAVAILABLE = Entry(
        docs_id="DR5706",
        meaning="A record cannot be handled, and its dead letter could not be written either.",
        causes="Dead letter topic missing, full, or not writable for the group's principal.",
        remedy="Repair the topic; the partition waits and nothing is skipped.",
    )
    OUTBOX_ROW_PARKED = Entry(
        docs_id="DR5707",
        meaning="The broker can never take an event, so the relay set it aside.",
        causes="Record larger than the topic allows, or refused as invalid.",
        remedy="Repair the topic's limit, then `datarecs admin outbox unpark`.",
    )
    MEMORY_TOO_SHORT = Entry(
        docs_id="DR5709",
        meaning="Marks of received events would go while the events can still come again.",
        causes="DATARECS_OUTBOX__RETENTION_DAYS, or a topic's retention, within a week of the 45 "
        "days that marks are kept.",
        remedy="Set DATARECS_OUTBOX__RETENTION_DAYS to 38 at most.",
    )
    RECORD_UNREADABLE = Entry(
        docs_id="DR5708",
        meaning="A record cannot be parsed at all; the consumer went past it.",
        causes="Written by a foreign producer, or damaged on the broker's disk.",
        remedy="The message names topic, partition and offset; the bytes stay in the topic.",
    )
    CONSUMER_REFUSED = Entry(
        docs_id="DR5710",
        meaning="A consumer outside the platform cannot be made or deleted as asked.",
        causes="A name that is taken or belongs to the platform, a topic that is no event topic.",
        remedy="The message names what is wrong; `datarecs admin consumer list` shows which exist.",
    )


class ConsumerRefusedError(DatarecsError):
    """The name or a topic of an outside consumer is not allowed; nothing was changed."""

    code = MessagingCode.CONSUMER_REFUSED

    def __init__(self, *, name: str, reason: str) -> None:
        super().__init__(f"consumer {name}: {reason}")
        self.name, self.reason = name, reason


class LogUnavailableError(DatarecsError):
    """The log cannot be reached; nothing was read or written. Safe to repeat for ever."""

    code = MessagingCode.LOG_UNAVAILABLE

    def __init__(self, *, where: str, cause: str) -> None:
        super().__init__(f"event log at {where} is not available: {cause}")
        self.where, self.cause = where, cause


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
    """An event could take effect twice, because its mark goes first; start-up ends here."""

    code = MessagingCode.MEMORY_TOO_SHORT

    def __init__(self, *, inbox_days: int, events_days: int, margin_days: int) -> None:
        super().__init__(
            f"marks of received events are kept {inbox_days} days and events {events_days}; "
            f"marks have to be kept {margin_days} days longer"
        )
        self.inbox_days, self.events_days = inbox_days, events_days


class SubscriptionRefusedError(DatarecsError):
    """A handler is wired to what the catalogue does not grant its group; start-up ends here."""

    code = MessagingCode.SUBSCRIPTION_REFUSED

    def __init__(self, *, group: str, topic: str, types: tuple[str, ...]) -> None:
        what = ", ".join(types) or "all types"
        super().__init__(f"group {group} is not subscribed to {what} on {topic} in the catalogue")
        self.group, self.topic, self.types = group, topic, types
