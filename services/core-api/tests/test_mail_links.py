"""Links in mails: what they open, what they change, and when they are dead."""

import json
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from datarecs_core.catalog.layout import run_document
from datarecs_core.notifications.evaluation import EVERYTHING
from datarecs_core.notifications.links import (
    ReportLink,
    UnsubscribeLink,
    write_report_link,
    write_unsubscribe_link,
)
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId
from datarecs_testing.api import (
    BASE_URL,
    LINK_KEY,
    MemoryApiHouse,
    change_run,
    declare,
    memory_api,
)
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.finished_runs import balance_check, books, document

RULE = ResourceUid(an_id())
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Reader:
    """A client with a mail and without a key."""

    house: MemoryApiHouse
    run_id: RunId

    @property
    def client(self) -> TestClient:
        return TestClient(self.house.app, base_url=BASE_URL)

    def report(self, *, tenant: TenantId = A_TENANT, lasts: timedelta = 7 * DAY) -> str:
        now = self.house.clock.now()
        link = ReportLink(
            tenant_id=tenant, run_id=self.run_id, issued_at=now, expires_at=now + lasts
        )
        return f"/api/v1/public/reports/{write_report_link(link, LINK_KEY)}"

    def unsubscribe(self, job: JobId | None = None) -> str:
        link = UnsubscribeLink(
            tenant_id=A_TENANT,
            recipient="ab" * 32,
            rules=(RULE,),
            job_id=job,
            issued_at=self.house.clock.now(),
        )
        return f"/api/v1/public/unsubscribe/{write_unsubscribe_link(link, LINK_KEY)}"

    def scopes(self, *also: str) -> set[str]:
        """What the recipient has ended."""
        with self.house.unit.begin(A_TENANT, read_only=True) as tx:
            pairs = tx.mail_choices.unsubscribed([str(RULE), EVERYTHING, *also])
        return {scope for _, scope in pairs}

    def audited(self, tenant: TenantId = A_TENANT) -> list[str]:
        return [link.row.action for link in self.house.store.committed(tenant).audit]


