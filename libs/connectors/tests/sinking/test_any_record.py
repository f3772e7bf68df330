"""Whatever a producer sends: a record lands or is a bad record, and the sink goes on."""

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import count
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.sinking.intake import Intake, TableIntake
from datarecs_connectors.sinking import columns, creating, evolving, shapes
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.changes import RecordChanges
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.definition import (
    CdcRule,
    ErrorPolicy,
    Evolution,
    SinkMode,
    SinkTable,
    SinkTarget,
    Tolerance,
)
from datarecs_core.sink.routing import router
from datarecs_testing.lake import NAMESPACE, path_at

from .sink_house import House

PARTITION = SourcePartition("orders", 0)
DEAD_LETTERS = ErrorPolicy(
    tolerance=Tolerance.DEAD_LETTER, max_in_a_row=1_000_000, max_per_thousand=1_000
)
SCALARS = (
    "null",
    "true",
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1" + "0" * 400,
    "0.1",
    "2.0",
    "-0.0",
    "1e30",
    "1e999",
    '""',
    '"x"',
    '"\\u0000é"',
    '"2026-01-31T12:00:00Z"',
)
NAMES = st.sampled_from(["a", "b", "c"])


def texts_of(names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """JSON objects as texts, with deep mixes of kinds in few names."""
    values = st.recursive(
        st.sampled_from(SCALARS),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
            | st.dictionaries(names, inner, max_size=3).map(object_of)
        ),
        max_leaves=6,
    )
    return st.dictionaries(names, values, max_size=4).map(object_of)


