"""Marks of received events have to outlive every way on which an event can come again."""

from datetime import timedelta

import pytest

from datarecs_application.ports.messaging import EventMemory
from datarecs_core.errors.messaging import MemoryTooShortError
from datarecs_kafka.remembering import refuse_short_memory
from datarecs_testing.consuming import GROUP


def days(*, outbox: int, inbox: int) -> EventMemory:
    return EventMemory(outbox=timedelta(days=outbox), inbox=timedelta(days=inbox), has_marks=True)


@pytest.mark.parametrize(("outbox", "inbox"), [(30, 45), (38, 45), (1, 37)])
def test_a_week_more_than_the_longest_way_is_enough(outbox: int, inbox: int) -> None:
    refuse_short_memory(days(outbox=outbox, inbox=inbox), group=GROUP)


@pytest.mark.parametrize(("outbox", "inbox"), [(39, 45), (1, 36)])
def test_less_is_refused_whether_outbox_or_dead_letters_are_retained_longer(
    outbox: int, inbox: int
) -> None:
    with pytest.raises(MemoryTooShortError, match=f"keeps entries {inbox} days"):
        refuse_short_memory(days(outbox=outbox, inbox=inbox), group=GROUP)
