from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.notifications.evaluation import MailKind
from datarecs_core.notifications.events import NotificationEmailFailed, NotificationEmailSent
from datarecs_core.notifications.mail import (
    EXPIRES_AFTER,
    SENDER_LOST,
    Expired,
    Fact,
    Mail,
    MailReason,
    MailState,
    NeedsSmtpUtf8,
    OnUnknown,
    Phase,
    RecipientAccepted,
    Replied,
    TransportLost,
    decide_email,
    lease,
    retry_delay,
)
from datarecs_core.notifications.relay import relay_pause
from datarecs_core.notifications.replies import Reply, ReplyClass, Stage, classify
from datarecs_core.notifications.rule import Detail
from datarecs_core.values import JobId, RunId, TenantId

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
PAUSE = timedelta(seconds=30)
ONCE = OnUnknown.RESEND_ONCE
PLAIN = 0.5


def a_mail() -> Mail:
    return Mail(
        tenant_id=TenantId(UUID(int=1)),
        delivery_id=UUID(int=2),
        dedupe_key="run:x:a@example.com",
        run_id=RunId(UUID(int=3)),
        job_id=JobId(UUID(int=4)),
        recipient="a@example.com",
        recipient_key="a@example.com",
        rules=("r",),
        kind=MailKind.OUTCOME,
        detail=Detail.SUMMARY,
        outcome="UNMATCHED",
        due_at=NOON,
        expires_at=NOON + EXPIRES_AFTER,
        finalised_at=NOON,
        message_id="<run.x@mail.example.com>",
        created_at=NOON,
    )


def sending(*, phase: Phase = Phase.OPEN) -> Mail:
    mail = lease(a_mail(), owner="w", now=NOON)
    return mail if phase is Phase.OPEN else after(mail, RecipientAccepted())


def after(mail: Mail, fact: Fact, *, policy: OnUnknown = ONCE, now: datetime = NOON) -> Mail:
    return decide_email(mail, fact, policy=policy, now=now).state


def replied(stage: Stage, code: int, text: str = "") -> Replied:
    return Replied(reply=Reply(stage=stage, code=code, text=text), pause=PAUSE, u=PLAIN)


def test_an_accepted_mail_is_sent_and_reported() -> None:
    decision = decide_email(
        sending(phase=Phase.DATA), replied(Stage.DATA, 250, "2.0.0 ok"), policy=ONCE, now=NOON
    )
    assert decision.state.state is MailState.SENT
    assert decision.state.is_terminal
    (event,) = decision.events
    assert isinstance(event, NotificationEmailSent)
    assert (event.status, event.attempts, event.recipient_count) == ("sent", 1, 1)
    assert "a@example.com" not in event.recipient_hash


@pytest.mark.case("M16")
def test_greylisting_is_tried_again_after_48_to_72_seconds() -> None:
    for u, seconds in ((0.0, 48), (1.0, 72)):
        fact = Replied(reply=Reply(stage=Stage.RCPT, code=451), pause=PAUSE, u=u)
        waiting = after(sending(), fact)
        assert (waiting.state, waiting.attempts) == (MailState.PENDING, 1)
        assert waiting.due_at == NOON + timedelta(seconds=seconds)


@pytest.mark.case("X84")
def test_eight_temporary_refusals_over_15_hours_exhaust_a_mail() -> None:
    mail, waits = a_mail(), timedelta()
    for _ in range(7):
        mail = after(lease(mail, owner="w", now=NOON), replied(Stage.RCPT, 451))
        assert mail.due_at is not None
        waits += mail.due_at - NOON
    assert waits == timedelta(hours=15, minutes=21)
    last = after(lease(mail, owner="w", now=NOON), replied(Stage.DATA, 451))
    assert (last.state, last.reason) == (MailState.FAILED, MailReason.EXHAUSTED)
    assert retry_delay(7, u=PLAIN) == timedelta(hours=8)


@pytest.mark.case("M15")
@pytest.mark.case("X84")
def test_a_permanent_refusal_fails_the_mail_and_is_reported() -> None:
    decision = decide_email(
        sending(), replied(Stage.RCPT, 550, "5.1.1 no such user"), policy=ONCE, now=NOON
    )
    assert decision.state.reason is MailReason.PERMANENT
    (event,) = decision.events
    assert isinstance(event, NotificationEmailFailed)
    assert (event.status, event.error_message) == ("failed", "550 5.1.1 no such user")


@pytest.mark.case("M20")
def test_a_relay_that_is_away_consumes_no_attempt() -> None:
    waiting = after(sending(), TransportLost(reason="connection refused", pause=PAUSE))
    assert (waiting.state, waiting.attempts) == (MailState.PENDING, 0)
    assert waiting.due_at == NOON + PAUSE


@pytest.mark.case("M20")
def test_a_day_after_its_run_a_mail_fails_as_expired() -> None:
    decision = decide_email(a_mail(), Expired(), policy=ONCE, now=NOON + EXPIRES_AFTER)
    assert decision.state.reason is MailReason.EXPIRED
    assert len(decision.events) == 1


