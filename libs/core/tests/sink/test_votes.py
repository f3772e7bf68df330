"""The messages of one vote."""

from uuid import UUID

import pytest

from datarecs_core.sink.control import (
    DataComplete,
    DataWritten,
    FileContent,
    FileEntry,
    KeyFile,
    Outgoing,
    PartitionField,
    SourcePartition,
    SourceRange,
    TableReference,
)
from datarecs_core.sink.votes import CHUNK_BYTES, entry_bytes, vote_messages, with_keys

TABLE = TableReference(catalog="lake", namespace=("sales",), name="orders", uuid=UUID(int=7))
RANGES = (SourceRange(partition=SourcePartition("orders", 0), start=0, end=9),)


def a_file(number: int = 0, *, spec_id: int = 0, columns: int = 4, bound: int = 8) -> FileEntry:
    counts = dict.fromkeys(range(columns), 1_000)
    return FileEntry(
        path=f"s3://lake/sales/orders/data/day=2026-01-15/{number:08}.parquet",
        spec_id=spec_id,
        partition=(PartitionField(field_id=1000, name="day", type="date", value=20_468),),
        record_count=1_000,
        size=100_000,
        column_sizes=counts,
        value_counts=counts,
        null_value_counts=counts,
        lower_bounds=dict.fromkeys(range(columns), b"x" * bound),
        upper_bounds=dict.fromkeys(range(columns), b"x" * bound),
    )


def messages(*entries: FileEntry) -> tuple[Outgoing, ...]:
    return vote_messages(UUID(int=1), 3, {TABLE: entries}, ranges=RANGES, positions=())


def parts(*entries: FileEntry) -> list[DataWritten]:
    return [
        outgoing.message
        for outgoing in messages(*entries)
        if isinstance(outgoing.message, DataWritten)
    ]


def test_a_vote_comes_after_its_files_and_says_how_many_messages_they_are() -> None:
    *written, vote = messages(a_file(1), a_file(2))
    assert len(written) == 1
    assert isinstance(vote.message, DataComplete)
    assert (vote.headers.parts, vote.headers.ranges, vote.headers.epoch) == (1, RANGES, 3)


def test_a_table_is_named_by_its_path() -> None:
    assert str(TABLE) == "sales.orders"


def test_a_vote_without_tables_is_one_message() -> None:
    alone = vote_messages(UUID(int=1), 3, {}, ranges=RANGES, positions=())
    assert [outgoing.headers.parts for outgoing in alone] == [0]


def test_the_first_message_of_a_table_names_its_key_file() -> None:
    keys = KeyFile(path="s3://lake/sales/orders/metadata/a-keys.parquet", sha256="00", rows=3)
    many = [a_file(number, bound=1_000) for number in range(200)]
    for entries, least in (([], 1), (many, 2)):
        *written, vote = with_keys(messages(*entries), {TABLE: keys})
        named = [outgoing.headers.keys for outgoing in written]
        assert named == [keys, *[None] * (len(written) - 1)]
        assert (vote.headers.keys, vote.headers.parts) == (None, len(written))
        assert len(written) >= least


@pytest.mark.case("I33")
def test_five_thousand_files_are_cut_into_chunks_below_the_limit() -> None:
    entries = [a_file(number) for number in range(5_000)]
    written = parts(*entries)
    sizes = [sum(entry_bytes(entry) for entry in part.data_files) for part in written]
    assert len(written) > 1
    assert max(sizes) <= CHUNK_BYTES
    assert [entry for part in written for entry in part.data_files] == entries


def test_files_of_two_partition_specs_are_in_two_messages() -> None:
    written = parts(a_file(1, spec_id=0), a_file(2, spec_id=1), a_file(3, spec_id=0))
    assert [len(part.data_files) for part in written] == [2, 1]


def test_deletes_travel_apart_from_data() -> None:
    deletes = FileEntry(
        content=FileContent.POSITION_DELETES, path="d", spec_id=0, record_count=1, size=1
    )
    (part,) = parts(deletes)
    assert (part.data_files, part.delete_files) == ((), (deletes,))


def test_a_file_whose_statistics_fill_a_message_loses_them() -> None:
    (bounds,) = parts(a_file(columns=1_000, bound=1_000))
    assert bounds.data_files[0].lower_bounds == {}
    assert bounds.data_files[0].value_counts != {}
    (counts,) = parts(a_file(columns=50_000))
    assert counts.data_files[0].value_counts == {}


def test_text_of_a_partition_counts() -> None:
    text = PartitionField(field_id=1, name="c", type="string", value="x" * 1_000)
    plain = FileEntry(path="d", spec_id=0, record_count=1, size=1)
    split = FileEntry(path="d", spec_id=0, record_count=1, size=1, partition=(text,))
    assert entry_bytes(split) - entry_bytes(plain) >= 1_000
