"""CSV: nothing is guessed, nothing is lost, and a broken file is named with its line."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_connectors.arrow_types import plain_rows
from datarecs_connectors.errors import (
    CorruptSourceError,
    NoFilesError,
    SchemaChangedError,
    SnapshotLostError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.file_tree import FileTree
from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_core.comparison.values.translating import Invalid, canonical
from datarecs_core.jobs import types
from datarecs_core.jobs.types import TypeKind
from datarecs_core.jobs.vocabulary import SourceKind

Open = Callable[..., Any]
CSV = SourceKind.CSV
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_types_hold_for_every_value_and_nothing_is_guessed(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(
        "n,code,money,day,flag,mixed\n1,007,1.50,2026-01-31,true,1\n2,1e0,-3,2026-02-01,false,x\n"
    )
    opened = open_files(CSV, "a.csv")
    assert opened.types == {
        "n": "int",
        "code": "text",
        "money": "decimal(3,2)",
        "day": "date",
        "flag": "bool",
        "mixed": "text",
    }


def test_inferred_nanoseconds_are_held_to_their_ends(open_files: Open, tmp_path: Path) -> None:
    ends = ["1677-09-21T00:12:43.145224192", "2262-04-11T23:47:16.854775807"]
    lines = [f"{end}Z,{end}" for end in (*ends, "2026-01-31T12:00:00")]
    (tmp_path / "a.csv").write_text("\n".join(["at,local", *lines, ""]))
    opened = open_files(CSV, "a.csv")
    assert opened.types == {"at": "instant(9)", "local": "local_timestamp(9)"}
    micros = [Decimal(-(2**63)) / 1000, Decimal(2**63 - 1) / 1000, Decimal(1769860800000000)]
    assert opened.rows() == [(each, each) for each in micros]
    scan = opened.connector.extract(opened.scan, str(tmp_path / "out"), lambda _read: None)
    stored = pq.read_table(tmp_path / "out")
    assert scan.extract.invalid_columns == ()
    for name in ("at", "local"):
        assert stored.column(name).cast(pa.int64()).to_pylist() == [
            int(each * 1000) for each in micros
        ]


def test_an_unquoted_empty_field_is_null_and_a_quoted_one_is_empty_text(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('a,b\nx,\ny,""\n')
    assert open_files(CSV, "a.csv").rows() == [("x", None), ("y", "")]


def test_quoted_separators_quotes_and_line_breaks_are_text(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('a,b\n"x, ""y""","1\n2"\n')
    opened = open_files(CSV, "a.csv", options={"multiline": True})
    assert opened.rows() == [('x, "y"', "1\n2")]