def object_of(members: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"


BATCHES = st.lists(st.lists(texts_of(NAMES), max_size=6), min_size=1, max_size=3)
ODD = texts_of(st.sampled_from(["a", "A", "a.b", "", " ", "é", "a_x2Eb", "_kafka_offset", "\0"]))
KEYS = st.sampled_from([*SCALARS, "1", "7", '"7"', "[1]", '{"a":1}', "1.5"])
NUMBERS = count()
TABLES: dict[str, dict[str, Any]] = {
    "none": {},
    "add": {"evolve": Evolution.ADD},
    "full": {"evolve": Evolution.FULL},
    "any case": {"evolve": Evolution.ADD, "case_insensitive": True},
}
CHECKS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Task:
    """A task without a log, over a new table that it creates."""

    def __init__(self, house: House, **changes: Any) -> None:  # noqa: ANN401  fields of SinkTable
        name = f"t{next(NUMBERS)}"
        self.house = house
        self.target = SinkTarget(catalog="lake", namespace=(NAMESPACE,), name=name)
        facts = {"tables": (self.target,), "errors": DEAD_LETTERS, "auto_create": True, **changes}
        sink = SinkTable(connection="k", topics=("orders",), **facts)
        self.intake = TableIntake(
            tables=house.tables(**facts),
            targets={0: self.target},
            route=router(None, sink.tables),
            policy=sink.errors,
            changes=RecordChanges.of(sink),
        )
        self.sent = 0

    def take(self, texts: Sequence[str | None], **facts: Any) -> None:  # noqa: ANN401  fields of LogRecord
        records = list(self.logged(texts, facts))
        if records:
            assert self.intake.take(PARTITION, records) == Intake()

    def logged(self, texts: Sequence[str | None], facts: dict[str, Any]) -> Iterator[LogRecord]:
        for text in texts:
            fixed: dict[str, Any] = {"timestamp_ms": 0, "key": b'{"id": 1}', "headers": (), **facts}
            value = None if text is None else text.encode()
            yield LogRecord(topic="orders", partition=0, offset=self.sent, value=value, **fixed)
            self.sent += 1

    def letters(self) -> dict[int, str]:
        letters = self.intake.letters
        assert all(letter.reason for letter in letters)
        return {one.record.offset: f"{one.path}: {one.reason}" for one in letters}

    def written(self) -> list[int]:
        """Offsets in the files of the open cycle."""
        return [
            offset
            for files in self.intake.finish().values()
            for file in files
            for offset in pq.read_table(path_at(file.path)).column("_kafka_offset").to_pylist()
        ]

    def committed(self) -> dict[int, dict[str, Any]]:
        """The rows of the table after a commit, by offset."""
        for files in self.intake.finish().values():
            self.house.commit(self.house.request(*files, target=self.target), self.target)
        if not self.house.lake.catalog.table_exists((NAMESPACE, self.target.name)):
            return {}
        rows = self.house.rows(self.target.name)
        return {row["_kafka_offset"]: row for row in rows}


def is_same(value: object, stored: object) -> bool:
    """A value of JSON, and what a column has of it; fields without a column are left out."""
    if isinstance(value, dict) and isinstance(stored, dict):
        return all(is_same(value[name], stored[name]) for name in value if name in stored)
    if isinstance(value, list) and isinstance(stored, list):
        return len(value) == len(stored) and all(map(is_same, value, stored))
    if isinstance(value, dict | list):
        return isinstance(stored, str) or (stored is None and not has_value(value))
    if isinstance(value, Decimal):
        return stored == float(value)
    return stored == value or str(stored) == value


def has_value(value: object) -> bool:
    """Without one no column is derived."""
    if isinstance(value, dict):
        return any(map(has_value, value.values()))
    return any(map(has_value, value)) if isinstance(value, list) else value is not None


@pytest.mark.parametrize("table", TABLES)
@given(BATCHES)
@example([['{"a":[1]}', '{"a":1}']])
@example([['{"a":1}', '{"a":[1]}']])
@example([['{"a":{"b":1}}', '{"a":1}', '{"a":[[1],"a"]}']])
@example([['{"b":1}'], ['{"a":[1]}', '{"a":1}', '{"a":{"b":1}}']])
@example([['{"a":{"b":[1]}}'], ['{"a":{"b":1,"c":[2]}}', '{"a":{"c":2}}']])
@CHECKS
def test_every_record_is_a_row_or_a_bad_record(
    house: House, table: str, batches: list[list[str]]
) -> None:
    task = Task(house, **TABLES[table])
    for batch in batches:
        task.take(batch)
    letters, rows = task.letters(), task.committed()
    assert sorted([*letters, *rows]) == list(range(task.sent))
    texts = [text for batch in batches for text in batch]
    for offset, row in rows.items():
        value = json.loads(texts[offset], parse_float=Decimal)
        for name in value.keys() & row.keys():
            assert is_same(value[name], row[name]), (name, texts[offset], row)


@pytest.mark.parametrize("table", TABLES)
@given(st.lists(st.lists(ODD, max_size=4), max_size=3))
@CHECKS
def test_no_name_of_a_field_hinders_the_sink(
    house: House, table: str, batches: list[list[str]]
) -> None:
    task = Task(house, **TABLES[table])
    for batch in batches:
        task.take(batch)
    assert sorted([*task.letters(), *task.committed()]) == list(range(task.sent))


@given(st.lists(st.lists(st.tuples(KEYS, texts_of(NAMES)), max_size=5), max_size=3))
@example([[("1", "{}"), ("[1]", "{}")]])
@example([[("[1]", "{}"), ("1", "{}"), ("1.5", "{}")]])
@CHECKS
def test_a_record_with_any_key_is_a_row_or_a_bad_record(
    house: House, batches: list[list[tuple[str, str]]]
) -> None:
    task = Task(house, mode=SinkMode.UPSERT, id_columns=("id",))
    ids: list[str] = []
    for batch in batches:
        texts = [
            "{" + ", ".join([f'"id": {key}', *([text[1:-1]] if text != "{}" else [])]) + "}"
            for key, text in batch
        ]
        ids += [key for key, _ in batch]
        try:
            task.take(texts)
        except SinkError as fault:
            assert fault.code is SinkCode.IDENTIFIER_MISSING  # noqa: PT017  most batches raise nothing
            assert not any(is_usable(key) for key, _ in batch)
            return
    letters, rows = task.letters(), task.written()
    assert set(letters).isdisjoint(rows)
    good = [at for at in range(len(ids)) if at not in letters]
    newest = {key_of(ids[at]): at for at in good}
    assert sorted(rows) == sorted(newest.values())


def key_of(text: str) -> object:
    try:
        return int(Decimal(text.strip('"')))
    except ArithmeticError:
        return text


def is_usable(key: str) -> bool:
    value = json.loads(key, parse_float=Decimal)
    return isinstance(value, str | int) and abs(int(value) if isinstance(value, int) else 0) < 2**63


def test_the_first_records_cannot_prevent_the_table_that_others_make(house: House) -> None:
    task = Task(house, id_columns=("id",), partition_by=("bucket(4, id)", "country"))
    texts = [
        '{"id": [1], "country": "at"}',
        '{"id": 1, "country": ["at"]}',
        '{"id": 1, "country": "at"}',
        '{"id": 1.5, "country": "at"}',
        '{"id": 2}',
        '{"": 1, "id": 3}',
        '{"country": "at"}',
    ]
    task.take(texts)
    assert task.letters() == {
        0: "id: an array does not fit a column of type long",
        3: "id: a number with a fraction does not fit a column of type long",
        6: "id: the column is required and has no value",
    }
    rows = task.committed()
    assert {at: row["country"] for at, row in rows.items()} == {
        1: '["at"]',
        2: "at",
        4: None,
        5: None,
    }


def test_a_record_with_too_many_fields_makes_no_table(house: House) -> None:
    task = Task(house)
    task.take([json.dumps({f"c{number}": 1 for number in range(6_000)})])
    task.take(['{"id": 1}'])
    assert task.letters() == {0: ": the table would have more than 5000 fields"}
    assert list(task.committed()) == [1]


@pytest.mark.parametrize("mode", [SinkMode.APPEND, SinkMode.UPSERT])
@pytest.mark.parametrize("fault", [KeyError("secret"), TypeError("secret")])
def test_an_exception_of_a_conversion_is_the_fault_of_its_record(
    house: House, monkeypatch: pytest.MonkeyPatch, mode: SinkMode, fault: Exception
) -> None:
    task = Task(house, mode=mode, id_columns=("id",))
    build = columns.Leaf.build

    def failing(leaf: columns.Leaf, values: Sequence[Any]) -> object:
        if "boom" in values:
            raise fault
        return build(leaf, values)

    monkeypatch.setattr(columns.Leaf, "build", failing)
    task.take([f'{{"id": {at}, "a": "{"boom" if at == 5 else "x"}"}}' for at in range(9)])
    name = type(fault).__name__
    assert task.letters() == {5: f": the record cannot be converted ({name})"}
    assert sorted(task.written()) == [0, 1, 2, 3, 4, 6, 7, 8]


@pytest.mark.parametrize("module", [creating, evolving])
def test_an_exception_of_a_schema_is_the_fault_of_its_record(
    house: House, monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    task = Task(house, evolve=Evolution.ADD)
    merged = shapes.merged_members

    def failing(rows: Sequence[Any]) -> object:
        if any("boom" in row for row in rows):
            raise KeyError("secret")
        return merged(rows)

    monkeypatch.setattr(module, "merged_members", failing)
    task.take(['{"id": 1}'] if module is evolving else [])
    bad = task.sent
    texts = ['{"id": 2, "boom": 1}', '{"id": 3}', '{"id": 4, "more": 1}']
    for batch in [texts] if module is evolving else [texts[:1], texts[1:]]:
        task.take(batch)
    assert task.letters() == {bad: ": the record cannot be converted (KeyError)"}
    assert sorted(task.committed()) == [at for at in range(task.sent) if at != bad]


@pytest.mark.parametrize("mode", [SinkMode.UPSERT, SinkMode.CDC])
def test_deletes_make_no_table(house: House, mode: SinkMode) -> None:
    cdc = CdcRule(path="op") if mode is SinkMode.CDC else None
    task = Task(house, mode=mode, cdc=cdc, id_columns=("id",))
    task.take([None, '{"op": "D", "id": 1}' if cdc else None])
    assert task.intake.finish() == {}
    assert task.intake.tombstones == 2
    task.take([None, '{"op": "I", "id": 1, "name": "a"}', None, '{"op": "U", "id": 1, "more": 2}'])
    assert task.intake.tombstones == 3
    assert task.letters() == {}
    assert task.written() == [5]
    table = house.table(task.target.name)
    assert table.schema().column_names[:4] == ["op", "id", "name", "more"]
    task.intake.voted()
    task.take([None])
    assert task.intake.tombstones == 3
    task.intake.finish()
    (keys,) = task.intake.key_files.values()
    assert keys.rows == 1


@pytest.mark.parametrize("key", [b'{"id": "x"}', b"no key"])
def test_a_bad_delete_after_a_row_of_the_batch_is_named(house: House, key: bytes) -> None:
    task = Task(house, mode=SinkMode.UPSERT, id_columns=("id",))
    task.take([None])
    task.take(['{"id": 1, "name": "a"}'])
    task.take([None], key=key)
    assert list(task.letters()) == [2]
    assert task.written() == [1]


@pytest.mark.parametrize("stamp", [253_402_300_800_000, 2**63 - 1, -2, -(2**63)])
@pytest.mark.parametrize("mode", [SinkMode.APPEND, SinkMode.UPSERT])
def test_a_timestamp_that_is_no_time_is_bad(house: House, mode: SinkMode, stamp: int) -> None:
    task = Task(house, mode=mode, id_columns=("id",))
    task.take(['{"id": 1}'])
    task.take(['{"id": 2}'], timestamp_ms=stamp)
    task.take(['{"id": 3}'], timestamp_ms=253_402_300_799_999)
    task.take(['{"id": 4}'], timestamp_ms=-1)
    reason = "the timestamp of the record is before 1970 or after the year 9999"
    assert task.letters() == {1: f"_kafka_timestamp: {reason}"}
    assert sorted(task.written()) == [0, 2, 3]
