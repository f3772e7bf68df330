"""Reports of bounces and complaints, signed by the operator's mail system."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import httpx2
import pytest
from standardwebhooks import Webhook
from starlette.testclient import TestClient

from datarecs_core.webhooks.signature import new_secret, sign
from datarecs_testing.api import BASE_URL, REPORT_KEY, MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT

PATH = "/api/v1/inbound/email-events"
ADDRESS = "ana@example.com"
COMPLAINT = {"kind": "complaint", "recipient": ADDRESS}
BOUNCE = {"kind": "bounce", "recipient": ADDRESS, "text": "452 4.2.2 mailbox full"}


@dataclass
class MailSystem:
    """Sends signed reports, without a key."""

    api: MemoryApiHouse
    key: bytes = REPORT_KEY

    def report(
        self, event: Mapping[str, object], *, report_id: str = "r1", seconds_off: int = 0
    ) -> httpx2.Response:
        body = json.dumps(event).encode()
        timestamp = int(self.api.clock.now().timestamp()) + seconds_off
        signature = sign([self.key], event_id=report_id, timestamp=timestamp, body=body)
        return self.post(
            body,
            {
                "webhook-id": report_id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": f"v1,AAAA {signature}",
            },
        )

    def post(self, body: bytes, headers: dict[str, str]) -> httpx2.Response:
        client = TestClient(self.api.app, base_url=BASE_URL)
        return client.post(
            PATH, content=body, headers={"content-type": "application/json"} | headers
        )

    def bounce(self, number: int) -> bool:
        answer = self.report(BOUNCE, report_id=f"bounce-{number}")
        assert answer.status_code == 200, answer.text
        suppressed: bool = answer.json()["suppressed"]
        return suppressed

    def suppressed(self) -> dict[str, str | None]:
        """Reason and end of the address in each tenant."""
        shown: dict[str, str | None] = {}
        for name, tenant in (("a", A_TENANT), ("b", B_TENANT)):
            items = self.api.caller(tenant).get("/api/v1/email-suppressions").json()["items"]
            shown |= {f"{name}:{one['reason']}": one["ends_at"] for one in items}
        return shown


@pytest.fixture
def mail_system() -> MailSystem:
    return MailSystem(memory_api())


@pytest.mark.case("M26")
def test_the_fifth_soft_bounce_in_14_days_suppresses_the_address_for_7_days(
    mail_system: MailSystem,
) -> None:
    assert [mail_system.bounce(number) for number in range(5)] == [False] * 4 + [True]
    ends_at = (mail_system.api.clock.now() + timedelta(days=7)).strftime("%Y-%m-%dT%H:%M:%S")
    shown = mail_system.suppressed()
    assert set(shown) == {"a:SOFT_BOUNCES", "b:SOFT_BOUNCES"}
    assert all(str(one).startswith(ends_at) for one in shown.values())
    mail_system.api.clock.advance(timedelta(days=7))
    assert mail_system.suppressed() == {}


@pytest.mark.case("M26")
def test_soft_bounces_of_more_than_14_days_and_copies_do_not_count(
    mail_system: MailSystem,
) -> None:
    for number in (1, 2, 3, 4, 4, 4):
        assert not mail_system.bounce(number)
    mail_system.api.clock.advance(timedelta(days=14, seconds=1))
    assert not mail_system.bounce(5)
    assert mail_system.suppressed() == {}


@pytest.mark.case("M26")
def test_a_complaint_suppresses_the_address_until_it_is_removed(mail_system: MailSystem) -> None:
    answer = mail_system.report(COMPLAINT)
    assert answer.json() == {"tenants": 2, "suppressed": True}
    assert mail_system.suppressed() == {"a:COMPLAINT": None, "b:COMPLAINT": None}
    audit = mail_system.api.store.committed(A_TENANT).audit
    assert audit[-1].row.action == "mail.suppress"
    ana = mail_system.api.caller()
    assert ana.delete(f"/api/v1/email-suppressions/{ADDRESS}").status_code == 200
    assert set(mail_system.suppressed()) == {"b:COMPLAINT"}


def test_a_permanent_bounce_suppresses_the_address(mail_system: MailSystem) -> None:
    answer = mail_system.report(
        {"kind": "bounce", "recipient": "ANA@Example.com", "permanent": True}
    )
    assert answer.json()["suppressed"]
    assert set(mail_system.suppressed()) == {"a:HARD_BOUNCE", "b:HARD_BOUNCE"}


def test_an_address_that_no_tenant_may_write_to_changes_nothing(mail_system: MailSystem) -> None:
    answer = mail_system.report({**COMPLAINT, "recipient": "ana@elsewhere.example"})
    assert answer.json() == {"tenants": 0, "suppressed": False}


@pytest.mark.case("M26")
def test_a_forged_signature_is_refused_and_changes_nothing(mail_system: MailSystem) -> None:
    forger = MailSystem(mail_system.api, key=b"f" * 32)
    refused = [
        forger.report(COMPLAINT),
        mail_system.report(COMPLAINT, seconds_off=301),
        mail_system.report(COMPLAINT, seconds_off=-301),
        mail_system.report(COMPLAINT, report_id="a.b"),
        mail_system.post(json.dumps(COMPLAINT).encode(), {}),
    ]
    assert [one.status_code for one in refused] == [401] * 5
    assert [one.json()["detail"].split(":")[0] for one in refused] == [
        "webhook-signature",
        "webhook-timestamp",
        "webhook-timestamp",
        "webhook-id",
        "webhook-id",
    ]
    assert mail_system.suppressed() == {}
    assert {forger.report(COMPLAINT).status_code for _ in range(20)} == {401, 429}


@pytest.mark.case("X94")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-signature", "v1"),
        ("webhook-signature", "v1,"),
        ("webhook-signature", "v1,####"),
        ("webhook-signature", "v2,AAAA v1a,AAAA ,"),
        ("webhook-signature", ""),
        ("webhook-timestamp", "NaN"),
        ("webhook-timestamp", "1e9"),
        ("webhook-timestamp", "-1"),
        ("webhook-timestamp", "9" * 400),
        ("webhook-timestamp", ""),
        ("webhook-id", ""),
        ("webhook-id", "x" * 65),
    ],
)
def test_a_malformed_signature_is_refused(mail_system: MailSystem, name: str, value: str) -> None:
    sent = mail_system.report(BOUNCE).request
    headers = {one: sent.headers[one] for one in sent.headers if one.startswith("webhook-")}
    answer = mail_system.post(json.dumps(COMPLAINT).encode(), headers | {name: value})
    assert answer.status_code == 401
    assert mail_system.suppressed() == {}


def test_a_changed_body_is_refused(mail_system: MailSystem) -> None:
    sent = mail_system.report(BOUNCE).request
    headers = {name: sent.headers[name] for name in sent.headers if name.startswith("webhook-")}
    changed = b'{"kind":"complaint","recipient":"ana@example.com"}'
    assert mail_system.post(changed, headers).status_code == 401
    assert mail_system.suppressed() == {}


def test_the_public_library_signs_reports_that_are_accepted(mail_system: MailSystem) -> None:
    secret, now = new_secret(REPORT_KEY), mail_system.api.clock.now()
    body = json.dumps(COMPLAINT)
    headers = {
        "webhook-id": "r1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("r1", now, body),
    }
    assert mail_system.post(body.encode(), headers).json()["suppressed"]


@pytest.mark.parametrize(
    ("event", "where"),
    [
        ({"kind": "open", "recipient": ADDRESS}, "/kind"),
        ({"kind": "bounce"}, "/recipient"),
        ({"kind": "bounce", "recipient": "ana"}, "/recipient"),
        ({"kind": "bounce", "recipient": ADDRESS, "token": "x"}, "/token"),
        ({"kind": "bounce", "recipient": ADDRESS, "permanent": "yes"}, "/permanent"),
        ({"kind": "complaint", "recipient": ADDRESS, "permanent": True}, ""),
    ],
)
def test_a_report_with_a_fault_is_refused_with_its_place(
    mail_system: MailSystem, event: dict[str, object], where: str
) -> None:
    answer = mail_system.report(event)
    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.json()["errors"]] == [where]


def test_without_a_secret_no_report_is_accepted() -> None:
    mail_system = MailSystem(memory_api(mail_report_key=None))
    answer = mail_system.report(COMPLAINT)
    assert answer.status_code == 401
    assert "DATARECS_MAIL_REPORTS__SECRET" in answer.json()["detail"]