@pytest.mark.case("P67")
def test_a_line_break_in_quotes_is_refused_unless_declared(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('a,b\n1,"x\n2,y"\n')
    with pytest.raises(CorruptSourceError, match=r"holds a line break; declare options\.multiline"):
        open_files(CSV, "a.csv")


def test_a_byte_order_mark_is_no_part_of_the_first_name(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfid,n\n1,2\n")
    assert list(open_files(CSV, "a.csv").types) == ["id", "n"]


def test_letters_of_every_script_are_read(open_files: Open, tmp_path: Path) -> None:
    words = [
        "10 \u20ac",
        "Stra\u00dfe",
        "\u201cquoted\u201d",
        "\u041c\u043e\u0441\u043a\u0432\u0430",
        "\U0001f600",
        "\u202e",
    ]
    lines = "".join(f"{number},{word}\n" for number, word in enumerate(words))
    (tmp_path / "a.csv").write_text(f"n,word\n{lines}9,\xe9\n", encoding="utf-8")
    opened = open_files(CSV, "a.csv")
    assert opened.rows() == [*((number, word) for number, word in enumerate(words)), (9, "\xe9")]


def test_a_folder_named_like_a_partition_adds_no_column(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.csv").write_text("id\n7\n")
    assert open_files(CSV, "day=1/a.csv").rows() == [(7,)]


@pytest.mark.parametrize("mib", [17, 80])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n2,y\n"])
def test_a_line_too_long_is_named_whatever_its_length(
    open_files: Open, tmp_path: Path, mib: int, end: bytes
) -> None:
    line = b"1," + b"x" * (mib * 1024 * 1024)
    (tmp_path / "a.csv").write_bytes(b"a,b\n0,z\n" + line + end)
    with pytest.raises(SourceLimitError, match=r"a\.csv line 3: the line has more than 16777216"):
        open_files(CSV, "a.csv").rows()


def test_long_lines_within_the_limit_are_read(open_files: Open, tmp_path: Path) -> None:
    values = ["x" * (15 * 1024 * 1024), "y", "z" * (15 * 1024 * 1024)]
    (tmp_path / "a.csv").write_text("\n".join(["a,b", *(f"1,{each}" for each in values)]))
    assert [row[1] for row in open_files(CSV, "a.csv").rows()] == values


def test_bytes_that_are_no_utf8_are_invalid_with_their_bytes(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\ncaf\xc3\xa9,x\n\xff,y\n")
    opened = open_files(CSV, "a.csv")
    assert opened.rows() == [("caf\u00e9", "x"), (Invalid(b"\xff"), "y")]
    assert opened.extracted(tmp_path / "out") == [
        {"a": "caf\u00e9", "$invalid.a": None, "b": "x"},
        {"a": None, "$invalid.a": b"\xff", "b": "y"},
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a,b\n1,2\n1,2,3\n", "a.csv line 3: the row has more or fewer fields"),
        ("a,b\n1,2\n1\n", "a.csv line 3: the row has more or fewer fields"),
        ('a,b\n1,2\n3,"x\n', "a.csv line 3: a quote is not closed"),
        ("", "a.csv has no line"),
        ("\na,b\n1,2\n", "a.csv line 1 is empty; skip it"),
        ("sep=;\na;b\n1;2\n", "a.csv line 1 names the delimiter for Excel"),
        ('"a"x,b\n1,2\n', "a.csv line 1: text follows a closing quote"),
        ('5" a,b\n1,2\n', "a.csv line 1: a quote is not closed by the end .* write a quote"),
        ('a,"b', "a.csv line 1: a quote is not closed; close it"),
        ("a\rb,c\n1,2\n", "a.csv line 1: lines end with CR only"),
        ('"a\nb",c\r\n1,2\r\n3\r\n', "a.csv line 4: the row has more or fewer fields"),
        ("a,b\r\n1,2\n", "a.csv: some lines end with CR LF and others with LF"),
        ("Report\na,b\n1,2\n", "a.csv line 2: .* lines precede the header, skip them"),
    ],
)
def test_a_broken_file_is_corrupt_and_named_with_its_line(
    open_files: Open, tmp_path: Path, text: str, place: str
) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())
    with pytest.raises(CorruptSourceError, match=place):
        open_files(CSV, "a.csv").rows()


@pytest.mark.parametrize(("inside", "end"), [("\n", "\r\n"), ("\r\n", "\n"), ("\r", "\n")])
def test_a_line_break_in_a_name_loses_no_rows(
    open_files: Open, tmp_path: Path, inside: str, end: str
) -> None:
    lines = [f'"a{inside}b";"c"', "1;2", '3;"4"', "5;\xe9"]
    (tmp_path / "a.csv").write_bytes("".join(f"{line}{end}" for line in lines).encode())
    file = open_files(CSV, "a.csv")
    assert file.rows() == [(1, "2"), (3, "4"), (5, "\xe9")]


def test_a_line_break_in_a_value_of_the_first_row_is_refused_where_it_ends_no_line(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_bytes(b'"1\r\n1",2\n3,4\n')
    options = {"header": False, "multiline": True}
    with pytest.raises(CorruptSourceError, match="line 1: a field of the first record holds"):
        open_files(CSV, "a.csv", options=options).rows()


@pytest.mark.parametrize(
    "header",
    [
        *(
            " trade id ,net amount",
            "größe,編號",
            "id\u200b,€",
            '"i""d","a,b"',
            'i"d,am"t',
            "a.b,c\\d",
        ),
        *("$n,$where.x", "null,true", "<b>,{{x}}", "=1+1,@x", "i\x01d,i\u2028d", ",x", "\ufeffa,b"),
        '"a\nb",c',
    ],
)
def test_odd_names_of_columns_are_names(open_files: Open, tmp_path: Path, header: str) -> None:
    (tmp_path / "a.csv").write_bytes(f"{header}\n1,2\n3,4\n".encode())
    assert open_files(CSV, "a.csv").rows() == [(1, 2), (3, 4)]


def test_a_declared_type_makes_other_values_invalid_and_never_rounds(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("a\n1.50\n1.505\n 7 \n")
    opened = open_files(CSV, "a.csv", options={"schema": {"a": "decimal(10,2)"}})
    assert opened.extracted(tmp_path / "out") == [
        {"a": Decimal("1.50"), "$invalid.a": None},
        {"a": None, "$invalid.a": b"1.505"},
        {"a": None, "$invalid.a": b" 7 "},
    ]


@pytest.mark.case("P41")
@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("int", ["1", "007", "0x1f", "+7", "1.0", "9223372036854775808"], ["1", *"!!!", "1", "!"]),
        ("decimal(5,2)", ["1.50", "1.500", "1e1", "007", "1234.5"], ["1.5", "1.5", *"!!!"]),
        ("decimal", ["1.50", "9" * 38, "9" * 39, "abc"], ["1.5", "9" * 38, *"!!"]),
        ("bool", ["true", "false", "1", "TRUE", "t"], ["true", "false", *"!!!"]),
        ("float64", ["0.1", "nan", "1e0", "0.30000000000000001"], ["0.1", "NaN", "1", "!"]),
        ("float64", ["1E-7", "-Infinity", "inf", "1e309"], ["0.0000001", "-Inf", "Inf", "!"]),
        ("float32", ["0.5", "0.1", "16777217"], ["0.5", "0.10000000149011612", "!"]),
        ("date", ["2026-01-31", "2026-02-30", "0000-01-01", "0001-01-01"], list("a!!b")),
        ("time", ["12:00:00.5", "12:00", "12:00:00.1234567"], ["12:00:00.5", *"!!"]),
        ("instant", ["2026-01-31T12:00:00.5+02:00", "2026-01-31T12:00:00"], list("c!")),
        ("instant", ["2026-01-31T12:00:00.1234567Z", "2026-01-31"], list("!!")),
        ("instant(9)", ["2026-01-31T12:00:00.123456789Z", "2026-01-31T10:00:00.5Z"], list("fc")),
        ("instant(9)", ["2026-01-31T12:00:00.1234567891Z", "2263-01-01T00:00:00Z"], list("!!")),
        ("local_timestamp(9)", ["2026-01-31T12:00:00.000000001", "2026-01-31"], list("g!")),
        ("time(9)", ["23:59:59.999999999", "12:00:00.5"], ["23:59:59.999999999", "12:00:00.5"]),
        ("local_timestamp", ["2026-01-31 12:00:00", "2026-01-31T12:00:00Z"], list("d!")),
        ("local_timestamp", ["2026-01-31T12:00", "2026-01-31T24:00:00"], list("!!")),
        ("uuid", ["0188F0C8-0000-7000-8000-00000000000A", "0188f0c8"], list("e!")),
        ("json", ['"{""b"":1.0,""a"":[]}"', "{", '"""x"""'], ['{"a":[],"b":1}', "!", '"x"']),
        ("text", ["007", '" "'], ["007", " "]),
    ],
)
def test_both_engines_take_a_declared_type_in_its_strict_form(
    open_files: Open, tmp_path: Path, kind: str, values: list[str], expected: list[str]
) -> None:
    (tmp_path / "a.csv").write_text("\n".join(["n,v", *(f"{one},{one}" for one in values), ""]))
    opened = open_files(CSV, "a.csv", options={"schema": {"v": kind, "n": "text"}})
    canonicals = [canonical(row[1], opened.scan.column("v").type, "s") for row in opened.rows()]
    texts = [LONG.get(one, one) for one in expected]
    assert ["!" if one.is_invalid else canonical_text(one) for one in canonicals] == texts
    scan = opened.connector.extract(opened.scan, str(tmp_path / "out"), lambda _read: None)
    batch = pq.read_table(tmp_path / "out").select(["v"]).combine_chunks().to_batches()[0]
    stored = [None if one is None else _canonical(scan, one) for (one,) in plain_rows(batch)]
    valid = [None if one == "!" else one for one in texts]
    assert stored == valid
    assert ("v" in scan.extract.invalid_columns) is ("!" in texts)


LONG = {
    "a": "2026-01-31",
    "b": "0001-01-01",
    "c": "2026-01-31T10:00:00.5Z",
    "d": "2026-01-31T12:00:00",
    "e": "0188f0c8-0000-7000-8000-00000000000a",
    "f": "2026-01-31T12:00:00.123456789Z",
    "g": "2026-01-31T12:00:00.000000001",
}


def _canonical(scan: Any, stored: object) -> str | None:  # noqa: ANN401  a Scan
    kind = scan.column("v").type
    read = UUID(str(stored)) if kind.kind is TypeKind.UUID else stored
    if kind == types.NUMERIC:
        read = Decimal(str(stored))
    return canonical_text(canonical(read, kind, "s"))


def test_a_type_that_no_text_stands_for_is_refused(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\nx\n")
    with pytest.raises(SourceUnsupportedError, match="a text file has no values of type binary"):
        open_files(CSV, "a.csv", options={"schema": {"a": "binary"}})


def test_the_filter_selects_only_rows_for_which_it_is_true(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,x\n2,y\n3,\n")
    opened = open_files(CSV, "a.csv", filter="b <> 'x'")
    assert opened.rows() == [(Decimal(2), "y")]
    assert opened.extracted(tmp_path / "out") == [{"a": 2, "b": "y"}]


def test_files_of_one_source_are_read_by_name_and_must_have_the_same_columns(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "2.csv").write_text("b,a\ny,2\n")
    assert open_files(CSV, "*.csv").rows() == [(Decimal(1), "x"), (Decimal(2), "y")]
    (tmp_path / "3.csv").write_text("a,c\n1,x\n")
    with pytest.raises(SchemaChangedError, match=r"1\.csv and 3\.csv"):
        open_files(CSV, "*.csv")


def test_a_glob_without_files_says_so(open_files: Open) -> None:
    with pytest.raises(NoFilesError, match="nothing"):
        open_files(CSV, "nothing-*.csv")


@pytest.mark.case("X57")
def test_a_file_that_changed_since_the_pin_leaves_no_verdict(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    held = open_files(CSV, "a.csv").held
    held.check()
    (tmp_path / "a.csv").write_text("a\n2\n3\n")
    with pytest.raises(SnapshotLostError, match="changed while it was read"):
        held.check()


def test_a_pin_that_is_let_go_is_hashed_no_further(
    open_files: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    begun, ended = Event(), Event()

    def hashed(_tree: FileTree, _name: str, stop: Event) -> str:
        begun.set()
        assert stop.wait(60)
        ended.set()
        return ""

    monkeypatch.setattr(FileTree, "sha256", hashed)
    held = open_files(CSV, "a.csv").held
    assert begun.wait(60)
    held.close()
    assert ended.wait(60)


def test_hashing_stops_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    tree, stop = FileTree(source="lake", root=tmp_path, now=lambda: NOON), Event()
    assert tree.sha256("a.csv", stop) == hashlib.sha256(b"a\n1\n").hexdigest()
    stop.set()
    assert tree.sha256("a.csv", stop) == hashlib.sha256().hexdigest()


@pytest.mark.case("P65")
def test_columns_end_with_their_limit(open_files: Open, tmp_path: Path) -> None:
    names = [f"c{at}" for at in range(2000)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n")
    assert len(open_files(SourceKind.CSV, "a.csv").types) == 2000
    (tmp_path / "a.csv").write_text(",".join([*names, "more"]) + "\n")
    with pytest.raises(SourceLimitError, match="more than 2000 columns"):
        open_files(SourceKind.CSV, "a.csv")


@pytest.mark.case("P65")
def test_ten_thousand_files_are_one_source(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    (tmp_path / "a.csv").write_text("id\n1\n")
    for at in range(10_000):
        (tmp_path / "many" / f"{at:05}.csv").hardlink_to(tmp_path / "a.csv")
    opened = open_files(SourceKind.CSV, "a.csv")
    many = replace(opened.source, path="many/*.csv")
    held = opened.connector.pin(many)
    assert len(held.pin.files) == 10_000
    held.check()


def test_files_of_one_size_and_time_are_each_read(open_files: Open, tmp_path: Path) -> None:
    for number in range(20):
        file = tmp_path / f"{number:02}.csv"
        file.write_text(f"a,b\n{number:02},x\n")
        os.utime(file, (1, 1))
    opened = open_files(CSV, "*.csv")
    assert [row[0] for row in opened.rows()] == [f"{number:02}" for number in range(20)]


def test_one_reading_of_many_files_opens_one_parser(
    open_files: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        (tmp_path / f"{number}.csv").write_text(f"a,b\n{number},x\n")
    parsers: list[object] = []
    connect = duckdb.connect

    def counted(*, config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        parsers.append(config)
        return connect(config=config)

    monkeypatch.setattr("datarecs_connectors.csv.duckdb.connect", counted)
    opened = open_files(CSV, "*.csv")
    described = len(parsers)
    assert len(opened.rows()) == 9
    assert (described, len(parsers)) == (1, 2)
