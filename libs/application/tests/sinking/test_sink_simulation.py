"""A sink under a random scheduler: tasks die in any call, sleep, wake up; ports fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.sinking import DeadLetter, MemberStamp, Polled
from datarecs_application.sinking.task import SinkTask
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.admission import ControlFold
from datarecs_core.sink.control import Outgoing, SourcePartition
from datarecs_core.sink.definition import CommitPolicy, SinkTarget
from datarecs_memory.sink_cluster import Interruption
from datarecs_memory.sink_log import MemoryMember, MemorySinkLog, MemorySinkProducer
from datarecs_runtime.environment import process_environment
from datarecs_testing.sink_house import INTERVAL, NAME, ORDERS, KilledError, SinkHouse, a_sink

COPY = SinkTarget(catalog="lake", namespace=("sales",), name="orders_copy")
PARTITIONS = 3
MOST_TASKS = 3
FAST = CommitPolicy(interval=timedelta(seconds=3), timeout=timedelta(seconds=2))
SINK = a_sink(tables=(ORDERS, COPY), memory=20_000, commit=FAST)


@dataclass
class Fuse:
    """Kills its process after some calls of ports, or lets it sleep in the middle of one."""

    pause: Callable[["Fuse"], None]
    calls_left: int | None = None

    def __call__(self, _: str) -> None:
        self.pause(self)
        if self.calls_left is None:
            return
        self.calls_left -= 1
        if self.calls_left <= 0:
            raise KilledError


@dataclass
class Simulation:
    random: Random
    house: SinkHouse
    tasks: dict[str, tuple[SinkTask, Fuse]] = field(default_factory=dict)
    asleep: list[tuple[SinkTask, Fuse]] = field(default_factory=list)
    kills: int = 0
    naps: int = 0
    is_napping: bool = False
    nap_share: float = 0.01

    def run(self, steps: int) -> None:
        actions: list[tuple[Callable[[], None], int]] = [
            (self.step_worker, 60),
            (self.step_coordinator, 30),
            (self.send, 20),
            (self.wait, 10),
            (self.start, 3),
            (self.light_fuse, 2),
            (self.sleep, 1),
            (self.wake, 1),
            (self.fail_commit, 1),
            (self.interrupt, 1),
            (self.forget_offsets, 1),
            (self.fail_memory, 1),
            (self.request, 1),
        ]
        choices, weights = zip(*actions, strict=True)
        for _ in range(steps):
            self.random.choices(choices, weights)[0]()

    def pick(self) -> tuple[SinkTask, Fuse] | None:
        return self.random.choice(list(self.tasks.values())) if self.tasks else None

    def step_worker(self) -> None:
        self._step(SinkTask.step_worker)

    def step_coordinator(self) -> None:
        self._step(SinkTask.step_coordinator)

    def _step(self, step: Callable[[SinkTask], object]) -> None:
        picked = self.pick()
        if picked is None:
            return
        task, _ = picked
        try:
            step(task)
        except KilledError:
            self.kills += 1
            del self.tasks[task.name]
            self.house.kill(task)

    def send(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        self.house.send(self.random.randint(1, 30), partition=partition)

    def wait(self) -> None:
        self.house.clock.advance(timedelta(milliseconds=self.random.randint(0, 2_000)))

    def start(self) -> None:
        if len(self.tasks) < MOST_TASKS:
            fuse = Fuse(self.nap)
            task = self.house.task(fuse)
            self.tasks[task.name] = (task, fuse)

    def nap(self, fuse: Fuse) -> None:
        """In a call of a port the process sleeps past its session, and the others go on."""
        sleeper = next((pair for pair in self.tasks.values() if pair[1] is fuse), None)
        if self.is_napping or sleeper is None or self.random.random() > self.nap_share:
            return
        self.is_napping = True
        self.naps += 1
        name = sleeper[0].name
        del self.tasks[name]
        self.house.kill(sleeper[0])
        for _ in range(self.random.randint(1, 60)):
            self.wait()
            self.step_worker()
            self.step_coordinator()
        self.tasks[name] = sleeper
        self.is_napping = False

    def light_fuse(self) -> None:
        picked = self.pick()
        if picked is not None:
            picked[1].calls_left = self.random.randint(1, 60)

    def sleep(self) -> None:
        picked = self.pick()
        if picked is not None:
            del self.tasks[picked[0].name]
            self.house.kill(picked[0])
            self.asleep.append(picked)

    def wake(self) -> None:
        if self.asleep:
            picked = self.asleep.pop(self.random.randrange(len(self.asleep)))
            self.tasks[picked[0].name] = picked

    def fail_commit(self) -> None:
        table = self.house.tables.table(self.random.choice((ORDERS, COPY)))
        faults = self.random.choice((table.faults, table.late_faults))
        faults.append(SinkError(SinkCode.COMMIT_FAILED, "a test simulates a catalog"))

    def interrupt(self) -> None:
        self.house.cluster.expire_transactions()
        self.house.cluster.interruptions.append(self.random.choice(list(Interruption)))

    def forget_offsets(self) -> None:
        if self.random.random() < 0.2:
            self.house.cluster.delete_group_offsets(NAME)

    def fail_memory(self) -> None:
        self.house.memory.faults.append(StoreUnavailableError(cause="a test simulates an outage"))

    def request(self) -> None:
        self.house.memory.request_commit()

    def settle(self) -> None:
        """Everybody who still lives goes on without faults until nothing is left to commit."""
        house = self.house
        self.nap_share = -1
        house.cluster.interruptions.clear()
        house.cluster.expire_transactions()
        house.memory.faults.clear()
        for target in (ORDERS, COPY):
            house.tables.table(target).faults.clear()
            house.tables.table(target).late_faults.clear()
        for _, fuse in (*self.tasks.values(), *self.asleep):
            fuse.calls_left = None
        while self.asleep:
            self.wake()
        self.start()
        tasks = [task for task, _ in self.tasks.values()]
        for _ in range(20):
            house.run_for(timedelta(seconds=6), *tasks)
            if not house.mistakes() and not house.mistakes(COPY):
                break
        house.run_for(timedelta(seconds=6), *tasks)
        assert not house.mistakes()


def simulate(
    seed: int, *, fences: bool, steps: int, house: type[SinkHouse] = SinkHouse
) -> Simulation:
    random = Random(seed)  # noqa: S311 - the same seed, the same run
    simulation = Simulation(random, house(SINK, partitions=PARTITIONS))
    simulation.house.cluster.accepts_stale_generations = not fences
    simulation.run(steps)
    simulation.settle()
    return simulation


def assert_once(house: SinkHouse) -> None:
    """Each record in each table, and each snapshot in the memory."""
    assert house.mistakes(ORDERS) == ""
    assert house.mistakes(COPY) == ""
    stored = sorted((one.table.name, one.snapshot_id) for one in house.memory.table_commits)
    assert stored == sorted(
        (one.commit.table.name, one.commit.snapshot_id)
        for target in (ORDERS, COPY)
        for one in house.tables.table(target).snapshots
    )


SEED_WITH_DOUBLES = 1
LONG_RUNS = 40 if process_environment().get("DATARECS_TEST_CRASH") == "all" else 20
"""Seeds of long runs: `make crash` takes all, `make test` a sample."""
BROKERS = pytest.mark.parametrize("fences", [True, False], ids=["fencing", "careless"])


@pytest.mark.case("I03")
@pytest.mark.case("I05")
@pytest.mark.case("I07")
@pytest.mark.case("I08")
@pytest.mark.case("I09")
@pytest.mark.case("I15")
@BROKERS
@pytest.mark.parametrize("seed", range(6))
def test_whatever_dies_or_fails_each_record_is_in_each_table_once(seed: int, fences: bool) -> None:
    assert_once(simulate(seed, fences=fences, steps=700).house)


@pytest.mark.slow
@BROKERS
@pytest.mark.parametrize("seed", range(100, 100 + LONG_RUNS))
def test_long_runs_lose_and_double_nothing(seed: int, fences: bool) -> None:
    assert_once(simulate(seed, fences=fences, steps=1_500).house)


@pytest.mark.case("I08")
def test_without_ranges_a_careless_broker_doubles_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The simulation notices what ranges prevent."""
    monkeypatch.setattr(ControlFold, "_refusal", lambda _self, _ranges: None)
    with pytest.raises(AssertionError):
        simulate(SEED_WITH_DOUBLES, fences=False, steps=700)


