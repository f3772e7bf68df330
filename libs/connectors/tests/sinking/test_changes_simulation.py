"""A sink that upserts and deletes, with real tables, while its processes die in any call."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from datarecs_application.sinking.task import SinkTask
from datarecs_core.resources.connection import IcebergConfig
from datarecs_core.sink.definition import CdcRule, CommitPolicy, SinkMode, SinkTarget
from datarecs_testing.lake import NAMESPACE, a_lake
from datarecs_testing.sink_house import TOPIC, KilledError, SinkHouse, a_sink

from .sink_house import House

TARGET = SinkTarget(catalog="lake", namespace=(NAMESPACE,), name="orders")
FAST = CommitPolicy(interval=timedelta(seconds=3), timeout=timedelta(seconds=2))
KEYS, PARTITIONS = 6, 2
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    identifier_field_ids=[1],
)


@dataclass
class Fuse:
    """Kills its process after some calls of ports."""

    calls_left: int | None = None

    def __call__(self, _: str) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left <= 0:
                raise KilledError


@dataclass
class World:
    """The sink, and the rows that the table must have."""

    random: Random
    real: House
    mode: SinkMode
    model: dict[int, str] = field(default_factory=dict)
    tasks: dict[str, tuple[SinkTask, Fuse]] = field(default_factory=dict)
    kills: int = 0
    sent: int = 0

    def __post_init__(self) -> None:
        cdc = CdcRule(path="op") if self.mode is SinkMode.CDC else None
        sink = a_sink(tables=(TARGET,), mode=self.mode, cdc=cdc, commit=FAST, memory=3_000)
        self.house = SinkHouse(sink, partitions=PARTITIONS)
        self.house.tables = cast("Any", replace(self.real, sink=sink).tables())

    def step(self) -> None:
        for task, _ in list(self.tasks.values()):
            try:
                self.house.step(task)
            except KilledError:
                self.kills += 1
                del self.tasks[task.name]
                self.house.kill(task)

    def send(self) -> None:
        number = self.random.randrange(KEYS)
        is_known, self.sent = number in self.model, self.sent + 1
        partition = number % PARTITIONS
        if is_known and self.random.random() < 0.3:
            del self.model[number]
            self._delete(number, partition)
            return
        name = self.model[number] = f"v{self.sent}"
        op = "u" if is_known else "c"
        self._append(f'{{"id":{number},"name":"{name}","op":"{op}"}}', partition)

    def _delete(self, number: int, partition: int) -> None:
        if self.mode is SinkMode.CDC and self.random.random() < 0.5:
            self._append(f'{{"id":{number},"op":"d"}}', partition)
        else:
            key = f'{{"id":{number}}}'.encode()
            self.house.cluster.append(TOPIC, None, partition=partition, key=key)

    def _append(self, value: str, partition: int) -> None:
        self.house.cluster.append(TOPIC, value.encode(), partition=partition)

    def start(self) -> None:
        if len(self.tasks) < PARTITIONS:
            fuse = Fuse()
            task = self.house.task(fuse)
            self.tasks[task.name] = (task, fuse)

    def light_fuse(self) -> None:
        if self.tasks:
            _, fuse = self.random.choice(list(self.tasks.values()))
            fuse.calls_left = self.random.randint(1, 40)

    def wait(self) -> None:
        self.house.clock.advance(timedelta(milliseconds=self.random.randint(0, 2_000)))

    def run(self, steps: int) -> None:
        actions = [self.step, self.send, self.wait, self.start, self.light_fuse]
        for _ in range(steps):
            (action,) = self.random.choices(actions, [30, 40, 10, 4, 2])
            action()

    def settle(self) -> None:
        for task, _ in self.tasks.values():
            self.house.kill(task)
        task = self.house.task()
        wanted = {one: len(offsets) for one, offsets in self.house.sent().items()}

        def is_done() -> bool:
            partitions = self.house.memory.stored.checkpoint.partitions
            accepted = {one: partitions[one].accepted for one in wanted if one in partitions}
            return accepted == wanted

        self.house.run_until(is_done, task)
        task.finish()

    def rows(self) -> list[tuple[int, str]]:
        return sorted((row["id"], row["name"]) for row in self.real.rows())


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.case("I48")
# A task that is killed leaves its files open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mode", [SinkMode.UPSERT, SinkMode.CDC])
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_the_table_is_what_the_records_say_whoever_dies(
    folder: Path, mode: SinkMode, seed: int
) -> None:
    with ExitStack() as closing, TemporaryDirectory(dir=folder) as name:
        lake = a_lake(Path(name) / "lake", closing)
        config = lake.connection.config
        assert isinstance(config, IcebergConfig)
        lake.table("orders", SCHEMA)
        world = World(random=Random(seed), real=House(lake=lake, config=config), mode=mode)  # noqa: S311  a test
        world.run(150)
        world.settle()
        assert world.rows() == sorted(world.model.items())
