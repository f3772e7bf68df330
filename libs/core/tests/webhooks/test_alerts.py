from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.alerts import AlertFacts, AlertKind, endpoint_alerts
from datarecs_core.webhooks.health import Disabled, DisabledBy, EndpointState

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
WELL = EndpointState(tenant_id=TenantId(UUID(int=1)), endpoint_uid=ResourceUid(UUID(int=2)))
FAILING = replace(WELL, failing_since=NOON, consecutive_failures=12)
WARNED = replace(FAILING, warned_at=NOON + timedelta(hours=24))
FACTS = AlertFacts(
    name="erp",
    host="erp.example.com:8443",
    last_outcome="HTTP_5XX, status 503",
    disable_after=timedelta(days=5),
    max_pending=1_000,
)


def disabled(by: DisabledBy) -> EndpointState:
    return replace(WARNED, disabled=Disabled(by=by, at=NOON + timedelta(days=5), generation=3))


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (WELL, WELL, []),
        (WELL, FAILING, []),
        (FAILING, WARNED, [AlertKind.FAILING]),
        (WARNED, WARNED, []),
        (WARNED, disabled(DisabledBy.AUTO), [AlertKind.DISABLED]),
        (FAILING, disabled(DisabledBy.AUTO), [AlertKind.DISABLED]),
        (WELL, disabled(DisabledBy.GONE), [AlertKind.DISABLED]),
        (WELL, disabled(DisabledBy.RECEIVER), [AlertKind.DISABLED]),
        (WELL, disabled(DisabledBy.USER), []),
        (WARNED, WELL, [AlertKind.RECOVERED]),
        (FAILING, WELL, []),
        (WELL, replace(WELL, overflow_since=NOON), [AlertKind.OVERFLOW]),
        (replace(WELL, overflow_since=NOON), replace(WELL, overflow_since=NOON), []),
    ],
)
def test_an_alert_is_the_difference_of_two_states(
    before: EndpointState, after: EndpointState, kinds: list[AlertKind]
) -> None:
    assert [alert.kind for alert in endpoint_alerts(before, after, FACTS)] == kinds


def test_an_alert_says_what_where_since_when_and_what_to_do() -> None:
    (alert,) = endpoint_alerts(WARNED, disabled(DisabledBy.AUTO), FACTS)
    assert alert.notice.facts == (
        ("Endpoint", "erp"),
        ("Host", "erp.example.com:8443"),
        ("Failing since", "2026-11-20 12:00 UTC"),
        ("Failures in a row", "12"),
        ("Last outcome", "HTTP_5XX, status 503"),
    )
    text = " ".join(alert.notice.sentences)
    assert "datarecs webhook enable --endpoint erp" in text
    assert "datarecs webhook recover --endpoint erp --since 2026-11-25T12:00:00Z" in text
    assert not alert.notice.is_good


def test_a_second_episode_is_another_mail() -> None:
    later = replace(WARNED, failing_since=NOON + timedelta(days=9))
    scopes = {endpoint_alerts(WELL, state, FACTS)[0].scope for state in (WARNED, later)}
    assert len(scopes) == 2


def test_what_is_not_known_is_left_out() -> None:
    facts = replace(FACTS, host="", last_outcome="", disable_after=None)
    (alert,) = endpoint_alerts(WELL, replace(WELL, overflow_since=NOON, pending=1_000), facts)
    assert alert.notice.facts == (("Endpoint", "erp"),)
    assert "fewer than 800 wait" in " ".join(alert.notice.sentences)
