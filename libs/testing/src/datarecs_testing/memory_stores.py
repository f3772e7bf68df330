"""The memory twins as the stores of the conformance suites: all actors are one."""

from datarecs_memory.change_feed import MemoryChangeFeed, MemoryResourceFeed
from datarecs_memory.event_archive import MemoryEventArchive
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.outbox_reader import MemoryOutboxReader
from datarecs_memory.queries import MemoryQueries
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_testing.clock import ManualClock
from datarecs_testing.conformance.stores import Actor, Stores


def memory_stores(store: MemoryStore, clock: ManualClock) -> Stores:
    """Every service over one store."""
    everybody = Actor(unit=MemoryUnitOfWork(store), finder=MemoryWorkFinder(store))
    return Stores(
        api=everybody,
        controller=everybody,
        worker=everybody,
        webhook=everybody,
        mail=everybody,
        resources=everybody,
        capture=everybody,
        relay=MemoryOutboxReader(store),
        archive=MemoryEventArchive(store),
        queries=MemoryQueries(store),
        feed=MemoryChangeFeed(store),
        changes=MemoryResourceFeed(store),
        pass_time=clock.advance,
    )
