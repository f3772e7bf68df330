"""Conformance suites of Mails, RuleStates and the mail claim."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from datarecs_application.ports.delivery import MailAttempt, MailFilter
from datarecs_core.notifications.evaluation import Background, RuleState, SkipReason
from datarecs_core.notifications.feedback import NewSuppression, SuppressionReason
from datarecs_core.notifications.mail import (
    RATE_FOLD,
    Folded,
    Mail,
    MailReason,
    MailState,
    Notice,
    Phase,
    lease,
)
from datarecs_core.notifications.replies import Reply, Stage
from datarecs_core.values import JobId, ResourceUid, RunId
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.deliveries import a_mail

HOUR = timedelta(hours=1)


def run_of(mail: Mail) -> RunId:
    assert mail.run_id is not None
    return mail.run_id


class MailsConformance:
    """Subclass with a fixture `stores`."""

    def test_one_dedupe_key_is_one_mail_within_a_tenant(self, stores: Stores) -> None:
        mail = a_mail()
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.add(mail)
            assert not tx.mails.add(replace(mail, delivery_id=an_id()))
            assert tx.mails.of_run(run_of(mail)) == [mail]
        with stores.mail.unit.begin(B_TENANT) as tx:
            assert tx.mails.add(replace(mail, tenant_id=B_TENANT))

    def test_a_mail_is_saved_and_loaded_with_every_field(self, stores: Stores) -> None:
        with stores.mail.unit.begin(A_TENANT) as tx:
            mail = a_mail(background=Background(since=tx.now, runs=3, alert_outcome="UNMATCHED"))
            tx.mails.add(mail)
            leased = replace(
                lease(mail, owner="n-1", now=tx.now),
                phase=Phase.DATA,
                attempts=2,
                unknowns=1,
                last_reply="451 later",
            )
            tx.mails.save(leased)
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.get(mail.delivery_id) == leased
            failed = replace(
                leased,
                state=MailState.FAILED,
                reason=MailReason.PERMANENT,
                phase=None,
                due_at=None,
                lease_owner=None,
                lease_until=None,
            )
            tx.mails.save(failed)
            assert tx.mails.get(mail.delivery_id) == failed
            assert tx.mails.get(an_id()) is None

    def test_a_skipped_mail_has_its_reason_and_is_never_claimed(self, stores: Stores) -> None:
        skipped = a_mail(state=MailState.SKIPPED, reason=SkipReason.UNVERIFIED, due_at=None)
        with stores.mail.unit.begin(A_TENANT) as tx:
            tx.mails.add(skipped)
        assert stores.mail.finder.claim_mails(10) == []
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.get(skipped.delivery_id) == skipped

    @pytest.mark.case("M17")
    def test_the_bytes_of_a_mail_are_stored(self, stores: Stores) -> None:
        mail = a_mail()
        with stores.mail.unit.begin(A_TENANT) as tx:
            tx.mails.add(mail)
            assert tx.mails.mime(mail.delivery_id) is None
            tx.mails.store_mime(mail.delivery_id, b"Subject: \x00\xff\r\n")
            tx.mails.save(replace(mail, attempts=1))
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.mime(mail.delivery_id) == b"Subject: \x00\xff\r\n"

    def test_a_claim_blocks_a_mail_until_it_is_saved(self, stores: Stores) -> None:
        with stores.mail.unit.begin(A_TENANT) as tx:
            first = a_mail(due_at=tx.now - HOUR)
            second = a_mail(due_at=tx.now - timedelta(minutes=1))
            tx.mails.add(second)
            tx.mails.add(first)
            tx.mails.add(a_mail(due_at=tx.now + HOUR))
        assert stores.mail.finder.claim_mails(1) == [(A_TENANT, first.delivery_id)]
        assert stores.mail.finder.claim_mails(10) == [(A_TENANT, second.delivery_id)]
        assert stores.mail.finder.claim_mails(10) == []
        with stores.mail.unit.begin(A_TENANT) as tx:
            tx.mails.save(replace(first, last_reply="looked at"))
        assert stores.mail.finder.claim_mails(10) == [(A_TENANT, first.delivery_id)]

    def test_an_attempt_is_opened_before_and_closed_once_after(self, stores: Stores) -> None:
        mail = a_mail()
        with stores.mail.unit.begin(A_TENANT) as tx:
            tx.mails.add(mail)
            opened = MailAttempt(
                delivery_id=mail.delivery_id, attempt_no=1, started_at=tx.now, relay="relay:587"
            )
            tx.mails.open_attempt(opened)
            closed = replace(
                opened,
                finished_at=tx.now,
                phase="DATA",
                reply=Reply(stage=Stage.DATA, code=250, text="2.0.0 ok"),
                tls_version="TLSv1.3",
            )
            tx.mails.close_attempt(closed)
            tx.mails.close_attempt(replace(closed, error="too late"))
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.attempts(mail.delivery_id) == [closed]

    @pytest.mark.case("W42")
    def test_another_tenant_sees_and_changes_nothing(self, stores: Stores) -> None:
        mail = a_mail()
        with stores.mail.unit.begin(A_TENANT) as tx:
            tx.mails.add(mail)
        with stores.mail.unit.begin(B_TENANT) as tx:
            assert tx.mails.get(mail.delivery_id) is None
            assert tx.mails.of_run(run_of(mail)) == []
            assert tx.mails.mime(mail.delivery_id) is None

    def test_a_digest_and_a_notice_are_stored_without_a_run(self, stores: Stores) -> None:
        folded = Folded(delivery_id=an_id(), run_id=RunId(an_id()), job_id=JobId(an_id()))
        digest = a_mail(dedupe_key="digest:1", run_id=None, job_id=None, folded=(folded,))
        notice = Notice(subject="s", headline="h", sentences=("a",), facts=(("b", "c"),))
        alert = a_mail(
            dedupe_key="notice:1",
            run_id=None,
            job_id=None,
            notice=notice,
            rule_uids=(ResourceUid(an_id()),),
        )
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.add(digest)
            assert tx.mails.add(alert)
            assert tx.mails.get(digest.delivery_id) == digest
            assert tx.mails.get(alert.delivery_id) == alert

    @pytest.mark.case("M32")
    def test_an_alert_of_the_webhook_service_is_queued_once_for_the_notifier(
        self, stores: Stores
    ) -> None:
        notice = Notice(subject="s", headline="h")
        alert, again = (
            a_mail(dedupe_key="endpoint:1:ana", run_id=None, job_id=None, notice=notice)
            for _ in range(2)
        )
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.mails.add(alert)
            assert not tx.mails.add(again)
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.get(alert.delivery_id) == alert
            assert tx.mails.get(again.delivery_id) is None

    @pytest.mark.case("M14")
    def test_mails_of_one_fold_and_recipient_that_are_due_are_one_group(
        self, stores: Stores
    ) -> None:
        with stores.mail.unit.begin(A_TENANT) as tx:
            first = a_mail(fold="rule:1", due_at=tx.now, finalised_at=tx.now - HOUR)
            second = a_mail(fold="rule:1", due_at=tx.now, finalised_at=tx.now)
            others = (
                a_mail(fold="rule:1", due_at=tx.now + HOUR),
                a_mail(fold="rule:2", due_at=tx.now),
                a_mail(fold="rule:1", due_at=tx.now, recipient_key="b@example.com"),
                a_mail(due_at=tx.now),
                a_mail(
                    fold="rule:1", state=MailState.SKIPPED, reason=SkipReason.FOLDED, due_at=None
                ),
            )
            for mail in (second, first, *others):
                tx.mails.add(mail)
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.fold_of(second) == [first, second]
            ids = [second.delivery_id, first.delivery_id, an_id()]
            assert tx.mails.of_ids(ids) == [first, second]

    @pytest.mark.case("M28")
    def test_above_a_rate_cap_all_mails_of_a_recipient_are_one_group(self, stores: Stores) -> None:
        with stores.mail.unit.begin(A_TENANT) as tx:
            later = a_mail(fold=RATE_FOLD, due_at=tx.now + HOUR, finalised_at=tx.now - HOUR)
            now = a_mail(fold=RATE_FOLD, due_at=tx.now, finalised_at=tx.now)
            tx.mails.add(later)
            tx.mails.add(now)
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.fold_of(now) == [later, now]

    def test_first_leases_are_counted_by_time_and_recipient(self, stores: Stores) -> None:
        with stores.mail.unit.begin(A_TENANT) as tx:
            now = tx.now
            for mail in (
                a_mail(opened_at=now),
                a_mail(opened_at=now, recipient_key="b@example.com"),
                a_mail(opened_at=now - 2 * HOUR),
                a_mail(),
            ):
                tx.mails.add(mail)
            assert tx.mails.opened_since(now - HOUR) == 2
            assert tx.mails.opened_since(now - HOUR, "ana@example.com") == 1

    def test_the_log_is_newest_first_and_filtered(self, stores: Stores) -> None:
        with stores.mail.unit.begin(A_TENANT) as tx:
            mails = [a_mail(created_at=tx.now + n * HOUR) for n in range(3)]
            failed = replace(mails[1], state=MailState.FAILED, due_at=None)
            for mail in (mails[0], failed, mails[2]):
                tx.mails.add(mail)
            assert tx.mails.page(MailFilter(), 2) == [mails[2], failed]
            rest = MailFilter(before=(failed.created_at, failed.delivery_id))
            assert tx.mails.page(rest, 5) == [mails[0]]
            assert tx.mails.page(MailFilter(state=MailState.FAILED), 5) == [failed]
            assert tx.mails.page(MailFilter(run_id=mails[2].run_id), 5) == [mails[2]]


class MailChoicesConformance:
    """Subclass with a fixture `stores`."""

    def test_an_unsubscription_is_of_a_scope_and_safe_to_repeat(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            for _ in range(2):
                tx.mail_choices.unsubscribe("hash", ["rule", "everything"])
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mail_choices.unsubscribed(["rule", "x"]) == {("hash", "rule")}
        with stores.mail.unit.begin(B_TENANT) as tx:
            assert tx.mail_choices.unsubscribed(["rule"]) == set()

    @pytest.mark.case("M15")
    def test_a_suppressed_address_is_listed_until_it_is_released(self, stores: Stores) -> None:
        key = "a@example.com"
        with stores.mail.unit.begin(A_TENANT) as tx:
            made = NewSuppression(
                recipient_key=key,
                reason=SuppressionReason.HARD_BOUNCE,
                text="550 no such user",
                ends_at=None,
            )
            tx.mail_choices.suppress(made)
            tx.mail_choices.suppress(replace(made, reason=SuppressionReason.COMPLAINT))
            assert tx.mail_choices.suppressed([key, "b@example.com"]) == {key}
        with stores.api.unit.begin(A_TENANT) as tx:
            (row,) = tx.mail_choices.suppressions(10)
            assert (row.recipient_key, row.reason) == (key, "HARD_BOUNCE")
            assert tx.mail_choices.release(key)
            assert not tx.mail_choices.release(key)
            assert tx.mail_choices.suppressions(10) == []

    @pytest.mark.case("M26")
    def test_a_suppression_with_an_end_is_replaced_and_ends(self, stores: Stores) -> None:
        key = "a@example.com"
        with stores.mail.unit.begin(A_TENANT) as tx:
            paused = NewSuppression(
                recipient_key=key,
                reason=SuppressionReason.SOFT_BOUNCES,
                text="552 full",
                ends_at=tx.now,
            )
            tx.mail_choices.suppress(paused)
            assert tx.mail_choices.suppressed([key]) == set()
            assert tx.mail_choices.suppressions(10) == []
            tx.mail_choices.suppress(replace(paused, ends_at=tx.now + timedelta(days=7)))
            assert tx.mail_choices.suppressed([key]) == {key}
        with stores.api.unit.begin(A_TENANT) as tx:
            complaint = replace(paused, reason=SuppressionReason.COMPLAINT, ends_at=None)
            tx.mail_choices.suppress(complaint)
            tx.mail_choices.suppress(paused)
            (row,) = tx.mail_choices.suppressions(10)
            assert (row.reason, row.ends_at) == ("COMPLAINT", None)

    @pytest.mark.case("M26")
    def test_soft_bounces_count_once_per_report_and_address(self, stores: Stores) -> None:
        key = "a@example.com"
        with stores.mail.unit.begin(A_TENANT) as tx:
            since = tx.now - timedelta(days=14)

            def count(address: str, report: str, since: datetime = since) -> int:
                return tx.mail_choices.count_soft_bounce(address, report, since=since)

            assert [count(key, one) for one in ("r1", "r2", "r2")] == [1, 2, 2]
            assert count("b@example.com", "r1") == 1
        with stores.api.unit.begin(B_TENANT) as tx:
            assert tx.mail_choices.count_soft_bounce(key, "r3", since=since) == 1
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.mail_choices.count_soft_bounce(key, "r4", since=since) == 3
            assert not tx.mail_choices.release(key)
            assert tx.mail_choices.count_soft_bounce(key, "r5", since=since) == 1
            later = tx.now + timedelta(seconds=1)
            assert tx.mail_choices.count_soft_bounce(key, "r6", since=later) == 0

    def test_report_links_of_a_run_are_revoked_again_and_again(self, stores: Stores) -> None:
        run = RunId(an_id())
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.mail_choices.report_links_revoked_at(run) is None
            tx.mail_choices.revoke_report_links(run)
            first = tx.now
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.mail_choices.report_links_revoked_at(run) == first
            tx.mail_choices.revoke_report_links(run)
            assert tx.mail_choices.report_links_revoked_at(run) == tx.now


class RuleStatesConformance:
    """Subclass with a fixture `stores`."""

    def test_states_are_of_one_job_and_replaced_by_their_rule(self, stores: Stores) -> None:
        job, rule = JobId(an_id()), ResourceUid(an_id())
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.rule_states.of_job(job) == {}
            state = RuleState(
                rule_uid=rule,
                job_id=job,
                last_run_id=RunId(an_id()),
                last_finalised_at=tx.now,
                announced="UNMATCHED",
                open_alert=True,
                alert_outcome="UNMATCHED",
                consecutive=2,
                streak_since=tx.now - HOUR,
                last_mailed_at=tx.now,
                last_mailed_outcome="UNMATCHED",
            )
            other = RuleState(rule_uid=rule, job_id=JobId(an_id()))
            tx.rule_states.save([state, other])
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.rule_states.of_job(job) == {rule: state}
            cleared = replace(state, open_alert=False, alert_outcome=None, consecutive=0)
            tx.rule_states.save([cleared])
            tx.rule_states.save([])
            assert tx.rule_states.of_job(job) == {rule: cleared}
        with stores.mail.unit.begin(B_TENANT) as tx:
            assert tx.rule_states.of_job(job) == {}
