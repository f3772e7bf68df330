"""Check that a group's inbox marks are retained longer than events can be delivered again.

Separate from the consumer because it is checked once, before the start: if a mark is deleted before
its event, the event could take effect twice.
"""

from datetime import timedelta

from datarecs_application.ports.messaging import EventMemory
from datarecs_core.errors.messaging import MemoryTooShortError
from datarecs_events.catalogue import DEAD_LETTER_TOPICS, TOPICS, dead_letter_topic

MARGIN = timedelta(days=7)


def refuse_short_memory(memory: EventMemory, *, group: str) -> None:
    """Compare with the outbox, the event topics and the group's dead letters.

    Raises:
        MemoryTooShortError: marks are not retained a week longer than all of them.
    """
    group_topics = [one for one in DEAD_LETTER_TOPICS if one.name == dead_letter_topic(group)]
    longest = max(memory.outbox, *(topic.retention for topic in (*TOPICS, *group_topics)))
    if memory.inbox < longest + MARGIN:
        raise MemoryTooShortError(
            inbox_days=memory.inbox.days, events_days=longest.days, margin_days=MARGIN.days
        )
