import email
import html
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import default
from uuid import UUID

import pytest

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.notifications.content import (
    Count,
    DigestContent,
    DigestLine,
    MailContent,
    MeasureFacts,
    NoticeContent,
    StageFacts,
)
from datarecs_core.notifications.evaluation import Background, MailKind
from datarecs_core.notifications.mail import Notice
from datarecs_core.notifications.rule import Detail
from datarecs_core.runs.model import (
    LikelyCause,
    MeasureGap,
    MissingGroups,
    RunError,
    RunResult,
    RunSummary,
)
from datarecs_core.values import JobId, RunId
from datarecs_reports.mail import MAX_BYTES, MailTemplates
from datarecs_reports.mail_tables import clean

RUN = RunId(UUID("019bc0ef-2a10-7d44-9b6f-0c1d2e3f4a5b"))
JOB = JobId(UUID("019ba000-0000-7000-8000-00000000000a"))
MORNING = datetime(2026, 11, 20, 6, 14, 3, 120455, tzinfo=UTC)
BASE = "https://recs.example.com"
TEMPLATES = MailTemplates(
    sender="datarecs@mail.example.com", mail_domain="mail.example.com", base_url=BASE
)

STAGE = StageFacts(
    name="balance",
    result=RunResult.UNMATCHED,
    rows_compared=1005,
    rows_unmatched=30,
    matched_groups=980,
    missing=(Count("ledger", 20), Count("exports", 5)),
    measures=(MeasureFacts(name="total_amount", tolerance="ABSOLUTE 0.01", within=975, outside=5),),
)
UNMATCHED = MailContent(
    recipient="ana.lopez@example.com",
    rules=("finance", "ops"),
    kind=MailKind.OUTCOME,
    detail=Detail.SUMMARY,
    outcome="UNMATCHED",
    background=Background(since=MORNING, runs=1),
    run_id=RUN,
    job_id=JOB,
    job_name="ledger-vs-exports",
    message_id=f"<run.{RUN}.f3kmq3bzdmu4jppuskrcefpbzq@mail.example.com>",
    thread_root=f"<job.{JOB}.dkpogtxwnvnzthgtpvb32ycftl@mail.example.com>",
    finalised_at=MORNING,
    summary=RunSummary(
        stages_total=1,
        stages_matched=0,
        rows_compared=1005,
        rows_matched=975,
        rows_unmatched=30,
        duration_ms=48_210,
    ),
    error=None,
    stages=(STAGE,),
    source_count=2,
    failed_source=None,
    open_stage=None,
    never_started=False,
    attempt=1,
    deadline_seconds=3600,
)
SUMMARY = UNMATCHED.summary
assert SUMMARY is not None
MATCHED = replace(
    UNMATCHED,
    outcome="MATCHED",
    background=Background(),
    summary=replace(
        SUMMARY, rows_compared=985, rows_matched=985, rows_unmatched=0, stages_matched=1
    ),
    stages=(),
)


GAP = MeasureGap(
    stage_name="balance",
    measure_name="total_amount",
    source="exports",
    reference="ledger",
    gap="-1250.40",
    missing_in_source="1300.00",
    missing_in_reference="0",
    changed="49.60",
    outside_tolerance_count=5,
)
WITH_GAP = replace(
    UNMATCHED,
    summary=replace(
        SUMMARY,
        measures=(GAP,),
        missing=(MissingGroups(stage_name="balance", source="exports", groups=12),),
        likely_cause=LikelyCause(
            stage_name="balance",
            measure_name="total_amount",
            source="exports",
            pattern="ROUNDED",
            explained=4,
            of=5,
        ),
    ),
    report_path="/api/v1/public/reports/token",
    unsubscribe_path="/api/v1/public/unsubscribe/token",
)


