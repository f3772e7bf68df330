"""Previews of notification rules and test mails."""

from dataclasses import dataclass
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role
from datarecs_core.notifications.evaluation import MailKind
from datarecs_core.notifications.mail import MailState
from datarecs_core.notifications.rule import NotificationRule, Recipient
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.values import RunId
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT, a_run
from datarecs_testing.deliveries import a_rule

RULE = NotificationRule(
    to=(Recipient(address="ana@example.com"), Recipient(address="bo@elsewhere.example"))
)


@dataclass(frozen=True)
class Setting:
    house: MemoryApiHouse
    client: TestClient
    rule: str
    run_id: RunId

    def request(self, what: str, client: TestClient | None = None, **body: str) -> "Answer":
        path = f"/api/v1/notification-rules/{self.rule}/{what}"
        content = {"run_id": str(self.run_id), **body}
        answer = (client or self.client).post(path, json=content)
        return Answer(answer.status_code, answer.json())


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, object]


@pytest.fixture
def setting() -> Setting:
    house = memory_api()
    rule = a_rule(RULE)
    run = a_run(status=RunStatus.COMPLETED, result=RunResult.UNMATCHED, closed_at=house.clock.now())
    with house.unit.begin(A_TENANT) as tx:
        tx.resources.add(rule)
        tx.runs.add(run)
    return Setting(house, house.caller(), rule.name, run.run_id)


@pytest.mark.case("M30")
def test_a_preview_names_who_is_mailed_and_who_not_and_writes_nothing(setting: Setting) -> None:
    answer = setting.request("preview")
    assert answer.status == 200
    assert answer.body["recipients"] == [
        {"address": "ana@example.com", "kind": "OUTCOME", "skipped": None, "due_at": None},
        {
            "address": "bo@elsewhere.example",
            "kind": "OUTCOME",
            "skipped": "UNVERIFIED",
            "due_at": None,
        },
    ]
    assert str(answer.body["subject"]).startswith("[datarecs] ▲ UNMATCHED")
    assert "found differences" in str(answer.body["text"])
    assert "<h1" in str(answer.body["html"])
    state = setting.house.store.committed(A_TENANT).delivery
    assert (state.mails, state.rule_states) == ({}, {})


def test_a_preview_has_the_reason_why_no_mail_is_sent(setting: Setting) -> None:
    run = a_run(
        status=RunStatus.COMPLETED, result=RunResult.MATCHED, closed_at=setting.house.clock.now()
    )
    with setting.house.unit.begin(A_TENANT) as tx:
        tx.runs.add(run)
    answer = setting.request("preview", run_id=str(run.run_id))
    assert answer.body["held"] == [{"rule": None, "reason": "NO_MATCHING_RULE"}]
    assert (answer.body["recipients"], answer.body["subject"]) == ([], None)


@pytest.mark.case("M30")
def test_a_test_mail_goes_to_one_recipient_and_touches_no_state(setting: Setting) -> None:
    answer = setting.request("test", address="Ana@example.com")
    assert answer.status == 202
    state = setting.house.store.committed(A_TENANT).delivery
    mail = state.mails[UUID(str(answer.body["delivery_id"]))]
    assert (mail.kind, mail.state, mail.recipient) == (
        MailKind.TEST,
        MailState.PENDING,
        "ana@example.com",
    )
    assert state.rule_states == {}
    assert setting.house.store.committed(A_TENANT).audit[-1].row.action == "rule.test"


@pytest.mark.parametrize("address", ["bo@elsewhere.example", "eve@example.com", "no address"])
def test_a_test_mail_goes_only_to_its_address(setting: Setting, address: str) -> None:
    assert setting.request("test", address=address).status == 422


@pytest.mark.case("M30")
def test_another_tenants_rule_or_run_is_not_found_and_a_viewer_is_refused(
    setting: Setting,
) -> None:
    other = setting.house.caller(B_TENANT)
    viewer = setting.house.caller(A_TENANT, Role.VIEWER)
    for what, body in (("preview", {}), ("test", {"address": "ana@example.com"})):
        assert setting.request(what, other, **body).status == 404
        assert setting.request(what, viewer, **body).status == 403


def test_a_run_without_an_outcome_has_no_preview(setting: Setting) -> None:
    run = a_run(status=RunStatus.RUNNING)
    with setting.house.unit.begin(A_TENANT) as tx:
        tx.runs.add(run)
    assert setting.request("preview", run_id=str(run.run_id)).status == 409
