"""The stores of the suites over one twin, which all services use with all rights."""

import pytest

from datarecs_memory.store import MemoryStore
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.memory_stores import memory_stores


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock, FixedIds())


@pytest.fixture
def stores(clock: ManualClock, store: MemoryStore) -> Stores:
    return memory_stores(store, clock)