def errored(
    code: RunErrorCode, *, detail_code: str | None = None, **changes: object
) -> MailContent:
    error = RunError(code=code, message="it said: no", detail_code=detail_code)
    content = replace(UNMATCHED, outcome=f"ERRORED:{code}", error=error, summary=None, stages=())
    return replace(content, **changes)  # type: ignore[arg-type]  # a builder's table


def parsed(content: MailContent) -> EmailMessage:
    message = email.message_from_bytes(TEMPLATES.render(content), policy=default)
    assert isinstance(message, EmailMessage)
    return message


def parts(content: MailContent) -> tuple[str, str]:
    text, page = parsed(content).iter_parts()
    assert isinstance(text, EmailMessage)
    assert isinstance(page, EmailMessage)
    return text.get_content(), html.unescape(page.get_content())


@pytest.mark.case("M01")
@pytest.mark.parametrize(
    ("content", "subject", "says"),
    [
        (
            MATCHED,
            "● MATCHED ledger-vs-exports",
            ["2 sources agree: 985 groups, every measure within tolerance.", "985 (100 %)"],
        ),
        (
            UNMATCHED,
            "▲ UNMATCHED ledger-vs-exports · 30 of 1,005 groups",
            [
                "The comparison completed and found differences.",
                "Stages that differ: balance.",
                "balance: 20 groups are missing in ledger.",
                "balance: 5 groups are missing in exports.",
                "balance: 5 groups are outside tolerance in total_amount.",
                "975 (97.014 %)",
                f"{BASE}/api/v1/runs/{RUN}/mismatches",
            ],
        ),
        (
            errored(RunErrorCode.TIMED_OUT, open_stage="balance"),
            "✖ TIMED_OUT ledger-vs-exports",
            [
                "Stopped after the deadline of 3,600 s during balance.",
                "No verdict exists",
                "Check the slowest source, compare fewer rows, or raise the deadline.",
            ],
        ),
        (
            errored(RunErrorCode.CRASHED, detail_code="OUT_OF_MEMORY", attempt=2),
            "✖ CRASHED (OUT_OF_MEMORY) ledger-vs-exports",
            [
                "The worker ended unexpectedly (memory or termination) on attempt 2.",
                "No verdict exists",
                "datarecs run ledger-vs-exports",
            ],
        ),
        (
            errored(RunErrorCode.QUERY_FAILED, failed_source="ledger"),
            "✖ QUERY_FAILED ledger-vs-exports · source ledger",
            ["ledger could not be read.", "Message: it said: no", "No verdict exists"],
        ),
        (
            errored(RunErrorCode.UNKNOWN),
            "✖ ERRORED ledger-vs-exports · cause unknown",
            ["The run ended without a verdict, and the cause is not classified."],
        ),
        (
            replace(
                MATCHED,
                kind=MailKind.RECOVERY,
                background=Background(since=MORNING, runs=3, alert_outcome="UNMATCHED"),
            ),
            "● MATCHED again ledger-vs-exports",
            [
                (
                    "It had differed since 2026-11-20 06:14:03 UTC, for 3 runs; "
                    "the first mail reported UNMATCHED."
                )
            ],
        ),
    ],
)
def test_each_outcome_has_its_subject_and_both_parts_say_the_same(
    content: MailContent, subject: str, says: list[str]
) -> None:
    assert parsed(content)["Subject"] == f"[datarecs] {subject}"
    for part in parts(content):
        for sentence in [*says, "notification rule finance, ops", str(RUN)]:
            assert sentence in part


@pytest.mark.case("M05")
def test_a_run_that_was_never_submitted_is_said_to_be_never_started() -> None:
    content = errored(RunErrorCode.UNKNOWN, never_started=True)
    assert "The run could not be submitted, so it never started." in parts(content)[0]


def test_an_unmatched_run_is_never_called_failed() -> None:
    for part in parts(replace(UNMATCHED, detail=Detail.FULL)):
        assert "fail" not in part.lower()
        assert "error" not in part.lower()


