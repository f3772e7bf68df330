"""JSON lines: no digit is lost, nothing is mended, and a broken line is named."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from datarecs_connectors.errors import (
    CorruptSourceError,
    NoFilesError,
    SchemaChangedError,
    SnapshotLostError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.json_lines import MAX_LINE_BYTES, MAX_VALUE_BYTES
from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_core.comparison.values.translating import Invalid, canonical
from datarecs_core.jobs.vocabulary import SourceKind

Open = Callable[..., Any]
JSON = SourceKind.JSON
D = Decimal
E22 = "1" + "0" * 22


@pytest.fixture
def read(open_files: Open, tmp_path: Path) -> Open:
    """A file of these lines, opened."""

    def opened(*lines: str | bytes, **options: object) -> Any:  # noqa: ANN401  Opened
        raw = [line.encode() if isinstance(line, str) else line for line in lines]
        (tmp_path / "a.jsonl").write_bytes(b"".join(line + b"\n" for line in raw))
        return open_files(JSON, "a.jsonl", **({"options": options} if options else {}))

    return opened


def plain(table: Any) -> list[tuple[str | None, ...]]:  # noqa: ANN401  Opened
    """What the oracle makes of the rows."""
    kinds = [column.type for column in table.scan.columns]
    return [
        tuple(
            canonical_text(canonical(one, kind, "s")) for one, kind in zip(row, kinds, strict=True)
        )
        for row in table.rows()
    ]


@pytest.mark.case("P67")
def test_strings_stay_text_and_numbers_preserve_every_digit(read: Open) -> None:
    table = read(
        '{"n": 1, "code": "007", "money": 1.50, "big": 9007199254740993, "flag": true}',
        '{"n": -2, "code": "1e0", "money": -300, "big": 18446744073709551616, "flag": false}',
    )
    assert table.types == {
        "n": "int",
        "code": "text",
        "money": "decimal(5,2)",
        "big": "decimal(38,0)",
        "flag": "bool",
    }
    assert table.rows() == [
        (1, "007", D("1.50"), D(9007199254740993), True),
        (-2, "1e0", D(-300), D(18446744073709551616), False),
    ]


@pytest.mark.parametrize(
    ("numbers", "kind", "canonicals"),
    [
        (["9223372036854775807", "-9223372036854775808"], "int", None),
        (["9223372036854775808"], "decimal(38,0)", None),
        (["-0", "0"], "int", ["0", "0"]),
        (["1e2", "15E-1", "1.0"], "decimal(4,1)", ["100", "1.5", "1"]),
        (["0.1", "12345678901234567890123456789012345678"], "decimal", None),
        (["9" * 38, "9" * 39], "decimal(38,0)", ["9" * 38, f"INVALID(0x{'39' * 39})"]),
        (["1e400", "1e999999999"], "decimal", None),
    ],
)
def test_the_values_of_numbers_decide_their_type(
    read: Open, tmp_path: Path, numbers: list[str], kind: str, canonicals: list[str] | None
) -> None:
    table = read(*(f'{{"v": {number}}}' for number in numbers))
    assert table.types == {"v": kind}
    invalid = [f"INVALID(0x{number.encode().hex()})" for number in numbers]
    wanted = canonicals or (invalid if "e" in numbers[0] else numbers)
    assert plain(table) == [(one,) for one in wanted]
    extracted = [row["v"] for row in table.extracted(tmp_path / "out")]
    valid = [None if one.startswith("INVALID") else D(one) for one in wanted]
    assert [None if one is None else D(one) for one in extracted] == valid


def test_null_and_absent_are_null_and_a_column_of_nothing_else_has_every_type(
    read: Open, tmp_path: Path
) -> None:
    table = read('{"a": 1, "b": null}', "", '{"b": null, "c": "x"}', " \r")
    assert table.types == {"a": "int", "b": "null", "c": "text"}
    assert table.rows() == [(1, None, None), (None, None, "x")]
    assert table.extracted(tmp_path / "out") == [
        {"a": 1, "b": None, "c": None},
        {"a": None, "b": None, "c": "x"},
    ]


def test_members_of_objects_are_columns_and_arrays_are_json(read: Open, tmp_path: Path) -> None:
    table = read(
        '{"a": {"b": {"c": 1}, "tags": ["x", 1.0, {"z": 1, "y": null}]}, "id": 1}',
        '{"a": null, "id": 2}',
        '{"a": {"b": null}, "id": 3}',
    )
    assert table.types == {"a.b.c": "int", "a.tags": "json", "id": "int"}
    assert plain(table) == [
        ("1", '["x",1,{"y":null,"z":1}]', "1"),
        (None, None, "2"),
        (None, None, "3"),
    ]
    first = table.extracted(tmp_path / "out")[0]
    assert json.loads(first["a.tags"]) == ["x", 1.0, {"z": 1, "y": None}]


def test_values_of_different_kinds_are_json_so_that_1_and_its_text_stay_apart(read: Open) -> None:
    table = read('{"v": 1}', '{"v": "1"}', '{"v": {"x": true}}', '{"v": {}}', '{"v": null}')
    assert table.types == {"v": "json"}
    assert plain(table) == [("1",), ('"1"',), ('{"x":true}',), ("{}",), (None,)]


def test_an_object_is_one_column_where_it_is_declared_so(read: Open) -> None:
    table = read('{"a": {"y": 1.0, "x": "\\u00e9"}}', schema={"a": "json", "late": "date"})
    assert table.types == {"a": "json", "late": "date"}
    assert plain(table) == [('{"x":"\u00e9","y":1}', None)]


def test_a_name_that_two_keys_make_stands_twice(read: Open) -> None:
    table = read('{"a": {"b": 1}, "a.b": 2}')
    assert [column.name for column in table.schema.columns] == ["a.b", "a.b"]


@pytest.mark.case("P53")
@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("decimal(9,2)", ["1.50", '"1.5"', "1.505", '" 7 "', "true"], ["1.5", "1.5", *"!!!"]),
        ("int", ["1.0", "1.5", "9223372036854775808", '"07"'], ["1", "!", "!", "!"]),
        ("float64", ["0.1", "1e22", "0.30000000000000001", "1e309"], ["0.1", E22, "!", "!"]),
        ("float32", ["0.1", "16777217"], ["0.10000000149011612", "!"]),
        ("text", ['"x"', "1.50", "true", "[1, 2]"], ["x", "1.5", "true", "[1,2]"]),
        ("bool", ["true", '"false"', '"TRUE"', "1"], ["true", "false", "!", "!"]),
        ("date", ['"2026-01-31"', '"2026-02-30"', "20260131"], ["2026-01-31", "!", "!"]),
        (
            "instant",
            [
                '"2026-01-31T12:00:00+02:00"',
                '"2026-01-31T12:00:00"',
                '"2026-01-31T12:00:00.1234567Z"',
            ],
            ["2026-01-31T10:00:00Z", "!", "!"],
        ),
        (
            "local_timestamp",
            ['"2026-01-31 12:00:00.5"', '"2026-01-31T12:00:00Z"'],
            ["2026-01-31T12:00:00.5", "!"],
        ),
        ("time", ['"12:00:00"', '"24:00:00"'], ["12:00:00", "!"]),
        ("time(9)", ['"12:00:00.000000001"', '"12:00"'], ["12:00:00.000000001", "!"]),
        ("uuid", [f'"{str(UUID(int=10)).upper()}"', '"{x}"'], [str(UUID(int=10)), "!"]),
        ("json", ['"1"', "1", "[1.0]"], ['"1"', "1", "[1]"]),
    ],
)  # fmt: skip
def test_a_declared_type_takes_what_it_holds_whole_and_the_rest_is_invalid(
    read: Open, tmp_path: Path, kind: str, values: list[str], expected: list[str]
) -> None:
    table = read(*(f'{{"v": {value}}}' for value in values), schema={"v": kind})
    texts = [str(row[0]) for row in plain(table)]
    assert ["!" if one.startswith("INVALID") else one for one in texts] == expected
    extracted = table.extracted(tmp_path / "out")
    invalid = [row.get("$invalid.v") for row in extracted]
    assert [raw is not None for raw in invalid] == [one == "!" for one in expected]
    for value, raw in zip(values, invalid, strict=True):
        assert raw is None or raw == value.strip('"').encode()


def test_a_type_that_json_has_not_is_refused(read: Open) -> None:
    with pytest.raises(SourceUnsupportedError, match="a text file has no values of type binary"):
        read("{}", schema={"v": "binary"})


@pytest.mark.case("P32")
def test_bytes_that_are_no_utf8_are_invalid_with_their_bytes(read: Open, tmp_path: Path) -> None:
    table = read(b'{"a": "caf\xc3\xa9"}', b'{"a": "\xff"}', b'{"a": "\\ud800"}')
    assert table.rows() == [("caf\u00e9",), (Invalid(b"\xff"),), (Invalid(b"\xed\xa0\x80"),)]
    assert [row["$invalid.a"] for row in table.extracted(tmp_path / "out")] == [
        None,
        b"\xff",
        b"\xed\xa0\x80",
    ]


def test_a_byte_order_mark_is_dropped_and_lines_may_end_with_cr_lf(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": "x\xe2\x80\xa8y"}\r\n{"a": ""}')
    assert open_files(JSON, "a.json").rows() == [("x\u2028y",), ("",)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1', "line 2 column 8: Expecting ',' delimiter"),
        ('{"a": 1} {"a": 2}', "line 2 column 9: Extra data"),
        ('{"a": 1, "a": 1}', "line 2: a key occurs twice"),
        ('{"a": {"b": 1, "b": 1}}', "line 2: a key occurs twice"),
        ('{"a": NaN}', "line 2: NaN is not JSON"),
        ('{"a": 01}', "line 2 column 8"),
        ('{"a": +1}', "line 2 column 7"),
        ('{"a": .5}', "line 2 column 7"),
        ("{'a': 1}", "line 2 column 2"),
        ('{"a": "x', "line 2 column 7: Unterminated string"),
        ('{"a": "x\ty"}', "line 2 column 9: Invalid control character"),
        ('{"a": \xff}', "line 2 column 7"),
        ("[1]", "line 2: it is not an object; write one object per line"),
        ("[", "line 2 column 2: Expecting value; write one object per line"),
        ("null", "line 2: it is not an object"),
        ('{"a": 1}\r{"a": 2}', "line 2 column 9: Extra data"),
        ("\0", "line 2 contains a NUL byte"),
        ("\ufeff{}", "line 2"),
    ],
)
def test_a_broken_line_is_corrupt_and_named_without_its_values(
    read: Open, line: str, message: str
) -> None:
    with pytest.raises(CorruptSourceError) as caught:
        read('{"a": 1}', line)
    assert f"a.jsonl {message}" in str(caught.value)


@pytest.mark.case("P65")
def test_nesting_ends_with_its_limit(read: Open) -> None:
    deep = '{"v": ' + "[" * 99 + "]" * 99 + "}"
    assert len(read(deep).rows()) == 1
    for depth in (100, 100_000):
        with pytest.raises(SourceLimitError, match="line 1: values are nested more than 100"):
            read('{"v": ' + "[" * depth + "]" * depth + "}")


@pytest.mark.case("P65")
def test_columns_end_with_their_limit(read: Open) -> None:
    row = {f"c{at}": 1 for at in range(2000)}
    assert len(read(json.dumps(row)).types) == 2000
    with pytest.raises(SourceLimitError, match="more than 2000 columns"):
        read(json.dumps(row), '{"one": {"more": 1}}')
    assert len(read(json.dumps({"v": row, "w": 1}), schema={"v": "json"}).types) == 2


@pytest.mark.case("P65")
def test_a_value_of_16_mib_works_and_one_byte_more_is_refused(read: Open, tmp_path: Path) -> None:
    table = read('{"v": "' + "x" * MAX_VALUE_BYTES + '"}')
    assert len(table.extracted(tmp_path / "out")[0]["v"]) == MAX_VALUE_BYTES
    table = read('{"v": 1}', '{"v": "' + "\\u0078" * (MAX_VALUE_BYTES + 1) + '"}')
    with pytest.raises(SourceLimitError, match="line 2: the value of 'v' has more than 16777216"):
        table.rows()


def test_a_line_without_end_is_refused_before_it_is_held(open_files: Open, tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(MAX_LINE_BYTES + 1)
    with pytest.raises(SourceLimitError, match=r"a\.json line 1: the line has more than"):
        open_files(JSON, "a.json")


def test_the_filter_selects_only_rows_for_which_it_is_true(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"a":1,"b":"x"}\n{"a":2,"b":"y"}\n{"a":3,"b":null}\n')
    table = open_files(JSON, "a.json", filter="b <> 'x'")
    assert table.rows() == [(2, "y")]
    assert table.extracted(tmp_path / "out") == [{"a": 2, "b": "y"}]


@pytest.mark.case("P44")
def test_files_of_one_source_have_the_same_columns_unless_they_are_declared(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "1.json").write_text('{"a": 1, "o": {"x": 1}}\n')
    (tmp_path / "2.json").write_text('{"o": null, "a": 2.5}\n')
    (tmp_path / "3.json").write_text("")
    table = open_files(JSON, "*.json")
    assert table.types == {"a": "decimal(2,1)", "o.x": "int"}
    assert table.rows() == [(D(1), 1), (D("2.5"), None)]
    (tmp_path / "4.json").write_text('{"a": 1, "o": {"x": 1, "late": 1}}\n')
    with pytest.raises(SchemaChangedError, match=r"1\.json and 4\.json .*\(o\.late\).*schema"):
        open_files(JSON, "*.json")
    table = open_files(JSON, "*.json", options={"schema": {"o.late": "int"}})
    assert table.rows()[-1] == (D(1), 1, 1)
    (tmp_path / "5.json").write_text('{"o": null}\n')
    with pytest.raises(SchemaChangedError, match=r"1\.json and 5\.json .*\(a\)"):
        open_files(JSON, "*.json", options={"schema": {"o.late": "int"}})


def test_no_line_means_no_column_and_no_row(read: Open, tmp_path: Path) -> None:
    assert read().types == {}
    assert read(schema={"id": "int"}).extracted(tmp_path / "out") == []


def test_a_glob_without_files_says_so(open_files: Open) -> None:
    with pytest.raises(NoFilesError, match="nothing"):
        open_files(JSON, "nothing-*.json")


@pytest.mark.case("X57")
def test_a_file_that_changed_since_the_pin_leaves_no_verdict(read: Open, tmp_path: Path) -> None:
    held = read('{"a": 1}').held
    held.check()
    (tmp_path / "a.jsonl").write_text('{"a": 2}\n{"a": 3}\n')
    with pytest.raises(SnapshotLostError, match="changed while it was read"):
        held.check()


def test_unknown_options_are_refused(read: Open) -> None:
    with pytest.raises(SourceUnsupportedError, match=r"options\.lines"):
        read("{}", lines=False)


def test_long_files_are_extracted_in_batches(read: Open, tmp_path: Path) -> None:
    table = read(*(f'{{"n": {at}}}' for at in range(10_001)))
    assert table.extracted(tmp_path / "out") == [{"n": at} for at in range(10_001)]
