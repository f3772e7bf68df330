"""CSV options: each changes what is read, and what is recognised or left out is said."""

import gzip
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from datarecs_connectors.errors import (
    CorruptSourceError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.vocabulary import SourceKind

Open = Callable[..., Any]
CSV = SourceKind.CSV


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("id;amount\n1;2,50\n", "';'"),
        ("id\tname\n1\ta,b\n2\tc,d\n", "tab"),
        ("id|name\n1|a;b\n", "'|'"),
        ("id,name\n1,a;b;c\n2,d;e;f\n", "','"),
        ('"a;b","c;d"\n1,2\n', "','"),
    ],
)
def test_the_delimiter_is_recognised_and_said(
    open_files: Open, tmp_path: Path, text: str, mark: str
) -> None:
    (tmp_path / "a.csv").write_text(text)
    table = open_files(CSV, "a.csv")
    said = f"delimiter {mark}, detected in the first lines of a.csv"
    assert table.schema.read_as == (said,)


def test_a_file_of_one_column_is_divided_by_commas_and_its_ragged_row_is_named(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("only\n1,5\n")
    with pytest.raises(CorruptSourceError, match=r"line 2: the row has more or fewer fields"):
        open_files(CSV, "a.csv")


def test_a_declared_delimiter_is_not_recognised_again(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    table = open_files(CSV, "a.csv", options={"delimiter": ","})
    assert table.types == {"a;b": "text"}
    assert table.schema.read_as == ()


def test_decimal_and_thousands_marks_make_numbers(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;amount\n1;1.234,50\n2;-0,05\n3;12\n")
    table = open_files(CSV, "a.csv", options={"decimal": ",", "thousands": "."})
    assert table.types == {"id": "int", "amount": "decimal(6,2)"}
    assert table.rows() == [(1, Decimal("1234.50")), (2, Decimal("-0.05")), (3, Decimal(12))]
    stored = table.extracted(tmp_path / "out")
    assert [row["amount"] for row in stored] == [Decimal("1234.50"), Decimal("-0.05"), Decimal(12)]


def test_a_number_in_other_marks_is_never_a_number(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("amount\n1.234\n2,50\n")
    table = open_files(CSV, "a.csv", options={"delimiter": ";", "decimal": ","})
    assert table.types == {"amount": "text"}
    declared = {"delimiter": ";", "decimal": ",", "schema": {"amount": "decimal(9,3)"}}
    table = open_files(CSV, "a.csv", options=declared)
    assert table.rows() == [(Invalid(b"1.234"),), (Decimal("2.50"),)]
    assert table.extracted(tmp_path / "out")[0]["$invalid.amount"] == b"1.234"


def test_marks_beyond_ascii_are_read(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("amount;note\n1\u202f234,5;\u00e9\n", encoding="utf-8")
    table = open_files(CSV, "a.csv", options={"decimal": ",", "thousands": "\u202f"})
    assert table.rows() == [(Decimal("1234.5"), "\u00e9")]


def test_a_date_format_holds_for_a_whole_column_or_not_at_all(
    open_files: Open, tmp_path: Path
) -> None:
    text = "booked;settled;mixed\n31.01.2026;2026-02-02;31.01.2026\n1.2.2026;2026-02-03;2026-02-01"
    (tmp_path / "a.csv").write_text(text)
    table = open_files(CSV, "a.csv", options={"date_format": "%d.%m.%Y"})
    assert table.types == {"booked": "date", "settled": "date", "mixed": "text"}
    assert [row["booked"] for row in table.extracted(tmp_path / "out")] == [
        date(2026, 1, 31),
        date(2026, 2, 1),
    ]
    assert table.rows()[0][:2] == (Decimal(20484), Decimal(20486))


def test_times_with_an_offset_and_times_of_day_have_formats(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(
        "at,local,clock\n31/01/26 01:30:15.5 PM +0100,20260131 1330,13.30\n"
    )
    formats = {"at": "%d/%m/%y %I:%M:%S.%f %p %z", "clock": "%H.%M"}
    options = {"timestamp_format": "%Y%m%d %H%M", "formats": formats}
    table = open_files(CSV, "a.csv", options=options)
    assert table.types == {"at": "instant", "local": "local_timestamp", "clock": "time"}
    ((at, local, clock),) = table.rows()
    assert (local - at) == Decimal((3600 - 15.5) * 10**6)
    assert clock == Decimal((13 * 60 + 30) * 60 * 10**6)


def test_a_value_without_the_format_of_its_column_is_invalid_and_named(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("day\n01/31/2026\n31/01/2026\n")
    table = open_files(CSV, "a.csv", options={"formats": {"day": "%d/%m/%Y"}})
    assert table.rows() == [(Invalid(b"01/31/2026"),), (Decimal(20484),)]
    (note,) = table.schema.notes
    assert note.message == "column day: '01/31/2026' in line 2 is INVALID, not date"


def test_null_words_stand_for_null_where_they_are_not_quoted(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('amount,note\n1.5,x\nn/a,"n/a"\n,NULL\n\u00f8,y\n', "utf-8")
    table = open_files(CSV, "a.csv", options={"null_words": ["n/a", "NULL", "\u00f8"]})
    assert table.types["amount"] == "decimal(2,1)"
    assert table.rows() == [(Decimal("1.5"), "x"), (None, "n/a"), (None, None), (None, "y")]


@pytest.mark.parametrize("mark", ["utf-16", "utf-16le", "iso-8859-1", "windows-1252"])
def test_other_encodings_are_read_as_they_are_declared(
    open_files: Open, tmp_path: Path, mark: str
) -> None:
    (tmp_path / "a.csv").write_bytes("name;n\r\nM\u00fcller;1\r\n".encode(mark))
    table = open_files(CSV, "a.csv", options={"encoding": mark})
    assert table.rows() == [("M\u00fcller", 1)]


def test_the_mark_of_utf_16_counts_as_declared_also_when_compressed(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("n\u00e4me\n\u20ac\n".encode("utf-16")))
    assert open_files(CSV, "a.csv.gz").rows() == [("\u20ac",)]


@pytest.mark.parametrize(
    ("raw", "encoding", "fault"),
    [
        (b"name\nok\nx\x81\n", "windows-1252", r"a\.csv line 3, byte 10 of the file: 0x81 is no"),
        ("n\nx\n".encode("utf-16") + b"\x00", "utf-8", r"line 3, byte 11 of the file: 0x00"),
        ("n\nx\n".encode("utf-16le"), "utf-8", "without a byte order mark; declare .*utf-16le"),
        ("n\nx\n".encode("utf-16be"), "utf-8", "without a byte order mark; declare .*utf-16be"),
        (b"n\nx\n", "utf-16", "no byte order mark at its beginning"),
        ("n\n".encode("utf-16"), "windows-1252", "begins with a UTF-16 mark"),
        (b"\xef\xbb\xbfn\n", "iso-8859-1", "begins with a UTF-8 mark"),
        ("n\n".encode("utf-32"), "utf-8", "is encoded in UTF-32"),
        (b"caf\xe9\nx\n", "utf-8", r"line 1: the header is not encoded in UTF-8 \(bytes 0x"),
    ],
)
def test_a_wrong_encoding_is_named_with_line_and_byte(
    open_files: Open, tmp_path: Path, raw: bytes, encoding: str, fault: str
) -> None:
    (tmp_path / "a.csv").write_bytes(raw)
    with pytest.raises(CorruptSourceError, match=fault):
        open_files(CSV, "a.csv", options={"encoding": encoding})


def test_lines_that_hold_no_row_are_left_out_and_counted(open_files: Open, tmp_path: Path) -> None:
    lines = [
        "Custodian report",
        '"of 31 January, "odd',
        "# columns follow",
        "id;amount;note",
        "1;2.50;a",
        "# a remark",
        '2;3.50;"b',
        '# no comment"',
        '"TOTAL";6.00;"all',
        'books"',
        "Records: 2",
        "",
    ]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    skip = {"first": 2, "last": 1, "prefixes": ["#", "TOTAL"]}
    table = open_files(CSV, "a.csv", options={"skip": skip, "multiline": True})
    assert table.rows() == [
        (1, Decimal("2.50"), "a"),
        (2, Decimal("3.50"), "b\n# no comment"),
    ]
    assert table.schema.read_as[1:] == (
        "skipped 2 lines before the header (options.skip)",
        "skipped 1 line at the end (options.skip)",
        "skipped 2 lines beginning with '#' (options.skip)",
        "skipped 1 line beginning with 'TOTAL' (options.skip)",
    )


def test_messages_name_lines_of_the_file_as_it_is(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# x\na,b\n# y\n1,2\n# z\n1,2,3\nend\n")
    skip = {"prefixes": ["#"], "last": 1}
    with pytest.raises(CorruptSourceError, match=r"a\.csv line 6: .*options\.skip"):
        open_files(CSV, "a.csv", options={"skip": skip})


def test_a_quoted_footer_over_two_lines_is_one_record(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,b\n1,2\n"sum\nof all",2\n\n')
    assert open_files(CSV, "a.csv", options={"skip": {"last": 1}}).rows() == [(1, 2)]


def test_a_quote_that_stays_open_is_named_while_footers_are_left_out(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('a,b\n1,"2\n3,4\n')
    with pytest.raises(CorruptSourceError, match="a quote is not closed"):
        open_files(CSV, "a.csv", options={"skip": {"prefixes": ["#"]}})


def test_a_line_without_an_end_is_refused_while_footers_are_left_out(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_bytes(b'a\n"' + b"x" * (16 * 1024 * 1024))
    with pytest.raises(SourceLimitError, match="a line, or a field in quotes, has more than"):
        open_files(CSV, "a.csv", options={"skip": {"last": 1}})


@pytest.mark.parametrize(
    ("values", "line", "hint"),
    [
        (["1.5", "2", "n/a", "3", "-"], "'n/a' in line 4", "options.null_words"),
        (["n/a", "2", "3"], "'n/a' in line 2", "options.null_words"),
        (["1.5", "1,234.5"], "'1,234.5' in line 3", "options.decimal and options.thousands"),
        (["1,234.5", "2,234.5"], "'1,234.5' in line 2", "options.decimal"),
        (["31.01.2026", "01.02.2026"], "'31.01.2026' in line 2", "options.formats: {v: "),
        (["2026-01-31", "2026-02-01", "open"], "'open' in line 4", "options.null_words"),
        (["12", "007", "13"], "'007' in line 3", "leading zeros stays text"),
        (["12", "13", "14 "], "'14 ' in line 4", "spaces"),
        (["12", "13", "TOTAL"], "'TOTAL' in line 4", "options.skip"),
    ],
)
def test_the_first_value_that_made_a_column_text_is_named_with_its_line(
    open_files: Open, tmp_path: Path, values: list[str], line: str, hint: str
) -> None:
    (tmp_path / "a.csv").write_text("\n".join(["id;v", *(f"x;{each}" for each in values)]))
    table = open_files(CSV, "a.csv")
    assert table.types["v"] == "text"
    (note,) = table.schema.notes
    assert note.message == f"column v is text because of {line}"
    assert hint in note.hint


def test_a_column_of_words_needs_no_note(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v\nana\nbo\n7\n")
    assert open_files(CSV, "a.csv").schema.notes == ()


def test_a_line_is_counted_over_breaks_blank_lines_and_files(
    open_files: Open, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text('v,w\n1,"a\nb"\n\n2,x\n')
    (tmp_path / "2.csv").write_text("v,w\n3,y\n\n\nbad,z\n")
    table = open_files(CSV, "*.csv", options={"multiline": True})
    (note,) = table.schema.notes
    assert note.message == "column v is text because of 'bad' in line 5 of 2.csv"


@pytest.mark.parametrize(
    "options",
    [
        {"decimal": ",", "thousands": ","},
        {"formats": {"a": "%d.%m"}},
        {"skip": {"middle": 1}},
        {"encoding": "ebcdic"},
    ],
)
def test_options_that_mean_nothing_are_refused(
    open_files: Open, tmp_path: Path, options: dict[str, object]
) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(SourceUnsupportedError, match="options"):
        open_files(CSV, "a.csv", options=options)
