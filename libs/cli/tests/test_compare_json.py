"""`datarecs compare` over JSON lines, beside files of other kinds."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]
Write = Callable[[str, str], None]
LINES = """\
{"id": 9007199254740993, "amount": 1.10, "who": {"name": "007", "tags": [1, 2.0]}}
{"id": 2, "amount": 20.25, "who": {"name": null, "tags": null}}
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Files in the folder that the command runs in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    def written(name: str, content: str) -> None:
        (tmp_path / name).write_text(content, encoding="utf-8")

    return written


def output_of(shown: Shown) -> str:
    """Everything that was printed, as one line."""
    out, err = shown.readouterr()
    return " ".join(f"{out} {err}".split())


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ndjson"])
@pytest.mark.case("P67")
def test_json_lines_and_parquet_compare_digit_for_digit(
    write: Write, capsys: Shown, name: str
) -> None:
    write(name, LINES)
    table = pa.table(
        {
            "id": [2**53 + 1, 2],
            "amount": pa.array([Decimal("1.1"), Decimal("20.25")], pa.decimal128(18, 4)),
            "who.name": ["007", None],
        }
    )
    pq.write_table(table, "b.parquet")
    arguments = ["compare", name, "b.parquet", "--key", "id", "--except", "who.tags"]
    assert run(arguments) == 0
    assert "● MATCHED 2 of 2 groups within tolerance" in output_of(capsys)
    pq.write_table(table.set_column(0, "id", pa.array([2**53, 2])), "b.parquet")
    assert run(arguments) == 1
    assert "1 in both · 1 only in a · 1 only in b" in output_of(capsys)


@pytest.mark.case("P42")
def test_json_values_are_compared_by_what_they_say(write: Write) -> None:
    write("a.jsonl", LINES)
    write("b.jsonl", LINES.replace("[1, 2.0]", "[1.00,2]").replace("1.10", "1.1"))
    assert run(["compare", "a.jsonl", "b.jsonl", "--key", "id"]) == 0
    write("b.jsonl", LINES.replace("[1, 2.0]", "[2, 1]"))
    assert run(["compare", "a.jsonl", "b.jsonl", "--key", "id"]) == 1


@pytest.mark.case("P49")
def test_an_int_and_its_text_are_distinguished(write: Write, capsys: Shown) -> None:
    write("a.jsonl", '{"id": 1}\n')
    write("b.jsonl", '{"id": "1"}\n')
    assert run(["compare", "a.jsonl", "b.jsonl", "--key", "id"]) == 2
    assert "DR1062 --key id: id is int in a, text in b" in output_of(capsys)


@pytest.mark.case("P67")
def test_a_name_that_two_keys_make_is_ambiguous(write: Write, capsys: Shown) -> None:
    write("a.jsonl", '{"id": 1, "a.b": 1, "a": {"b": 1}}\n')
    write("b.jsonl", '{"id": 1, "a": {"b": 1}}\n')
    assert run(["compare", "a.jsonl", "b.jsonl", "--key", "id", "--measure", "a.b"]) == 2
    assert "DR1061" in output_of(capsys)


def test_a_job_file_declares_types_and_filters_lines(write: Write, capsys: Shown) -> None:
    write(
        "job.yaml",
        """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: events}
spec:
  sources:
    - {name: landed, kind: json, path: "landed-*.jsonl", filter: "day > DATE '2026-01-30'",
       columns: {at: meta.at}, options: {schema: {day: date, meta.at: instant, note: text}}}
    - {name: sent, kind: csv, path: sent.csv}
  stages:
    - {name: how-many, type: counts}
    - name: each
      type: row
      dimensions: [id]
      measures: [{name: at}, {name: day}, {name: note}]
""",
    )
    write(
        "landed-1.jsonl", '{"id": 1, "day": "2026-01-31", "meta": {"at": "2026-01-31T10:00:00Z"}}\n'
    )
    write("landed-2.jsonl", '{"id": 2, "day": "2026-01-30", "meta": {"at": null}, "note": "x"}\n')
    write("sent.csv", "id,at,day,note\n1,2026-01-31T12:00:00+02:00,2026-01-31,\n")
    assert run(["compare", "job.yaml"]) == 0, output_of(capsys)
    document = json.loads(Path("datarecs-compare/events/run.json").read_text())
    counts = [stage["counts"]["source_row_counts"] for stage in document["proof"]["stages"]]
    assert counts == [{"source_0": 1, "source_1": 1}] * 2


@pytest.mark.case("P67")
@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"id": 1', "a.jsonl line 2 column 9"),
        ('{"id": 1, "id": 1}', "a.jsonl line 2: a key occurs twice"),
        ("[1]", "a.jsonl line 2: it is not an object"),
    ],
)
def test_a_broken_line_leaves_no_verdict(
    write: Write, capsys: Shown, line: str, place: str
) -> None:
    write("a.jsonl", '{"id": 1}\n' + line)
    write("b.jsonl", '{"id": 1}\n')
    assert run(["compare", "a.jsonl", "b.jsonl", "--key", "id", "--out", "kept"]) == 3
    text = output_of(capsys)
    assert "DR3009" in text
    assert place in text
    assert "Traceback" not in text
    assert not Path("kept/run.json").exists()
