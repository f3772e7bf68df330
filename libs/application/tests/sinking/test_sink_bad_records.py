"""Records that cannot be written: the sink stops at them, or writes dead letters."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import SinkRecord
from datarecs_application.sinking.decoding import MOST_BYTES
from datarecs_application.sinking.task import SinkTask
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import DataWritten, SourcePartition
from datarecs_core.sink.definition import (
    ErrorPolicy,
    RouteRule,
    SinkMode,
    SinkTarget,
    Tolerance,
)
from datarecs_testing.sink_house import NAME, ORDERS, TOPIC, KilledError, SinkHouse, a_sink

P0, P1 = SourcePartition(TOPIC, 0), SourcePartition(TOPIC, 1)
COPY = SinkTarget(catalog="lake", namespace=("sales",), name="orders_copy")
DEAD_LETTERS = ErrorPolicy(tolerance=Tolerance.DEAD_LETTER, max_in_a_row=3)


def refuse_bad(house: SinkHouse, *targets: SinkTarget) -> None:
    """Records with `bad` fit none of these tables."""

    def reason(target: SinkTarget, record: SinkRecord) -> str | None:
        return "not a number" if target in targets and record.value.get("bad") else None

    house.tables.refuses = reason


def written(house: SinkHouse, target: SinkTarget = ORDERS) -> set[int]:
    """Offsets of partition 0 in the table, each once."""
    counts = house.tables.counts(target)
    assert set(counts.values()) <= {1}
    return {offset for partition, offset in counts if partition == P0}


def dead(house: SinkHouse) -> list[str | None]:
    """Offsets of the dead letters, as their headers say."""
    texts = [dict(letter.headers)["datarecs-dlq-offset"] for letter in letters(house)]
    return [text.decode() if text else None for text in texts]


def letters(house: SinkHouse) -> list[LogRecord]:
    payloads = house.cluster.records(f"{NAME}.dlq")
    return [payload for payload in payloads if isinstance(payload, LogRecord)]


@pytest.mark.case("I53")
@pytest.mark.parametrize("targets", [(ORDERS,), (ORDERS, COPY)], ids=["one table", "two tables"])
def test_the_sink_stops_at_a_bad_record_and_commits_what_is_before_it(
    targets: tuple[SinkTarget, ...],
) -> None:
    house = SinkHouse(a_sink(tables=targets))
    refuse_bad(house, targets[-1])
    task = house.task()
    house.send(5)
    house.send(1, bad=True)
    house.send(5)
    house.send(4, partition=1)
    house.run_cycles(3, task)
    for target in targets:
        assert written(house, target) == {0, 1, 2, 3, 4}
    report = house.memory.reports[-1]
    assert report.is_halted
    assert report.error_code == "BAD_RECORD"
    assert report.error == "orders 0, offset 5: amount: not a number"
    assert house.memory.stored.checkpoint.partitions[P0].accepted == 5


@pytest.mark.case("I53")
def test_a_mended_table_takes_the_record_after_a_restart() -> None:
    house = SinkHouse()
    refuse_bad(house, ORDERS)
    task = house.task()
    house.send(3)
    house.send(1, bad=True)
    house.send(3)
    house.run_cycles(2, task)
    refuse_bad(house)
    task.finish()
    house.run_cycles(2, house.task())
    assert house.mistakes() == ""


def test_a_halted_task_reads_no_other_partition() -> None:
    house = SinkHouse()
    task = house.task()
    house.send_value(b"no json")
    house.run_cycles(1, task)
    house.send(5, partition=1)
    house.run_cycles(2, task)
    assert house.tables.counts(ORDERS) == {}
    assert house.memory.reports[-1].is_halted


def test_records_after_a_bad_one_wait_in_a_table_that_takes_them() -> None:
    """Routed records: the other table has later records already, and gives them back."""
    first = routed(ORDERS, RouteRule(equals="a"))
    second = routed(COPY, RouteRule(equals="b"))
    house = SinkHouse(a_sink(tables=(first, second), route="kind"))
    refuse_bad(house, second)
    house.send(2, kind="a")
    house.send(1, kind="b", bad=True)
    house.send(2, kind="a")
    house.run_cycles(2, house.task())
    assert written(house, first) == {0, 1}
    assert written(house, second) == set()
    assert house.memory.reports[-1].error.startswith("orders 0, offset 2")


def routed(target: SinkTarget, rule: RouteRule) -> SinkTarget:
    return replace(target, route=rule)


@pytest.mark.case("I53")
def test_records_of_other_partitions_that_were_read_before_are_committed() -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, COPY)))
    refuse_bad(house, COPY)
    task = house.task()
    house.send(3, partition=1)
    house.run_for(timedelta(seconds=1), task)
    house.send(2)
    house.send(1, bad=True)
    house.run_for(timedelta(seconds=1), task)
    house.send(3)
    house.send(3, partition=1)
    house.run_cycles(2, task)
    for target in (ORDERS, COPY):
        assert written(house, target) == {0, 1}
        assert len(house.tables.counts(target)) == 5
    assert house.memory.reports[-1].error.startswith("orders 0, offset 2")


@pytest.mark.case("I54")
@pytest.mark.parametrize("refusing", [ORDERS, COPY])
def test_dead_letters_pass_bad_records_of_any_table(refusing: SinkTarget) -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, COPY), errors=DEAD_LETTERS))
    refuse_bad(house, refusing)
    for _ in range(4):
        house.send(3)
        house.send(2, bad=True)
    house.send_value(b"[]")
    house.run_cycles(3, house.task())
    good = {offset for offset in range(20) if offset % 5 < 3}
    assert written(house, ORDERS) == good
    assert written(house, COPY) == good
    assert dead(house) == [str(offset) for offset in range(21) if offset not in good]
    assert house.memory.reports[-1].dead_letters == 9
    assert not house.memory.reports[-1].is_halted


@pytest.mark.case("I54")
@pytest.mark.parametrize("moment", ["before vote", "after vote"])
def test_a_dead_letter_is_written_once_when_its_task_is_killed(moment: str) -> None:
    house = SinkHouse(a_sink(errors=DEAD_LETTERS))
    task = house.task(killed_at(moment))
    house.send(3)
    house.send_value(b"no json")
    with pytest.raises(KilledError):
        house.run_for(timedelta(minutes=1), task)
    house.kill(task)
    house.run_cycles(2, house.task())
    assert dead(house) == ["3"]
    assert written(house) == {0, 1, 2}


def killed_at(moment: str) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == moment:
            raise KilledError

    return hook


@pytest.mark.case("I54")
def test_one_dead_letter_too_many_in_a_row_stops_the_sink() -> None:
    house = SinkHouse(a_sink(errors=DEAD_LETTERS))
    refuse_bad(house, ORDERS)
    house.send(2)
    house.send(4, bad=True)
    house.send(2)
    house.run_cycles(3, house.task())
    assert written(house) == {0, 1}
    assert dead(house) == ["2", "3", "4"]
    report = house.memory.reports[-1]
    assert report.is_halted
    assert report.error.startswith("orders 0, offset 5")
    assert "it is bad record 4 in a row, and errors.max_in_a_row is 3" in report.error


@pytest.mark.case("I54")
@pytest.mark.parametrize("is_voted", [True, False])
def test_one_dead_letter_too_many_among_the_newest_records_stops_the_sink(
    *, is_voted: bool
) -> None:
    few = replace(DEAD_LETTERS, max_per_thousand=4)
    house = SinkHouse(a_sink(errors=few))
    task = house.task()
    refuse_bad(house, ORDERS)
    for _ in range(5):
        house.send(1, bad=True)
        house.send(200)
        if is_voted:
            house.run_cycles(1, task)
    house.send(1)
    house.run_cycles(2, task)
    assert dead(house) == ["0", "201", "402", "603"]
    report = house.memory.reports[-1]
    assert (report.error_code, report.is_halted) == ("BAD_RECORD", True)
    assert report.error.startswith(
        "orders 0, offset 804: amount: not a number; it is bad record 5 "
    )
    assert "errors.max_per_thousand is 4" in report.error
    house.kill(task)
    house.run_cycles(2, house.task())
    assert dead(house)[-1] == "804"
    assert not house.memory.reports[-1].is_halted


def test_dead_letters_that_are_far_apart_never_stop_the_sink() -> None:
    house = SinkHouse(a_sink(errors=replace(DEAD_LETTERS, max_per_thousand=1)))
    refuse_bad(house, ORDERS)
    for _ in range(4):
        house.send(1, bad=True)
        house.send(999)
    house.run_cycles(3, house.task())
    assert dead(house) == ["0", "1000", "2000", "3000"]
    assert not house.memory.reports[-1].is_halted


def test_dead_letters_are_counted_across_polls_and_votes() -> None:
    house = SinkHouse(a_sink(errors=DEAD_LETTERS))
    task = house.task()
    for _ in range(3):
        house.send_value(b"no json")
        house.run_cycles(1, task)
    assert [report.is_halted for report in house.memory.reports[-1:]] == [False]
    house.send_value(b"no json")
    house.run_cycles(2, task)
    assert [report.is_halted for report in house.memory.reports[-1:]] == [True]
    assert dead(house) == ["0", "1", "2"]


@pytest.mark.parametrize("tolerance", Tolerance)
def test_a_record_too_large_stops_the_sink_whatever_the_tolerance(tolerance: Tolerance) -> None:
    """It would be too large for a dead letter."""
    house = SinkHouse(a_sink(errors=ErrorPolicy(tolerance=tolerance)))
    house.send(2)
    house.send_value(b"x" * (MOST_BYTES + 1))
    house.send(2)
    house.run_cycles(2, house.task())
    report = house.memory.reports[-1]
    assert report.is_halted
    assert report.error_code == "RECORD_TOO_LARGE"
    assert report.error.startswith("orders 0, offset 2")
    assert written(house) == {0, 1}
    assert dead(house) == []


def test_a_key_to_delete_that_is_too_large_stops_the_sink() -> None:
    house = SinkHouse(a_sink(mode=SinkMode.UPSERT, errors=DEAD_LETTERS))
    house.cluster.append(TOPIC, None, key=b"x" * (MOST_BYTES + 1))
    task = house.task()
    house.run_until(lambda: bool(house.memory.reports and house.memory.reports[-1].is_halted), task)
    assert house.memory.reports[-1].error_code == "RECORD_TOO_LARGE"


def test_a_dead_letter_that_its_topic_does_not_take_stops_the_sink() -> None:
    house = SinkHouse(a_sink(errors=DEAD_LETTERS))

    def refuse(name: str) -> None:
        if name == "before vote":
            raise SinkError(SinkCode.RECORD_TOO_LARGE, "orders 0, offset 0: too large")

    house.send_value(b"no json")
    task = house.task(refuse)
    house.run_until(lambda: bool(house.memory.reports and house.memory.reports[-1].is_halted), task)
    assert house.memory.reports[-1].error == "orders 0, offset 0: too large"
    house.run_for(timedelta(minutes=1), task)
    assert task.worker is None


def test_records_without_a_value_are_passed_over() -> None:
    house = SinkHouse()
    task = house.task()
    house.send_value(None)
    house.send(1)
    house.run_cycles(1, task)
    assert written(house) == {1}
    assert tombstones(task) == 1


def tombstones(task: SinkTask) -> int:
    assert task.worker is not None
    return task.worker.intake.tombstones


@pytest.mark.case("I37")
def test_records_for_no_table_are_counted_and_passed_over() -> None:
    first = routed(ORDERS, RouteRule(equals="order"))
    second = routed(COPY, RouteRule(any_of=("refund", "return")))
    house = SinkHouse(a_sink(tables=(first, second), route="meta.kind"))
    task = house.task()
    for kind in ("order", "refund", "other", "order", "return"):
        house.send(1, meta={"kind": kind})
    house.run_cycles(1, task)
    assert written(house, first) == {0, 3}
    assert written(house, second) == {1, 4}
    assert house.memory.stored.checkpoint.partitions[P0].accepted == 5
    assert task.worker is not None
    assert task.worker.intake.unrouted == 1


def test_a_missing_table_hinders_until_somebody_creates_it() -> None:
    house = SinkHouse()
    house.tables.drop(ORDERS)
    task = house.task()
    house.send(5)
    house.run_cycles(2, task)
    assert house.memory.reports[-1].error_code == "TABLE_LOST"
    assert not house.memory.reports[-1].is_halted
    house.tables.create(ORDERS)
    house.run_cycles(2, task)
    assert house.mistakes() == ""
    assert house.memory.reports[-1].error_code == ""


def test_a_created_table_is_there_at_the_first_record() -> None:
    house = SinkHouse()
    house.tables.drop(ORDERS)
    house.tables.has_auto_create = True
    house.send(5)
    house.run_cycles(1, house.task())
    assert house.mistakes() == ""


def test_files_are_of_the_table_that_the_writer_loaded() -> None:
    house = SinkHouse()
    task = house.task()
    before = house.tables.table(ORDERS).uuid
    house.run_cycles(1, task)
    house.send(3)
    house.run_for(timedelta(seconds=2), task)
    house.tables.create(ORDERS)
    house.send(3)
    house.run_until(lambda: written_tables(house) != set(), task)
    assert written_tables(house) == {before}
    assert house.tables.counts(ORDERS) == {}


def written_tables(house: SinkHouse) -> set[UUID]:
    return {one.table.uuid for one in house.control() if isinstance(one, DataWritten)}