@pytest.mark.case("M21")
@pytest.mark.parametrize(("stage", "code"), [(Stage.AUTH, 535), (Stage.MAIL, 550)])
def test_a_relay_that_refuses_us_leaves_mails_pending(stage: Stage, code: int) -> None:
    waiting = after(sending(), replied(stage, code))
    assert (waiting.state, waiting.attempts) == (MailState.PENDING, 0)
    assert classify(Reply(stage=stage, code=code)) is ReplyClass.CONFIGURATION


@pytest.mark.case("M17")
def test_a_lost_answer_to_the_data_is_sent_once_more_and_then_unknown_for_good() -> None:
    lost = TransportLost(reason="cut", pause=PAUSE)
    unknown = after(sending(phase=Phase.DATA), lost)
    assert (unknown.state, unknown.is_terminal) == (MailState.UNKNOWN, False)
    assert unknown.due_at == NOON + timedelta(minutes=10)
    again = after(lease(unknown, owner="w", now=NOON), RecipientAccepted())
    assert again.message_id == unknown.message_id
    decision = decide_email(again, lost, policy=ONCE, now=NOON)
    assert (decision.state.state, decision.state.is_terminal) == (MailState.UNKNOWN, True)
    (event,) = decision.events
    assert isinstance(event, NotificationEmailFailed)
    assert event.status == "unknown"


@pytest.mark.case("M17")
def test_with_policy_stop_nothing_is_sent_again() -> None:
    lost = TransportLost(reason="cut", pause=PAUSE)
    stopped = after(sending(phase=Phase.DATA), lost, policy=OnUnknown.STOP)
    assert (stopped.state, stopped.is_terminal) == (MailState.UNKNOWN, True)


@pytest.mark.case("M18")
def test_a_lost_sender_is_provably_unsent_before_data_and_unknown_after() -> None:
    assert after(sending(), SENDER_LOST).state is MailState.PENDING
    assert after(sending(), SENDER_LOST).due_at == NOON
    assert after(sending(phase=Phase.DATA), SENDER_LOST).state is MailState.UNKNOWN


def test_a_mail_that_may_have_arrived_is_never_called_expired() -> None:
    unknown = after(sending(phase=Phase.DATA), SENDER_LOST)
    ended = after(unknown, Expired())
    assert (ended.state, ended.is_terminal) == (MailState.UNKNOWN, True)


def test_an_address_the_relay_cannot_write_to_fails() -> None:
    assert after(sending(), NeedsSmtpUtf8()).reason is MailReason.SMTPUTF8_UNSUPPORTED


@pytest.mark.case("X84")
@pytest.mark.parametrize(
    ("stage", "code", "expected"),
    [
        (Stage.CONNECT, 421, ReplyClass.TRANSPORT),
        (Stage.AUTH, 454, ReplyClass.TRANSPORT),
        (Stage.AUTH, 535, ReplyClass.CONFIGURATION),
        (Stage.MAIL, 530, ReplyClass.CONFIGURATION),
        (Stage.MAIL, 553, ReplyClass.CONFIGURATION),
        (Stage.MAIL, 451, ReplyClass.TRANSPORT),
        (Stage.RCPT, 451, ReplyClass.RETRY),
        (Stage.RCPT, 421, ReplyClass.TRANSPORT),
        (Stage.RCPT, 550, ReplyClass.PERMANENT),
        (Stage.DATA, 452, ReplyClass.RETRY),
        (Stage.DATA, 554, ReplyClass.PERMANENT),
        (Stage.DATA, 250, ReplyClass.ACCEPTED),
        (Stage.RCPT, 251, ReplyClass.ACCEPTED),
    ],
)
def test_the_reply_table(stage: Stage, code: int, expected: ReplyClass) -> None:
    assert classify(Reply(stage=stage, code=code)) is expected


def test_the_relay_rests_30_seconds_doubling_to_15_minutes() -> None:
    pauses = [relay_pause(n, ReplyClass.TRANSPORT).total_seconds() for n in range(7)]
    assert pauses == [30, 60, 120, 240, 480, 900, 900]
    assert relay_pause(0, ReplyClass.CONFIGURATION) == timedelta(minutes=15)


FACTS: st.SearchStrategy[Fact] = st.one_of(
    st.just(RecipientAccepted()),
    st.just(SENDER_LOST),
    st.just(Expired()),
    st.just(NeedsSmtpUtf8()),
    st.builds(
        Replied,
        reply=st.builds(
            Reply,
            stage=st.sampled_from(list(Stage)),
            code=st.sampled_from([250, 421, 451, 530, 550]),
        ),
        pause=st.just(PAUSE),
        u=st.floats(0, 1),
    ),
)


@given(st.lists(FACTS, max_size=30), st.sampled_from(list(OnUnknown)))
def test_for_any_facts_a_mail_ends_once_and_reports_it_once(
    facts: list[Fact], policy: OnUnknown
) -> None:
    mail, event_count = a_mail(), 0
    for fact in facts:
        if mail.state in {MailState.PENDING, MailState.UNKNOWN} and not mail.is_terminal:
            mail = lease(mail, owner="w", now=NOON)
        decision = decide_email(mail, fact, policy=policy, now=NOON)
        mail, event_count = decision.state, event_count + len(decision.events)
    assert event_count == mail.is_terminal
    assert mail.unknowns <= 2
