"""Data on stdout: every form, and nothing of a source's text does anything there."""

import csv
import io
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_cli.invocation import Invocation, Output, UsageFault
from datarecs_cli.output import (
    ASCII,
    UNICODE,
    Column,
    amount,
    as_csv,
    as_markdown,
    as_yaml,
    cell,
    csv_text,
    exact_json,
    print_list,
    table,
    words,
)
from datarecs_reports.figures import markdown_inline

HOSTILE = "\x1b[31mred\x1b]8;;http://x\x07 \r\u202e[bold]\x9b\x00\n\u2066"
COLUMNS = (Column(title="NAME", member="name"), Column(title="SUM", member="sum", number=True))
ITEMS = ({"name": "a", "sum": "1234.50"}, {"name": "longer", "sum": "-0.1"})


@pytest.mark.case("X81")
@pytest.mark.case("U14")
def test_nothing_of_a_foreign_text_reaches_the_terminal_as_a_command() -> None:
    shown = cell(HOSTILE)
    assert shown.isprintable()
    assert "\\x1b[31mred" in shown
    assert "[bold]" in shown


@pytest.mark.case("X81")
@given(st.text())
def test_no_text_at_all_does(text: str) -> None:
    assert cell(text).isprintable()


@given(st.text())
def test_a_cell_never_leaves_its_line_or_its_column_of_a_table(text: str) -> None:
    lines = table([Column(title="A", member="a")], [{"a": text}, {"a": "b"}])
    assert len(lines) == 3


LONG = "x" * 5_000


def test_nothing_is_cut_in_a_pipe() -> None:
    columns = [Column(title="A", member="a"), Column(title="B", member="a")]
    assert table(columns, [{"a": LONG}])[1] == f"{LONG}  {LONG}"
    assert cell(LONG) == LONG


def test_a_terminal_cuts_the_long_texts_of_a_table_but_never_its_last_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    columns = [Column(title="A", member="a"), Column(title="B", member="a")]
    first, last = table(columns, [{"a": LONG}])[1].split("  ")
    assert first == "x" * 197 + "..."
    assert last == LONG


def test_numbers_stand_right_with_separators_for_people() -> None:
    assert table(COLUMNS, ITEMS) == [
        "NAME         SUM",
        "a       1,234.50",
        "longer      -0.1",
    ]


@pytest.mark.parametrize("text", ["n/a", "", "1e5", "NaN", "--1"])
def test_what_is_no_plain_number_stays_as_it_is(text: str) -> None:
    assert amount(text) == text


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+SUM(A1)", "-2+3", "@x", " =1", "\t=1", "\tx", "\r", "\n=", "＝1", "\u3000+1"],  # noqa: RUF001  full-width signs
)
def test_a_text_that_a_spreadsheet_would_obey_is_marked_as_text(text: str) -> None:
    assert csv_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-12.50", "+7", "0.1", "a=b", "", "1,5", "2026-01-01"])
def test_plain_numbers_and_harmless_texts_are_left_alone(text: str) -> None:
    assert csv_text(text) == text


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_csv_reads_back_what_was_written(texts: list[str]) -> None:
    written = as_csv([Column(title="A", member="a")], [{"a": text} for text in texts])
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert [row[0] if row else "" for row in rows[1:]] == [csv_text(text) for text in texts]


@pytest.mark.parametrize("text", ["x|y", "@me", "www.x.de", "https://x", "`a`", "<b>", "#1", "*"])
def test_markdown_shows_foreign_text_as_code(text: str) -> None:
    assert markdown_inline(text).startswith("`")
    assert as_markdown([Column(title="A", member="a")], [{"a": text}]).count("\n") == 2


def test_a_pipe_of_the_data_makes_no_further_cell() -> None:
    row = as_markdown([Column(title="A", member="a")], [{"a": "x|y"}]).splitlines()[2]
    assert row == "| `x\\|y` |"


@pytest.mark.parametrize("text", ["plain words", "1,234.50", "-3", "", "größe"])
def test_markdown_leaves_words_and_numbers_as_they_are(text: str) -> None:
    assert markdown_inline(text) == text


def test_yaml_leaves_texts_texts() -> None:
    assert as_yaml({"b": "0.10", "a": [{"x": "no"}], "n": None}) == (
        "b: '0.10'\na:\n- x: no\nn: null"
    )


def test_json_preserves_every_digit() -> None:
    value = {"a": [Decimal("0.10"), None, True, "ü"], "b": 10**20}
    assert exact_json(value) == '{"a": [0.10, null, true, "\\u00fc"], "b": 100000000000000000000}'


@pytest.mark.case("U13")
def test_json_names_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    print_list("get", COLUMNS, ITEMS, Invocation(output=Output.JSON))
    document = json.loads(capsys.readouterr().out)
    assert document == {"schema": "datarecs.cli.get/1", "items": [dict(one) for one in ITEMS]}


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (Output.NAME, ["a", "longer"]),
        (Output.JSONL, ['{"name": "a", "sum": "1234.50"}', '{"name": "longer", "sum": "-0.1"}']),
        (Output.CSV, ["NAME,SUM", "a,1234.50", "longer,-0.1"]),
        (Output.MD, ["| NAME | SUM |", "| --- | --- |", "| a | 1234.50 |", "| longer | -0.1 |"]),
    ],
)
def test_one_list_in_every_form(
    output: Output, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_list("get", COLUMNS, ITEMS, Invocation(output=output))
    assert capsys.readouterr().out.splitlines() == lines


def test_a_form_that_does_not_fit_is_wrong_usage() -> None:
    with pytest.raises(UsageFault, match="-o github"):
        print_list("get", COLUMNS, ITEMS, Invocation(output=Output.GITHUB))


def test_no_items_are_no_lines_as_jsonl(capsys: pytest.CaptureFixture[str]) -> None:
    print_list("get", COLUMNS, (), Invocation(output=Output.JSONL))
    assert capsys.readouterr().out == ""


@pytest.mark.case("U12")
@pytest.mark.parametrize(
    ("environment", "encoding", "expected"),
    [
        ({"LANG": "de_DE.UTF-8"}, "utf-8", UNICODE),
        ({"LC_CTYPE": "C.UTF-8"}, "utf-8", UNICODE),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "utf-8", ASCII),
        ({}, "utf-8", ASCII),
        ({"LANG": "de_DE.UTF-8"}, "ascii", ASCII),
        ({"LANG": "de_DE.UTF-8"}, None, ASCII),
    ],
)
def test_signs_are_ascii_unless_locale_and_stream_say_utf_8(
    environment: dict[str, str], encoding: str | None, expected: object
) -> None:
    assert words(environment, encoding=encoding) is expected


@pytest.mark.case("U12")
def test_the_ascii_words_are_ascii() -> None:
    assert str(ASCII).isascii()


def test_every_outcome_has_a_separate_sign() -> None:
    outcomes = ("MATCHED", "UNMATCHED", "ERRORED", "CANCELLED", "RUNNING")
    for terminal in (UNICODE, ASCII):
        assert len({terminal.sign(one) for one in outcomes}) == len(outcomes)
