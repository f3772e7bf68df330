"""The run path over the real database and broker, for tests."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from datarecs_testing.database import PreparedDatabase
from datarecs_testing.real_path import RealPath
from datarecs_testing.stack import KafkaBroker


@pytest.fixture(scope="session")
def principals(kafka_broker: KafkaBroker) -> Mapping[str, str]:
    """Passwords by principal, once topics and rights are in effect."""
    return kafka_broker.apply_catalogue()


@pytest.fixture
def path(
    database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    principals: Mapping[str, str],
    tmp_path: Path,
) -> Iterator[RealPath]:
    kafka_broker.skip_backlog("run-controller")
    kafka_broker.skip_backlog("email-notifier")
    with ExitStack() as open_things:
        real = RealPath(
            database=database,
            broker=kafka_broker,
            principals=principals,
            folder=tmp_path,
            open_things=open_things,
        )
        open_things.callback(real.stop.set)
        yield real
        real.stop.set()
