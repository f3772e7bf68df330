import pytest

from datarecs_memory.change_feed import MemoryChangeFeed
from datarecs_memory.event_archive import MemoryEventArchive
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.outbox_reader import MemoryOutboxReader
from datarecs_memory.queries import MemoryQueries
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_testing.clock import NOON, FixedIds, ManualClock
from datarecs_testing.conformance.deliveries import DeliveriesConformance
from datarecs_testing.conformance.mails import MailsConformance, RuleStatesConformance
from datarecs_testing.conformance.stores import Actor, Stores


@pytest.fixture
def stores() -> Stores:
    clock = ManualClock(now=NOON)
    store = MemoryStore(clock, FixedIds())
    actor = Actor(unit=MemoryUnitOfWork(store), finder=MemoryWorkFinder(store))
    return Stores(
        api=actor,
        controller=actor,
        worker=actor,
        webhook=actor,
        mail=actor,
        relay=MemoryOutboxReader(store),
        archive=MemoryEventArchive(store),
        queries=MemoryQueries(store),
        feed=MemoryChangeFeed(store),
        pass_time=clock.advance,
    )


class TestDeliveries(DeliveriesConformance):
    pass


class TestMails(MailsConformance):
    pass


class TestRuleStates(RuleStatesConformance):
    pass