@pytest.mark.case("I04")
def test_a_vote_that_was_cut_off_ends_when_its_task_begins_again() -> None:
    """Until then nobody reads past it in the control topic; nothing here ends it by time."""
    house = SinkHouse()

    calls: list[str] = []

    def cut_off(name: str) -> None:
        if name == "before vote":
            house.cluster.interruptions.append(Interruption.LEFT_OPEN)
        if "before vote" in calls:
            raise KilledError
        calls.append(name)

    task = house.task(cut_off)
    house.send(5)
    with pytest.raises(KilledError):
        house.run_for(3 * INTERVAL, task)
    house.kill(task)
    successor = house.task()
    successor.name = task.name
    house.run_until(lambda: house.mistakes() == "", successor)


# --- the two walls: the stamp of a vote, and its ranges


class CurrentStampLog(MemorySinkLog):
    """The log of a worker that does not notice another generation.

    Its votes state the membership of the moment at which they are sent.
    """

    __slots__ = ("_member",)
    _member: MemoryMember

    def member(self) -> MemoryMember:
        member = UnnoticedMember(self)
        object.__setattr__(self, "_member", member)  # the log is frozen
        return member

    def producer(self, role: str) -> MemorySinkProducer:
        return CurrentStampProducer(self, role)

    def current(self) -> MemberStamp:
        return self.cluster.stamp(self.name, self._member.stamp().member_id)


