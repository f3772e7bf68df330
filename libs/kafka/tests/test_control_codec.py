"""Control messages against files that the Java library wrote (`control_messages`)."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.sink.control import (
    CommitComplete,
    CommitToTable,
    DataComplete,
    DataWritten,
    FileContent,
    FileEntry,
    Message,
    PartitionField,
    Position,
    SourcePartition,
    StartCommit,
    TableReference,
)
from datarecs_kafka.avro_binary import Array, Leaf, Node, Record, Union, compiled
from datarecs_kafka.control_codec import ControlDecodeError, Event, decode_event, encode_event

FOLDER = Path(__file__).parent / "control_messages"
JAVA = sorted(FOLDER.glob("*.bin"))
GROUP = "cg-control-orders"
COMMIT = UUID("019bc000-0000-7000-8000-00000000abcd")
TIME = datetime(2026, 1, 15, 12, 0, 0, 123456, tzinfo=UTC)
TABLE = TableReference(
    catalog="lake",
    namespace=("shop", "eu"),
    name="orders",
    uuid=UUID("5c1f0b9e-9a0e-4a50-8f2e-0d6f8e6f7a11"),
)
ALLOWED_FIELDS = {
    *(100, 101, 102, 103, 104, 108, 109, 110, 125, 128, 131, 132, 134, 135, 137, 140, 141, 142),
    *(143, 144, 145, *range(117, 123), 126, 127, 129, 130, 138, 139),
    *(10000, 10001, 10100, 10101, 10200, *range(10300, 10306), *range(10400, 10404)),
    *range(10500, 10505),
    *range(10600, 10605),
    *range(10700, 10704),
}
"""Ids of the specification; columns of a partition begin at 1000."""


def java(name: str) -> bytes:
    return (FOLDER / f"{name}.bin").read_bytes()


def event(message: Message, *, time: datetime = TIME) -> Event:
    return Event(id=COMMIT, group=GROUP, time=time, message=message)


def a_file(**changes: Any) -> FileEntry:  # noqa: ANN401 - any attribute
    facts: dict[str, Any] = {"path": "s3://lake/a.parquet", "spec_id": 0}
    return FileEntry(**(facts | {"record_count": 12, "size": 4321} | changes))


@pytest.mark.case("I31")
@pytest.mark.parametrize("path", JAVA, ids=lambda path: path.stem)
def test_a_message_of_the_java_library_is_decoded_and_encoded_to_equal_bytes(path: Path) -> None:
    assert encode_event(decode_event(path.read_bytes())) == path.read_bytes()


@pytest.mark.case("I31")
def test_the_files_of_the_java_library_cover_every_type() -> None:
    types = {type(decode_event(path.read_bytes()).message) for path in JAVA}
    assert types == {StartCommit, DataWritten, DataComplete, CommitToTable, CommitComplete}


def test_a_vote_has_the_values_of_the_java_library() -> None:
    read = decode_event(java("data_complete"))
    assert read.group == GROUP
    assert read.message == DataComplete(
        commit_id=COMMIT,
        positions=(
            Position(partition=SourcePartition("orders", 0), offset=1350, timestamp=TIME),
            Position(partition=SourcePartition("orders", 1), offset=None, timestamp=None),
        ),
    )


def test_files_have_the_values_of_the_java_library() -> None:
    message = decode_event(java("data_written_partitioned")).message
    assert isinstance(message, DataWritten)
    day = PartitionField(field_id=1000, name="at_day", type="date", value=20468)
    bucket = PartitionField(field_id=1001, name="id_bucket", type="int", value=7)
    name = PartitionField(field_id=1002, name="name_trunc", type="string", value="abcd")
    assert message.table == TABLE
    assert message.data_files[0] == FileEntry(
        path="s3://lake/orders/data/00000-1.parquet",
        spec_id=3,
        partition=(day, bucket, name),
        record_count=12,
        size=4321,
        column_sizes={1: 100, 5: 200},
        value_counts={1: 12, 5: 12},
        null_value_counts={1: 0, 5: 3},
        nan_value_counts={10: 1},
        lower_bounds={1: bytes([1, 0, 0, 0, 0, 0, 0, 0])},
        upper_bounds={1: bytes([9, 0, 0, 0, 0, 0, 0, 0])},
        split_offsets=(4, 2048),
        sort_order_id=0,
    )
    assert message.delete_files[0].content is FileContent.EQUALITY_DELETES
    assert message.delete_files[0].equality_ids == (1, 5)


def test_each_type_of_a_partition_has_its_value() -> None:
    message = decode_event(java("data_written_all_types")).message
    assert isinstance(message, DataWritten)
    assert {one.name: (one.type, one.value) for one in message.data_files[0].partition} == {
        "id": ("long", 5),
        "day": ("date", 20468),
        "at": ("timestamptz", 1768478400123456),
        "local": ("timestamp", 1768478400123457),
        "name": ("string", "ümläut"),
        "price": ("decimal(9, 2)", Decimal("-12.34")),
        "key": ("uuid", TABLE.uuid),
        "raw": ("binary", b"\x01\x02\xff"),
        "ratio": ("double", 2.5),
        "small": ("float", 1.25),
        "flag": ("boolean", True),
        "clock": ("time", 3_600_000_000),
        "number": ("int", -4),
        "1st größe-m²": ("string", "ß"),
        "other_price": ("decimal(9, 2)", Decimal("0.05")),
    }


OURS: dict[str, Message] = {
    "start_commit": StartCommit(commit_id=COMMIT),
    "data_complete": DataComplete(
        commit_id=COMMIT,
        positions=(
            Position(partition=SourcePartition("orders", 3), offset=2**40, timestamp=TIME),
            Position(partition=SourcePartition("größe", 0), offset=None, timestamp=None),
        ),
    ),
    "commit_to_table": CommitToTable(
        commit_id=COMMIT, table=TABLE, snapshot_id=-77, valid_through=TIME
    ),
    "commit_complete": CommitComplete(commit_id=COMMIT, valid_through=None),
    "data_written": DataWritten(
        commit_id=COMMIT,
        table=TABLE,
        data_files=(
            a_file(
                partition=(
                    PartitionField(field_id=1000, name="d", type="date", value=-3),
                    PartitionField(
                        field_id=1001, name="p 2", type="decimal(38, 3)", value=Decimal("1" * 35)
                    ),
                    PartitionField(field_id=1002, name="k", type="uuid", value=COMMIT),
                    PartitionField(field_id=1003, name="\U0001d4b3", type="string", value=None),
                ),
                spec_id=2,
                column_sizes={2: 5, 1: 2**40},
                lower_bounds={1: b"\x01"},
                split_offsets=(4,),
            ),
        ),
    ),
    "data_written_empty": DataWritten(commit_id=COMMIT, table=TABLE),
}
"""What the Java library read of them is in `ours/read_by_java.txt`."""


@pytest.mark.case("I31")
@pytest.mark.parametrize("name", OURS)
def test_what_the_java_library_has_read_is_what_is_encoded(name: str) -> None:
    assert encode_event(event(OURS[name])) == (FOLDER / "ours" / f"{name}.bin").read_bytes()


def test_a_number_with_more_digits_than_its_scale_is_refused() -> None:
    price = PartitionField(field_id=1000, name="p", type="decimal(9, 2)", value=Decimal("1.234"))
    message = DataWritten(commit_id=COMMIT, table=TABLE, data_files=(a_file(partition=(price,)),))
    with pytest.raises(ValueError, match="more than 2 digits"):
        encode_event(event(message))


def test_files_of_two_partition_specs_do_not_fit_into_one_message() -> None:
    day = PartitionField(field_id=1000, name="d", type="date", value=1)
    files = (a_file(), a_file(partition=(day,)))
    with pytest.raises(ValueError, match="other columns"):
        encode_event(event(DataWritten(commit_id=COMMIT, table=TABLE, data_files=files)))


# --- no field is added


numbers = st.integers(-(2**63), 2**63 - 1)
counts = st.dictionaries(st.integers(0, 2**31 - 1), numbers, max_size=3)
bounds = st.dictionaries(st.integers(0, 2**31 - 1), st.binary(max_size=9), max_size=3)
times = st.none() | st.datetimes(timezones=st.just(UTC))
tables = st.builds(
    TableReference,
    catalog=st.text(),
    namespace=st.lists(st.text(), max_size=3).map(tuple),
    name=st.text(),
    uuid=st.uuids(),
)
COLUMNS = {
    "long": numbers,
    "date": st.integers(-(2**31), 2**31 - 1),
    "string": st.text(),
    "binary": st.binary(),
    "fixed[3]": st.binary(min_size=3, max_size=3),
    "decimal(38, 4)": st.decimals(-(10**30), 10**30, places=4),
    "uuid": st.uuids(),
    "boolean": st.booleans(),
    "double": st.floats(allow_nan=False),
}


@st.composite
def written(draw: st.DrawFn) -> DataWritten:
    """Files of one table and one partition spec."""
    columns = draw(
        st.lists(
            st.tuples(st.text(min_size=1), st.sampled_from(sorted(COLUMNS))),
            max_size=4,
            unique_by=lambda column: column[0],
        )
    )

    def files(*contents: FileContent) -> st.SearchStrategy[list[FileEntry]]:
        partition = st.tuples(*(st.none() | COLUMNS[kind] for _, kind in columns)).map(
            lambda values: tuple(
                PartitionField(field_id=1000 + at, name=name, type=kind, value=value)
                for at, ((name, kind), value) in enumerate(zip(columns, values, strict=True))
            )
        )
        entry = st.builds(
            FileEntry,
            content=st.sampled_from(contents),
            path=st.text(),
            spec_id=st.integers(0, 9),
            partition=partition,
            record_count=numbers,
            size=numbers,
            column_sizes=counts,
            value_counts=counts,
            lower_bounds=bounds,
            split_offsets=st.lists(numbers, max_size=3).map(tuple),
            sort_order_id=st.none() | st.integers(0, 3),
        )
        return st.lists(entry, max_size=2)

    return DataWritten(
        commit_id=draw(st.uuids()),
        table=draw(tables),
        data_files=tuple(draw(files(FileContent.DATA))),
        delete_files=tuple(draw(files(FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES))),
    )


positions = st.builds(
    Position,
    partition=st.builds(SourcePartition, st.text(), st.integers(0, 2**31 - 1)),
    offset=st.none() | numbers,
    timestamp=times,
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(StartCommit, commit_id=st.uuids()),
    written(),
    st.builds(
        DataComplete,
        commit_id=st.uuids(),
        positions=st.lists(positions, max_size=3).map(tuple),
    ),
    st.builds(
        CommitToTable,
        commit_id=st.uuids(),
        table=tables,
        snapshot_id=st.none() | numbers,
        valid_through=times,
    ),
    st.builds(CommitComplete, commit_id=st.uuids(), valid_through=times),
)


def field_ids(node: Node) -> set[int]:
    match node:
        case Leaf():
            return set()
        case Array(items=items):
            return field_ids(items)
        case Union(branches=branches):
            return set[int]().union(*map(field_ids, branches))
        case Record(fields=fields):
            ids = {int(field.facts["field-id"]) for field in fields}
            return ids.union(*(field_ids(field.node) for field in fields))


@pytest.mark.case("I32")
@given(messages)
def test_a_message_has_no_field_and_no_type_besides_those_of_the_specification(
    message: Message,
) -> None:
    data = encode_event(event(message))
    schema = data[4 : 4 + int.from_bytes(data[2:4])]
    ids = field_ids(compiled(parsed(schema)))
    assert {one for one in ids if not 1000 <= one < 1100} <= ALLOWED_FIELDS
    assert decode_event(data) == event(message)


def parsed(schema: bytes) -> object:
    import json  # noqa: PLC0415 - used here alone

    return json.loads(schema.decode("utf-8", "surrogatepass"))


# --- damage


@pytest.mark.case("I34")
@pytest.mark.parametrize("path", JAVA, ids=lambda path: path.stem)
def test_a_message_that_was_cut_anywhere_is_damaged(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        with pytest.raises(ControlDecodeError):
            decode_event(whole[:length])


@pytest.mark.case("I34")
def test_damage_after_the_envelope_names_the_group() -> None:
    with pytest.raises(ControlDecodeError) as refusal:
        decode_event(java("data_complete")[:-3])
    assert refusal.value.group == GROUP


@pytest.mark.case("I34")
def test_an_unknown_type_is_damage() -> None:
    damaged = java("start_commit").replace(b"\x00" + b"\xf6", b"\x0a" + b"\xf6")
    at = 4 + int.from_bytes(damaged[2:4]) + 16
    damaged = damaged[:at] + b"\x0a" + damaged[at + 1 :]
    with pytest.raises(ControlDecodeError, match="type 5 is not known") as refusal:
        decode_event(damaged)
    assert refusal.value.group == GROUP


@given(st.binary(max_size=300), st.sampled_from(JAVA), st.integers(0, 11_000))
def test_damaged_bytes_raise_nothing_else(noise: bytes, path: Path, at: int) -> None:
    whole = path.read_bytes()
    place = at % len(whole)
    try:
        decode_event(whole[:place] + noise + whole[place + len(noise) :])
    except ControlDecodeError:
        return