@pytest.mark.case("M19")
def test_headers_are_those_of_the_contract() -> None:
    message = parsed(UNMATCHED)
    assert message["Message-ID"] == UNMATCHED.message_id
    assert message["In-Reply-To"] == message["References"] == UNMATCHED.thread_root
    for name in ("Message-ID", "In-Reply-To", "References"):
        assert f"{name}: {message[name]}\r\n".encode() in TEMPLATES.render(UNMATCHED)
    assert message["To"] == "ana.lopez@example.com"
    assert message["Date"] == "Fri, 20 Nov 2026 06:14:03 +0000"
    assert message["List-Id"] == f'"ledger-vs-exports" <{JOB}.jobs.mail.example.com>'
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["X-Auto-Response-Suppress"] == "All"
    assert message["X-Datarecs-Outcome"] == "UNMATCHED"
    assert message["X-Datarecs-Reason"] == "OUTCOME; finance, ops"
    assert message.get_content_type() == "multipart/alternative"


def test_equal_content_has_equal_bytes_with_crlf() -> None:
    mime = TEMPLATES.render(UNMATCHED)
    assert mime == TEMPLATES.render(UNMATCHED)
    assert b"\n" not in mime.replace(b"\r\n", b"")
    assert max(map(len, mime.split(b"\r\n"))) < 998


@pytest.mark.case("M24")
def test_hostile_names_and_texts_add_no_header_no_markup_and_no_control_character() -> None:
    error = RunError(
        code=RunErrorCode.QUERY_FAILED,
        message="<script>alert(1)</script> {{7*7}} \x00 \u202e reversed\r\nBcc: z@example.com",
    )
    content = replace(
        errored(RunErrorCode.QUERY_FAILED), job_name='x"\r\nBcc: y@example.com', error=error
    )
    message = parsed(content)
    assert message["Bcc"] is None
    assert message["To"] == "ana.lopez@example.com"
    assert 'x" Bcc: y@example.com' in message["Subject"]
    _, page = message.iter_parts()
    assert isinstance(page, EmailMessage)
    raw = page.get_content()
    assert "<script>" not in raw
    assert "&lt;script&gt;" in raw
    text = parts(content)[0]
    assert "{{7*7}}" in text
    assert "\x00" not in text
    assert "\u202e" not in text


@pytest.mark.case("M31")
def test_links_start_with_the_base_url_alone_and_nothing_remote_is_loaded() -> None:
    _, page = parsed(UNMATCHED).iter_parts()
    assert isinstance(page, EmailMessage)
    raw = page.get_content()
    assert raw.count("http") == raw.count(BASE)
    assert "src=" not in raw
    assert "<script" not in raw


def test_a_large_mail_is_cut_to_100_kib_and_says_what_is_missing() -> None:
    measures = tuple(
        MeasureFacts(name=f"measure_{n}_" + "x" * 150, tolerance="EXACT", within=1, outside=0)
        for n in range(500)
    )
    content = replace(UNMATCHED, detail=Detail.FULL, stages=(replace(STAGE, measures=measures),))
    mime = TEMPLATES.render(content)
    assert len(mime) <= MAX_BYTES
    assert "more, see report" in parts(content)[0]


def test_detail_decides_how_much_is_said() -> None:
    minimal, _ = parts(replace(UNMATCHED, detail=Detail.MINIMAL))
    full, _ = parts(replace(UNMATCHED, detail=Detail.FULL))
    assert "Groups compared" not in minimal
    assert "total_amount | ABSOLUTE 0.01 | 975 | 5" in full


def test_one_group_is_one_group() -> None:
    one = replace(STAGE, missing=(Count("ledger", 1),), measures=())
    assert "1 group is missing in ledger." in parts(replace(UNMATCHED, stages=(one,)))[0]


def test_an_international_domain_travels_as_a_labels() -> None:
    content = replace(UNMATCHED, recipient="ana@bücher.example")
    assert parsed(content)["To"] == "ana@xn--bcher-kva.example"


