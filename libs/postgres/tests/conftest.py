"""The stores of the suites over a fresh database, each service with its login."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.event_archive import PostgresEventArchive
from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.roles import (
    API,
    CAPTURE,
    CONTROLLER,
    MAIL,
    RELAY,
    RESOURCES,
    WEBHOOK,
    WORKER_RUN,
)
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.stores import Actor, Stores
from datarecs_testing.database import PreparedDatabase

Connect = Callable[..., Database]


@pytest.fixture
def connect(database: PreparedDatabase) -> Iterator[Connect]:
    """Databases of a role, closed behind the test."""
    with ExitStack() as stack:

        def opened(role: str, **options: object) -> Database:
            made = Database(database.url(role), **options)  # type: ignore[arg-type]  # as passed
            return stack.enter_context(closing(made))

        yield opened


@pytest.fixture
def stores(database: PreparedDatabase, connect: Connect) -> Stores:
    ids = FixedIds(10_000_000)

    def actor(role: str) -> Actor:
        pool = connect(role, limits=Limits(pool_size=3))
        return Actor(unit=PostgresUnitOfWork(pool, ids), finder=PostgresWorkFinder(pool))

    return Stores(
        api=actor(API),
        controller=actor(CONTROLLER),
        worker=actor(WORKER_RUN),
        webhook=actor(WEBHOOK),
        mail=actor(MAIL),
        resources=actor(RESOURCES),
        capture=actor(CAPTURE),
        relay=PostgresOutboxReader(connect(RELAY)),
        archive=PostgresEventArchive(connect(CONTROLLER)),
        queries=PostgresQueries(connect(API)),
        feed=PostgresChangeFeed(connect(API)),
        changes=PostgresResourceFeed(connect(API)),
        pass_time=database.pass_time,
    )
