"""What every implementer of Mails, RuleStates and of the mail claim owes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.delivery import MailAttempt
from datarecs_core.notifications.evaluation import Background, RuleState, SkipReason
from datarecs_core.notifications.mail import MailReason, MailState, Phase, lease
from datarecs_core.notifications.replies import Reply, Stage
from datarecs_core.values import JobId, ResourceUid, RunId
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.deliveries import a_mail

HOUR = timedelta(hours=1)


class MailsConformance:
    """Subclass with a fixture `stores`."""

    def test_one_dedupe_key_is_one_mail_within_a_tenant(self, stores: Stores) -> None:
        mail = a_mail()
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.add(mail)
            assert not tx.mails.add(replace(mail, delivery_id=an_id()))
            assert tx.mails.of_run(mail.run_id) == [mail]
        with stores.mail.unit.begin(B_TENANT) as tx:
            assert tx.mails.add(replace(mail, tenant_id=B_TENANT))

    def test_a_mail_is_saved_and_loaded_with_every_field(self, stores: Stores) -> None:
        with stores.mail.unit.begin(A_TENANT) as tx:
            mail = a_mail(background=Background(since=tx.now, runs=3, first_told="UNMATCHED"))
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

    def test_a_skipped_mail_keeps_its_reason_and_is_never_claimed(self, stores: Stores) -> None:
        skipped = a_mail(state=MailState.SKIPPED, reason=SkipReason.UNVERIFIED, due_at=None)
        with stores.mail.unit.begin(A_TENANT) as tx:
            tx.mails.add(skipped)
        assert stores.mail.finder.claim_mails(10) == []
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.get(skipped.delivery_id) == skipped

    @pytest.mark.case("M17")
    def test_the_bytes_of_a_mail_are_kept(self, stores: Stores) -> None:
        mail = a_mail()
        with stores.mail.unit.begin(A_TENANT) as tx:
            tx.mails.add(mail)
            assert tx.mails.mime(mail.delivery_id) is None
            tx.mails.keep_mime(mail.delivery_id, b"Subject: \x00\xff\r\n")
            tx.mails.save(replace(mail, attempts=1))
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.mails.mime(mail.delivery_id) == b"Subject: \x00\xff\r\n"

    def test_a_claim_holds_a_mail_until_it_was_looked_at(self, stores: Stores) -> None:
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
            assert tx.mails.of_run(mail.run_id) == []
            assert tx.mails.mime(mail.delivery_id) is None


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