def test_cleaning_preserves_words_and_drops_what_cannot_be_seen() -> None:
    assert clean("a\r\n b\u200b\x07") == "a b"


def test_the_first_screen_of_both_parts_states_amounts_missing_groups_and_the_cause() -> None:
    text, page = parts(WITH_GAP)
    for fact in (
        "exports minus ledger",
        "-1,250.40",
        "49.60",
        "total_amount 1,300.00",
        "Likely cause: one source is rounded (total_amount of exports; 4 of 5 differences).",
        f"{BASE}/api/v1/public/reports/token",
    ):
        assert fact in text
        assert fact in page
    assert "exports | balance | 12 | total_amount 1,300.00" in text


def test_the_subject_states_the_one_gap_and_counts_groups_where_there_are_two() -> None:
    assert parsed(WITH_GAP)["Subject"].endswith("▲ UNMATCHED ledger-vs-exports · gap -1,250.40")
    assert WITH_GAP.summary is not None
    other = replace(GAP, measure_name="fee", gap="3")
    two = replace(WITH_GAP.summary, measures=(GAP, other), measures_total=25)
    content = replace(WITH_GAP, summary=two)
    assert parsed(content)["Subject"].endswith("· 30 of 1,005 groups")
    assert "and 23 more, see report" in parts(content)[0]
    agreeing = replace(WITH_GAP.summary, measures=(replace(GAP, gap="0"),))
    assert parsed(replace(WITH_GAP, summary=agreeing))["Subject"].endswith("· 30 of 1,005 groups")


def test_amounts_of_two_currencies_stand_apart_and_the_subject_adds_nothing_up() -> None:
    assert WITH_GAP.summary is not None
    whole = replace(GAP, gap=None, missing_in_source=None, changed=None)
    euros, dollars = (
        replace(GAP, unit=unit, gap=gap, outside_tolerance_count=None)
        for unit, gap in (("EUR", "3"), ("USD", "-1.5"))
    )
    one, two = (
        replace(WITH_GAP, summary=replace(WITH_GAP.summary, measures=measures))
        for measures in ((whole, euros), (whole, euros, dollars))
    )
    assert parsed(one)["Subject"].endswith("· gap 3 EUR")
    assert parsed(two)["Subject"].endswith("groups")
    assert "total_amount EUR | exports minus ledger | 3" in parts(two)[0]


def test_amounts_without_a_total_are_dashes_and_stages_are_named() -> None:
    assert WITH_GAP.summary is not None
    unknown = replace(GAP, stage_name="rows", gap=None, missing_in_source=None, changed=None)
    content = replace(WITH_GAP, summary=replace(WITH_GAP.summary, measures=(GAP, unknown)))
    text = parts(content)[0]
    assert "total_amount (rows) | exports minus ledger | \N{EN DASH} | \N{EN DASH} | 5" in text
    assert WITH_GAP.summary.likely_cause is not None
    pattern = replace(WITH_GAP.summary.likely_cause, measure_name="$presence", pattern="NEW_ONE")
    later = replace(WITH_GAP.summary, likely_cause=pattern)
    assert "Likely cause: NEW_ONE (keys of exports" in parts(replace(WITH_GAP, summary=later))[0]


def test_a_minimal_mail_is_verdict_and_link() -> None:
    text, page = parts(replace(WITH_GAP, detail=Detail.MINIMAL))
    for part in (text, page):
        assert "minus" not in part
        assert "/public/reports/token" in part


@pytest.mark.case("M23")
def test_a_mail_has_one_unsubscribe_header_with_one_https_uri() -> None:
    message = parsed(WITH_GAP)
    uri = f"<{BASE}/api/v1/public/unsubscribe/token>"
    assert message.get_all("List-Unsubscribe") == [uri]
    assert message.get_all("List-Unsubscribe-Post") == ["List-Unsubscribe=One-Click"]
    assert "List-Unsubscribe" not in parsed(UNMATCHED)


