"""One platform for all cases: only what a case kills is started again."""

from collections.abc import Iterator

import pytest

from datarecs_testing.crashes.house import House, crash_house
from datarecs_testing.database import PreparedDatabase, copied
from datarecs_testing.stack import KafkaBroker


@pytest.fixture(scope="module")
def house(
    migrated_template: PreparedDatabase,
    kafka_broker: KafkaBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    """All services as processes that end at the ordered places."""
    folder = tmp_path_factory.mktemp("crash") / "house"
    with (
        copied(migrated_template) as database,
        crash_house(folder, database, kafka_broker) as started,
    ):
        yield started
