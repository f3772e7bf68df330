"""Records that nobody expects: the sink goes on, or says where it fails."""

from datetime import timedelta

import pytest

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import DecodedValue, SinkRecord
from datarecs_application.sinking.decoding import decode_object
from datarecs_application.sinking.task import SinkTask
from datarecs_core.errors.sink import SinkCode
from datarecs_core.sink.checkpoint import TaskReport
from datarecs_core.sink.control import DataComplete, SourcePartition
from datarecs_core.sink.definition import ErrorPolicy, RowChange, SinkMode, SinkTarget, Tolerance
from datarecs_testing.sink_house import NAME, ORDERS, TOPIC, SinkHouse, a_sink

P0 = SourcePartition(TOPIC, 0)
DEAD_LETTERS = ErrorPolicy(tolerance=Tolerance.DEAD_LETTER)
SECOND = timedelta(seconds=1)


def last_report(house: SinkHouse) -> TaskReport:
    return house.memory.reports[-1]


@pytest.mark.parametrize("stamp", [253_402_300_800_000, 2**63 - 1, -2, -(2**63)])
def test_a_record_whose_timestamp_is_no_time_holds_nothing_up(stamp: int) -> None:
    house = SinkHouse()
    house.send(3)
    record = house.cluster.read(P0, 1, 1)[0][0]
    object.__setattr__(record, "timestamp_ms", stamp)
    house.run_cycles(1, house.task())
    assert house.mistakes() == ""
    votes = [message for message in house.control() if isinstance(message, DataComplete)]
    times = {one.partition: one.timestamp for vote in votes for one in vote.positions}
    newest = times[P0]
    assert newest is not None
    assert newest.year < 9999


def test_deletes_make_no_table_and_are_counted() -> None:
    house = SinkHouse(a_sink(mode=SinkMode.UPSERT))
    house.tables.has_auto_create = True
    house.tables.drop(ORDERS)
    task = house.task()
    house.cluster.append(TOPIC, None, key=b'{"id": 1}')
    house.run_cycles(1, task)
    assert house.tables.reference(ORDERS) is None
    house.cluster.append(TOPIC, None, key=b'{"id": 1}')
    house.send(1)
    house.cluster.append(TOPIC, None, key=b'{"id": 1}')
    house.run_cycles(1, task)
    assert [row.change for row in house.tables.rows(ORDERS)] == [RowChange.UPDATE, RowChange.DELETE]
    house.run_for(11 * SECOND, task)
    assert last_report(house).tombstones == 2
    assert last_report(house).positions[P0] == 4


def test_an_exception_in_a_batch_is_reported_with_its_place_and_without_its_text() -> None:
    house = SinkHouse()

    def failing(_target: SinkTarget, record: SinkRecord) -> None:
        if record.value.get("boom"):
            raise KeyError("secret")

    house.tables.refuses = failing
    task = house.task()
    house.send(2)
    house.run_cycles(1, task)
    house.send(2)
    house.send(1, boom=True)
    house.run_for(2 * SECOND, task)
    report = last_report(house)
    assert report.error_code == "UNKNOWN"
    assert report.error == (
        f"table {ORDERS}, orders 0, offsets 2 to 4: KeyError, a defect of datarecs; "
        "the log of iceberg-sink has the details"
    )
    house.tables.refuses = lambda _target, _record: None
    house.run_cycles(1, task)
    assert house.mistakes() == ""


def decoding(house: SinkHouse) -> SinkTask:
    task = house.task()

    def decode(value: bytes) -> DecodedValue:
        if b"boom" in value:
            raise TypeError("secret")
        return decode_object(value)

    task.decode = decode
    return task


def test_an_exception_of_the_decoder_is_the_fault_of_its_record() -> None:
    house = SinkHouse(a_sink(errors=DEAD_LETTERS))
    house.send(2)
    house.send(1, boom=True)
    house.send(2)
    house.run_cycles(1, decoding(house))
    assert {place[1] for place in house.tables.counts(ORDERS)} == {0, 1, 3, 4}
    (letter,) = house.cluster.records(f"{NAME}.dlq")
    assert isinstance(letter, LogRecord)
    headers = dict(letter.headers)
    assert headers["datarecs-dlq-reason"] == b"the record cannot be converted (TypeError)"


def test_without_tolerance_the_sink_stops_at_such_a_record() -> None:
    house = SinkHouse()
    house.send(2)
    house.send(1, boom=True)
    house.run_for(5 * SECOND, decoding(house))
    report = last_report(house)
    assert (report.is_halted, report.error_code) == (True, SinkCode.BAD_RECORD.name)
    assert report.error == "orders 0, offset 2: the record cannot be converted (TypeError)"