def test_a_reminder_states_since_when_the_outcome_goes_on() -> None:
    before = Background(since=MORNING, runs=25)
    subject = parsed(replace(UNMATCHED, kind=MailKind.REMINDER, background=before))["Subject"]
    assert subject == "[datarecs] ▲ still UNMATCHED ledger-vs-exports · since 2026-11-20"


def test_a_test_mail_is_marked_in_its_subject() -> None:
    subject = parsed(replace(UNMATCHED, kind=MailKind.TEST))["Subject"]
    assert subject.startswith("[datarecs] [test] ▲ UNMATCHED")


def a_line(outcome: str, *, minute: int = 0, kind: MailKind = MailKind.OUTCOME) -> DigestLine:
    return DigestLine(
        kind=kind,
        outcome=outcome,
        job_name="ledger-vs-exports",
        finalised_at=MORNING.replace(minute=minute),
        summary=WITH_GAP.summary if outcome == "UNMATCHED" else None,
        report_path="/api/v1/public/reports/token" if outcome == "UNMATCHED" else None,
        run_id=RUN,
    )


DIGEST = DigestContent(
    recipient="ana.lopez@example.com",
    rules=("finance",),
    message_id="<mail.f3kmq3bzdmu4jppuskrcefpbzq@mail.example.com>",
    finalised_at=MORNING,
    lines=(
        a_line("MATCHED", kind=MailKind.RECOVERY),
        a_line("UNMATCHED", minute=1),
        a_line("UNMATCHED", minute=2, kind=MailKind.REMINDER),
        a_line("ERRORED:UNKNOWN", minute=3),
    ),
    unsubscribe_path="/api/v1/public/unsubscribe/token",
)


def test_a_digest_has_one_line_per_run_the_worst_first() -> None:
    message = email.message_from_bytes(TEMPLATES.render(DIGEST), policy=default)
    assert message["Subject"] == "[datarecs] 4 runs: 2 ▲, 1 ✖, 1 ●"
    assert message["List-Unsubscribe"] == f"<{BASE}/api/v1/public/unsubscribe/token>"
    _, text, page = TEMPLATES.text(DIGEST)
    rows = [line for line in text.splitlines() if " | ledger-vs-exports | " in line]
    assert rows == [
        "✖ ERRORED | ledger-vs-exports | 2026-11-20 06:03:03 UTC | ",
        "▲ UNMATCHED | ledger-vs-exports | 2026-11-20 06:01:03 UTC | -1,250.40",
        "▲ still UNMATCHED | ledger-vs-exports | 2026-11-20 06:02:03 UTC | -1,250.40",
        "● MATCHED again | ledger-vs-exports | 2026-11-20 06:00:03 UTC | ",
    ]
    assert f"{BASE}/api/v1/runs/{RUN}/report" in page
    assert f"{BASE}/api/v1/public/reports/token" in page


def test_a_notice_states_facts_as_text_and_links_to_nothing() -> None:
    notice = Notice(
        subject="Webhook orders is disabled",
        headline="Webhook orders is disabled",
        sentences=("No event was delivered for 5 days. <b>",),
        facts=(("Host", "hooks.example.com"),),
    )
    content = NoticeContent(
        recipient="ops@example.com",
        message_id="<mail.x@mail.example.com>",
        finalised_at=MORNING,
        notice=notice,
    )
    subject, text, page = TEMPLATES.text(content)
    assert subject == "[datarecs] ▲ Webhook orders is disabled"
    assert "Host: hooks.example.com" in text
    assert "5 days. &lt;b&gt;" in page
    assert "href" not in page
    good = replace(content, notice=replace(notice, is_good=True))
    assert TEMPLATES.text(good)[0].startswith("[datarecs] ●")
    assert TEMPLATES.render(content).startswith(b"From: ")
