from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.endpoint import Validation, WebhookEndpoint
from datarecs_core.webhooks.handshake import Handshake, begin_handshake
from datarecs_core.webhooks.health import Disabled, DisabledBy, EndpointState
from datarecs_core.webhooks.status import endpoint_status, is_stale, validated

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
WELL = EndpointState(tenant_id=TenantId(UUID(int=1)), endpoint_uid=ResourceUid(UUID(int=2)))
FAILING = replace(WELL, consecutive_failures=4, failing_since=NOON)
GONE = replace(WELL, disabled=Disabled(by=DisabledBy.GONE, at=NOON, generation=1))


def shown(
    state: EndpointState,
    *,
    before: Mapping[str, object] | None = None,
    generation: int = 1,
    now: datetime = NOON,
) -> Mapping[str, object]:
    return endpoint_status(state, generation, before=before or {}, now=now)


def conditions(status: Mapping[str, object]) -> list[tuple[str, str, str]]:
    current = status["conditions"]
    assert isinstance(current, list)
    return [(one["type"], one["status"], one["last_transition_time"]) for one in current]


def test_a_well_endpoint_is_healthy_and_ready() -> None:
    assert [(kind, status) for kind, status, _ in conditions(shown(WELL))] == [
        ("Healthy", "True"),
        ("Ready", "True"),
    ]


def test_the_same_state_has_the_same_status_whatever_the_time() -> None:
    for state in (WELL, FAILING, GONE):
        before = shown(state)
        assert shown(state, before=before, now=LATER) == before


def test_only_the_condition_that_flips_gets_a_new_time() -> None:
    failing = shown(FAILING, before=shown(WELL), now=LATER)
    (_, healthy, moved), (_, ready, unchanged) = conditions(failing)
    assert (healthy, ready) == ("False", "True")
    assert moved > unchanged
    assert failing["failing_since"] == "2026-11-20T12:00:00.000000Z"


def test_a_disabled_endpoint_shows_who_disabled_it_until_its_spec_changes() -> None:
    gone = shown(GONE)
    assert gone["disabled"] == {"by": "gone", "at": "2026-11-20T12:00:00.000000Z"}
    again = shown(GONE, before=gone, generation=2, now=LATER)
    assert "disabled" not in again
    assert conditions(again)[1][1] == "True"


def test_a_status_of_another_form_is_written_anew() -> None:
    assert shown(WELL, before={"conditions": ["x"]}) == shown(WELL, before={"conditions": 3})


REQUESTED = begin_handshake(
    None,
    WebhookEndpoint(url="https://a.example.com/", validation=Validation.HANDSHAKE),
    secret=bytes(32),
    now=NOON,
)


@pytest.mark.parametrize(
    ("handshake", "now", "reason", "ready"),
    [
        (None, NOON, "Pending", "False"),
        (REQUESTED, NOON, "Pending", "False"),
        (replace(REQUESTED, answer="HTTP 200"), NOON, "Pending", "False"),
        (REQUESTED, NOON + timedelta(days=1), "Refused", "False"),
        (replace(REQUESTED, granted_at=NOON), LATER, "Granted", "True"),
    ],
)
def test_an_endpoint_that_needs_consent_shows_its_state(
    handshake: Handshake | None, now: datetime, reason: str, ready: str
) -> None:
    consent = validated(handshake, now=now)
    status = endpoint_status(WELL, 1, before={}, now=now, consent=consent)
    written = status["conditions"]
    assert isinstance(written, list)
    assert {one["type"]: (one["status"], one["reason"]) for one in written} == {
        "Healthy": ("True", "Delivering"),
        "Ready": (ready, "Enabled" if ready == "True" else "NotValidated"),
        "Validated": (ready, reason),
    }
    assert not is_stale(WELL, 1, status, consent)
    assert is_stale(WELL, 1, status, None)
    assert is_stale(WELL, 1, {}, consent)


def test_an_overflow_is_shown_with_its_gap_until_after_its_end() -> None:
    over = replace(WELL, overflow_since=NOON)
    ended = replace(over, overflow_until=LATER)
    assert [one[1] for one in conditions(shown(over))] == ["True", "False"]
    assert [one[1] for one in conditions(shown(ended))] == ["True", "True"]
    assert shown(ended)["last_overflow"] == {
        "since": "2026-11-20T12:00:00.000000Z",
        "until": "2026-11-20T13:00:00.000000Z",
    }
    assert "last_overflow" not in shown(WELL)


def test_a_status_is_stale_when_it_lacks_what_no_attempt_changed() -> None:
    over = replace(WELL, overflow_since=NOON)
    assert is_stale(GONE, 1, shown(WELL))
    assert is_stale(WELL, 1, shown(GONE))
    assert is_stale(over, 1, shown(WELL))
    assert not is_stale(over, 1, shown(over))
    assert not is_stale(GONE, 2, shown(WELL))
