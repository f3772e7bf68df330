"""What happens in a run, in words: a line per event for logs, only ends for terminals."""

import pytest

from datarecs_cli.follow import Dropped, Happened, Snapshot
from datarecs_cli.narration import Narrator
from datarecs_cli.output import UNICODE
from datarecs_testing.scripted_api import a_run_view, an_entry

COUNTS = {
    "stage_name": "rows",
    "join_stats": {"matched_groups": 980, "unmatched_by_source": {"source_0": 5, "source_1": 20}},
    "rows_matched": 975,
    "rows_unmatched": 30,
}
ERROR = {"code": "QUERY_FAILED", "detail_code": "RELATION_MISSING", "message": "no relation x"}
EXTRACTED = (
    an_entry(3, "run.extraction.started", extraction_index=1, connection_type="parquet"),
    an_entry(5, "run.extraction.completed", extraction_index=1, rows_extracted=1005),
)


@pytest.mark.parametrize(
    ("kind", "data", "line"),
    [
        ("run.triggered", {"triggered_by": "admin"}, "run.triggered            by admin"),
        ("run.rows_processed", {"stage_name": "rows", "row_count": 1208, "mismatch_count": 14},
         "run.rows_processed       rows 1,208 rows · 14 mismatches"),
        ("run.comparison.started", {"stage_name": "rows", "input_source_count": 2},
         "run.comparison.started   rows 2 sources"),
        ("run.comparison.completed", COUNTS,
         "run.comparison.completed rows 980 in all · 975 matched · 30 unmatched"),
        ("run.stage.completed", {"stage_name": "rows", "result": "UNMATCHED"},
         "run.stage.completed      rows ▲ UNMATCHED"),
        ("run.errored", {"error": ERROR},
         "run.errored              QUERY_FAILED/RELATION_MISSING no relation x"),
        ("run.extraction.errored", {"extraction_index": 0, "error": ERROR},
         "run.extraction.errored   ledger: QUERY_FAILED/RELATION_MISSING no relation x"),
        ("run.cancelled", {"cancelled_by": "u-7", "reason": "wrong month"},
         "run.cancelled            wrong month by u-7"),
        ("of.a.later.release", {}, "of.a.later.release"),
    ],
)  # fmt: skip
def test_every_event_is_one_plain_line_of_a_log(
    kind: str, data: dict[str, object], line: str
) -> None:
    narrator = Narrator(UNICODE, sources=("ledger", "exports"))
    assert narrator.lines(Happened(an_entry(7, kind, **data))) == [f"12:00:07 {line}"]


def test_an_extraction_reports_rows_pace_and_time() -> None:
    narrator = Narrator(UNICODE, sources=("ledger", "exports"))
    lines = [line for entry in EXTRACTED for line in narrator.lines(Happened(entry))]
    assert lines[0].endswith("exports (parquet)")
    assert lines[1].endswith("exports 1,005 rows · 502 rows/s · 2.0 s")


def test_sources_without_names_are_numbered() -> None:
    assert "source 2" in Narrator(UNICODE).lines(Happened(EXTRACTED[0]))[0]


def test_a_terminal_gets_a_line_for_what_is_finished_and_a_word_for_what_is_not() -> None:
    narrator = Narrator(UNICODE, sources=("ledger", "exports"))
    assert narrator.finished(Happened(EXTRACTED[0])) == []
    assert narrator.doing == "reading exports (parquet)"
    assert narrator.finished(Happened(EXTRACTED[1])) == [
        "  read     exports 1,005 rows · 502 rows/s · 2.0 s"
    ]


def test_the_row_says_the_status() -> None:
    narrator = Narrator(UNICODE)
    assert narrator.lines(Snapshot(a_run_view(status="RUNNING"))) == []
    assert narrator.status == "RUNNING"


def test_a_lost_connection_is_reported_harmlessly() -> None:
    assert Narrator(UNICODE).lines(Dropped("\x1b[2J")) == [
        "  connection lost (\\x1b[2J); reconnecting"
    ]


@pytest.mark.case("X81")
def test_texts_of_the_run_do_nothing() -> None:
    entry = an_entry(1, "run.cancelled", cancelled_by="\x1b[2J", reason="\r\n\u202e")
    (line,) = Narrator(UNICODE).lines(Happened(entry))
    assert line.isprintable()