@pytest.fixture
def reader() -> Reader:
    house = memory_api()
    caller = house.caller()
    declare(caller)
    location = str(caller.post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"])
    return Reader(house, RunId(UUID(location.rpartition("/")[2])))


@pytest.fixture
def finished(reader: Reader) -> Reader:
    tables = books()
    data = json.dumps(document(balance_check(tables), tables)).encode()
    reader.house.blobs.of(A_TENANT).put(run_document(A_TENANT, reader.run_id), data)
    change_run(
        reader.house.unit,
        str(reader.run_id),
        status=RunStatus.COMPLETED,
        result=RunResult.UNMATCHED,
    )
    return reader


class TestReport:
    def test_opens_in_a_browser_without_a_key_and_without_values(self, finished: Reader) -> None:
        answer = finished.client.get(finished.report())
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "content-disposition" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert "UNMATCHED" in answer.text
        assert "Values are left out" in answer.text
        assert finished.audited()[-1] == "report.read"

    def test_a_run_without_a_verdict_has_a_page_too(self, reader: Reader) -> None:
        change_run(reader.house.unit, str(reader.run_id), status=RunStatus.ERRORED)
        assert reader.client.get(reader.report()).status_code == 200

    def test_an_altered_link_is_no_link(self, finished: Reader) -> None:
        path = finished.report()
        for altered in (path[:-1] + ("A" if path[-1] != "A" else "B"), path + "A", path[:-40]):
            assert finished.client.get(altered).status_code == 404
        assert "report.read" not in finished.audited()

    def test_an_expired_link_is_dead(self, finished: Reader) -> None:
        path = finished.report(lasts=DAY)
        finished.house.clock.advance(DAY)
        assert finished.client.get(path).status_code == 404

    def test_a_revoked_link_is_dead_and_a_later_one_lives(self, finished: Reader) -> None:
        path = finished.report()
        caller = finished.house.caller()
        revoked = caller.delete(f"/api/v1/runs/{finished.run_id}/report-links")
        assert revoked.status_code == 200
        assert finished.client.get(path).status_code == 404
        finished.house.clock.advance(timedelta(seconds=2))
        assert finished.client.get(finished.report()).status_code == 200
        assert "report_links.revoke" in finished.audited()

    def test_a_link_of_another_tenant_does_not_reach_the_run(self, finished: Reader) -> None:
        assert finished.client.get(finished.report(tenant=B_TENANT)).status_code == 404
        other = finished.house.caller(B_TENANT)
        path = f"/api/v1/runs/{finished.run_id}/report-links"
        assert other.delete(path).status_code == 404

    def test_a_report_that_is_not_there_yet_is_not_found(self, reader: Reader) -> None:
        assert reader.client.get(reader.report()).status_code == 404
        change_run(
            reader.house.unit,
            str(reader.run_id),
            status=RunStatus.COMPLETED,
            result=RunResult.MATCHED,
        )
        assert reader.client.get(reader.report()).status_code == 404

    def test_a_report_that_the_store_has_lost_is_named(self, finished: Reader) -> None:
        finished.house.blobs.of(A_TENANT).delete(run_document(A_TENANT, finished.run_id))
        answer = finished.client.get(finished.report())
        assert (answer.status_code, answer.json()["code"]) == (404, "DR4025")

    def test_who_tries_many_links_is_made_to_wait(self, finished: Reader) -> None:
        client = finished.client
        statuses = {
            client.get(f"/api/v1/public/reports/{number}").status_code for number in range(100)
        }
        assert statuses == {404, 429}


class TestUnsubscribe:
    @pytest.mark.case("M23")
    @pytest.mark.case("X87")
    def test_opening_the_page_changes_nothing(self, reader: Reader) -> None:
        job = JobId(an_id())
        answer = reader.client.get(reader.unsubscribe(job))
        assert answer.status_code == 200
        assert "form-action 'self'" in answer.headers["content-security-policy"]
        assert answer.text.count("<button") == 3
        assert reader.client.get(reader.unsubscribe()).text.count("<button") == 2
        assert reader.client.head(reader.unsubscribe()).status_code == 200
        assert reader.scopes(str(job)) == set()

    @pytest.mark.case("M23")
    @pytest.mark.case("X87")
    @pytest.mark.parametrize("form", ["data", "files"])
    def test_one_click_ends_the_rules_of_the_mail_once(self, reader: Reader, form: str) -> None:
        path = reader.unsubscribe()
        body = {"List-Unsubscribe": "One-Click"}
        for _ in range(2):
            sent = {"data": body} if form == "data" else {"files": {"List-Unsubscribe": b"x"}}
            answer = reader.client.post(path, follow_redirects=False, **sent)
            assert answer.status_code == 200
            assert "set-cookie" not in answer.headers
        assert reader.scopes() == {str(RULE)}
        assert reader.audited().count("mail.unsubscribe") == 1

    def test_the_page_ends_a_job_or_everything(self, reader: Reader) -> None:
        job = JobId(an_id())
        path = reader.unsubscribe(job)
        assert reader.client.post(path, data={"scope": "job"}).status_code == 200
        assert reader.scopes(str(job)) == {str(job)}
        assert reader.client.post(path, data={"scope": "everything"}).status_code == 200
        assert reader.scopes(str(job)) == {str(job), EVERYTHING}

    @pytest.mark.case("M23")
    @pytest.mark.case("X87")
    def test_an_altered_or_old_token_is_not_found_and_changes_nothing(self, reader: Reader) -> None:
        path = reader.unsubscribe()
        altered = path[:-1] + ("A" if path[-1] != "A" else "B")
        report = path.replace("unsubscribe", "reports")
        for wrong in (altered, report):
            assert reader.client.get(wrong).status_code == 404
        assert reader.client.post(altered).status_code == 404
        reader.house.clock.advance(401 * DAY)
        assert reader.client.post(path).status_code == 404
        assert reader.scopes() == set()

    def test_a_large_body_is_refused(self, reader: Reader) -> None:
        assert reader.client.post(reader.unsubscribe(), content=b"x" * 5_000).status_code == 413
        assert reader.scopes() == set()
