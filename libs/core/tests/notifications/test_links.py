from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.notifications.links import (
    ReportLink,
    UnsubscribeLink,
    read_report_link,
    read_unsubscribe_link,
    write_report_link,
    write_unsubscribe_link,
)
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
KEY, OLD_KEY = b"k" * 32, b"o" * 32
DAY = timedelta(days=1)
REPORT = ReportLink(
    tenant_id=TenantId(UUID(int=1)),
    run_id=RunId(UUID(int=2)),
    issued_at=NOON,
    expires_at=NOON + 7 * DAY,
)
LEAVE = UnsubscribeLink(
    tenant_id=TenantId(UUID(int=1)),
    recipient="ab" * 32,
    rules=(ResourceUid(UUID(int=3)), ResourceUid(UUID(int=4))),
    job_id=JobId(UUID(int=5)),
    issued_at=NOON,
)


def test_a_link_is_read_as_it_was_written_also_under_the_previous_key() -> None:
    assert read_report_link(write_report_link(REPORT, OLD_KEY), [KEY, OLD_KEY]) == REPORT
    token = write_unsubscribe_link(LEAVE, KEY)
    assert read_unsubscribe_link(token, [KEY], now=NOON) == LEAVE
    digest = replace(LEAVE, job_id=None)
    token = write_unsubscribe_link(digest, KEY)
    assert read_unsubscribe_link(token, [KEY], now=NOON) == digest


@pytest.mark.case("M23")
@pytest.mark.case("X87")
@given(st.data())
def test_no_altered_token_is_read(data: st.DataObject) -> None:
    token = write_unsubscribe_link(LEAVE, KEY)
    at = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters(codec="ascii"))
    altered = token[:at] + letter + token[at + 1 :]
    if altered != token:
        assert read_unsubscribe_link(altered, [KEY], now=NOON) is None


@given(st.text(max_size=50))
def test_no_other_text_is_a_token(text: str) -> None:
    assert read_report_link(text, [KEY]) is None
    assert read_unsubscribe_link(text, [KEY], now=NOON) is None


def test_a_token_of_one_purpose_or_of_another_key_is_no_token_of_another() -> None:
    assert read_report_link(write_unsubscribe_link(LEAVE, KEY), [KEY]) is None
    assert read_unsubscribe_link(write_report_link(REPORT, KEY), [KEY], now=NOON) is None
    assert read_report_link(write_report_link(REPORT, OLD_KEY), [KEY]) is None
    assert read_report_link(write_report_link(REPORT, KEY) + "." * 9_000, [KEY]) is None


def test_a_report_link_lives_seven_days_and_dies_with_a_revocation() -> None:
    assert REPORT.is_live(NOON + 6 * DAY, None)
    assert not REPORT.is_live(NOON + 7 * DAY, None)
    assert not REPORT.is_live(NOON + DAY, NOON)
    assert REPORT.is_live(NOON + DAY, NOON - DAY)
    longer = replace(REPORT, expires_at=NOON + 8 * DAY)
    assert not longer.is_live(NOON, None)


def test_an_unsubscribe_link_works_for_400_days() -> None:
    token = write_unsubscribe_link(LEAVE, KEY)
    assert read_unsubscribe_link(token, [KEY], now=NOON + 400 * DAY) == LEAVE
    assert read_unsubscribe_link(token, [KEY], now=NOON + 401 * DAY) is None