class UnnoticedMember(MemoryMember):
    def poll(self, timeout: timedelta, *, max_records: int) -> Polled:
        polled = super().poll(timeout, max_records=max_records)
        return replace(polled, stamp=replace(polled.stamp, generation=1, member_id="the same"))


class CurrentStampProducer(MemorySinkProducer):
    def __init__(self, log: CurrentStampLog, role: str) -> None:
        super().__init__(log, role)
        self._of = log

    def vote(
        self,
        messages: Sequence[Outgoing],
        offsets: Mapping[SourcePartition, int],
        stamp: MemberStamp,
        dead_letters: Sequence[DeadLetter],
    ) -> None:
        del stamp
        super().vote(messages, offsets, self._of.current(), dead_letters)


class HouseWithoutStamps(SinkHouse):
    def log(self) -> MemorySinkLog:
        return CurrentStampLog(
            cluster=self.cluster, ids=self.ids, name=NAME, topics=self.sink.topics
        )


def admit_all(_fold: object, _ranges: object) -> None:
    """No range refuses a vote."""


WALLS = pytest.mark.parametrize(
    ("stamps", "ranges"),
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["both", "stamps alone", "ranges alone", "neither"],
)


@pytest.mark.case("I08")
@WALLS
def test_each_wall_alone_stops_a_task_that_votes_what_another_one_has_voted(
    monkeypatch: pytest.MonkeyPatch, stamps: bool, ranges: bool
) -> None:
    if not ranges:
        monkeypatch.setattr(ControlFold, "_refusal", admit_all)
    house = (SinkHouse if stamps else HouseWithoutStamps)(partitions=1)
    sleeper = house.task()
    house.run_cycles(1, sleeper)
    house.send(5)
    house.step(sleeper, times=3)  # they are read and not voted
    house.kill(sleeper)
    successor = house.task()
    house.run_until(lambda: house.mistakes() == "", successor)
    successor.finish()
    house.run_for(3 * INTERVAL, sleeper)
    has_both_down = not (stamps or ranges)
    assert ("doubled" in house.mistakes()) == has_both_down


@pytest.mark.case("I08")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("stamps", [True, False], ids=["stamps alone", "ranges alone"])
def test_one_wall_alone_is_enough_whatever_dies_or_fails(
    monkeypatch: pytest.MonkeyPatch, stamps: bool, seed: int
) -> None:
    if stamps:
        monkeypatch.setattr(ControlFold, "_refusal", admit_all)
    house = SinkHouse if stamps else HouseWithoutStamps
    assert simulate(seed, fences=True, steps=700, house=house).house.mistakes() == ""
