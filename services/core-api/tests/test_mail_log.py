"""The mail log, sending again, and addresses that get no mail."""

import pytest
from starlette.testclient import TestClient

from datarecs_application.ports.delivery import MailAttempt
from datarecs_core.access.permissions import Role
from datarecs_core.notifications.feedback import NewSuppression, SuppressionReason
from datarecs_core.notifications.mail import Mail, MailReason, MailState
from datarecs_core.notifications.replies import Reply, Stage
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, an_id
from datarecs_testing.deliveries import a_mail


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def stored(house: MemoryApiHouse, **changes: object) -> Mail:
    mail = a_mail(**changes)
    with house.unit.begin(mail.tenant_id) as tx:
        tx.mails.add(mail)
    return mail


FAILED = {"state": MailState.FAILED, "reason": MailReason.PERMANENT, "due_at": None}


def test_the_log_is_filtered_and_paged(house: MemoryApiHouse, ana: TestClient) -> None:
    mails = [stored(house) for _ in range(3)]
    failed = stored(house, **FAILED)
    first = ana.get("/api/v1/emails?limit=2").json()
    rest = ana.get(f"/api/v1/emails?limit=2&cursor={first['next']}").json()
    shown = [item["delivery_id"] for item in (*first["items"], *rest["items"])]
    assert sorted(shown) == sorted(str(mail.delivery_id) for mail in (*mails, failed))
    (item,) = ana.get("/api/v1/emails?state=FAILED").json()["items"]
    assert (item["recipient"], item["reason"]) == ("ana@example.com", "PERMANENT")
    (item,) = ana.get(f"/api/v1/emails?run_id={mails[0].run_id}").json()["items"]
    assert item["delivery_id"] == str(mails[0].delivery_id)
    assert house.caller(B_TENANT).get("/api/v1/emails").json()["items"] == []


def test_attempts_show_what_the_relay_answered(house: MemoryApiHouse, ana: TestClient) -> None:
    mail = stored(house)
    attempt = MailAttempt(
        delivery_id=mail.delivery_id,
        attempt_no=1,
        started_at=NOON,
        reply=Reply(stage=Stage.RCPT, code=451, text="later"),
        relay="relay:587",
    )
    with house.unit.begin(A_TENANT) as tx:
        tx.mails.open_attempt(attempt)
        tx.mails.close_attempt(attempt)
    (item,) = ana.get(f"/api/v1/emails/{mail.delivery_id}/attempts").json()["items"]
    assert (item["code"], item["text"], item["relay"]) == (451, "later", "relay:587")
    other = house.caller(B_TENANT)
    assert other.get(f"/api/v1/emails/{mail.delivery_id}/attempts").status_code == 404


def test_a_failed_mail_is_queued_again_under_its_message_id(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    mail = stored(house, **FAILED, attempts=3, last_reply="550 no")
    answer = ana.post(f"/api/v1/emails/{mail.delivery_id}/resend")
    assert answer.status_code == 202
    again = answer.json()
    assert again["delivery_id"] != str(mail.delivery_id)
    assert (again["state"], again["message_id"]) == ("PENDING", mail.message_id)
    assert (again["attempts"], again["last_reply"]) == (0, "")
    chain = house.store.committed(A_TENANT).audit
    assert chain[-1].row.action == "mail.resend"


@pytest.mark.parametrize("state", [MailState.SENT, MailState.PENDING, MailState.SKIPPED])
def test_a_mail_that_did_not_fail_is_not_sent_again(
    house: MemoryApiHouse, ana: TestClient, state: MailState
) -> None:
    mail = stored(house, state=state, due_at=NOON if state is MailState.PENDING else None)
    assert ana.post(f"/api/v1/emails/{mail.delivery_id}/resend").status_code == 409


def test_sending_again_needs_the_permission_and_the_tenant(house: MemoryApiHouse) -> None:
    mail = stored(house, **FAILED)
    path = f"/api/v1/emails/{mail.delivery_id}/resend"
    assert house.caller(A_TENANT, Role.VIEWER).post(path).status_code == 403
    assert house.caller(B_TENANT).post(path).status_code == 404
    assert house.caller().post(f"/api/v1/emails/{an_id()}/resend").status_code == 404


def test_a_suppressed_address_is_listed_and_released(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    with house.unit.begin(A_TENANT) as tx:
        tx.mail_choices.suppress(
            NewSuppression(
                recipient_key="bo@example.com",
                reason=SuppressionReason.HARD_BOUNCE,
                text="550 no",
                ends_at=None,
            )
        )
    (item,) = ana.get("/api/v1/email-suppressions").json()["items"]
    assert (item["address"], item["reason"]) == ("bo@example.com", "HARD_BOUNCE")
    path = "/api/v1/email-suppressions/bo@example.com"
    assert house.caller(B_TENANT).delete(path).status_code == 404
    assert house.caller(A_TENANT, Role.VIEWER).delete(path).status_code == 403
    assert ana.delete(path).status_code == 200
    assert ana.delete(path).status_code == 404
    assert ana.get("/api/v1/email-suppressions").json()["items"] == []
