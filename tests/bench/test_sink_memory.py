"""The small form of the case: what a task has in memory does not grow with its records."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from datarecs_testing.database import PreparedDatabase
from datarecs_testing.sink_process import SinkHouse
from datarecs_testing.stack import KafkaBroker
from tests.bench.sink_memory import MemoryPlan, measure

PLAN = MemoryPlan(
    partitions=20, tables=4, memory_mib=64, records=30_000, record_bytes=1_000, interval_s=5
)


@pytest.mark.integration
@pytest.mark.case("I59")
def test_a_task_of_many_partitions_and_tables_writes_files_instead_of_filling_its_memory(
    private_database: PreparedDatabase, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """Each record is in four buffers: 120 MB of values go through a budget of 64 MiB."""
    with ExitStack() as stack:
        house = SinkHouse(
            database=private_database,
            broker=kafka_broker,
            folder=tmp_path,
            stack=stack,
            partitions=PLAN.partitions,
        )
        figures = measure(house, PLAN)
    assert figures.row_groups > figures.files, "buffers were written before the commit"
    assert figures.resident_mib < 512
