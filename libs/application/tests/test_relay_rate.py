"""How fast the relay is used: a rate over all loops of a process."""

from datetime import timedelta

from datarecs_application.loops.mail_sending import MailSending, RelayHealth
from datarecs_application.mailing import Sending
from datarecs_application.notifications import MailPolicy
from datarecs_core.notifications.mail import MailState, Notice, NoticeRecipient, notice_mail
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_reports.mail import MailTemplates
from datarecs_runtime.clock import Latch
from datarecs_testing.builders import A_TENANT, NOON
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.consuming import Until
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.scripted_delivery import ScriptedMailer

SECOND = timedelta(seconds=1)


def turns(health: RelayHealth, most: int) -> int:
    """How many mails may go now."""
    return sum(not health.take_turn() for _ in range(most))


def test_a_second_may_hold_as_many_mails_as_the_rate_and_then_they_come_evenly() -> None:
    clock = ManualClock(now=NOON)
    health = RelayHealth(clock, rate=10)
    assert turns(health, 30) == 10
    assert timedelta() < health.take_turn() <= SECOND / 10
    clock.advance(SECOND / 2)
    assert turns(health, 30) == 5
    clock.advance(60 * SECOND)
    assert turns(health, 30) == 10


def test_a_rate_below_one_lets_single_mails_go() -> None:
    clock = ManualClock(now=NOON)
    health = RelayHealth(clock, rate=0.5)
    assert turns(health, 3) == 1
    assert health.take_turn() == 2 * SECOND
    clock.advance(2 * SECOND)
    assert turns(health, 3) == 1


def test_a_turn_that_no_mail_has_used_is_returned() -> None:
    health = RelayHealth(ManualClock(now=NOON), rate=1)
    assert not health.take_turn()
    health.return_turn()
    assert turns(health, 3) == 1


def test_without_a_rate_there_is_no_wait() -> None:
    health = RelayHealth(ManualClock(now=NOON))
    assert turns(health, 1_000) == 1_000
    health.return_turn()
    assert not health.take_turn()


def test_what_is_above_the_rate_waits_in_the_queue_and_goes_later() -> None:
    clock, mailer = ManualClock(now=NOON, by_itself=True), ScriptedMailer()
    store = MemoryStore(clock, FixedIds())
    unit = MemoryUnitOfWork(store)
    with unit.begin(A_TENANT) as tx:
        for number in range(20):
            to = NoticeRecipient(
                tenant_id=A_TENANT, address=f"a{number}@example.com", scope=f"endpoint:{number}"
            )
            notice = Notice(subject="s", headline="h")
            tx.mails.add(notice_mail(notice, to, delivery_id=store.ids.new(), now=tx.now))
    loop = MailSending(
        MemoryWorkFinder(store),
        unit,
        mailer,
        sending=Sending(
            renderer=MailTemplates(
                sender="datarecs@mail.example.com",
                mail_domain="mail.example.com",
                base_url="https://recs.example.com",
            ),
            policy=MailPolicy(mail_domain="mail.example.com", domains={A_TENANT: {"example.com"}}),
            ids=store.ids,
            owner="n-1",
            relay=mailer.relay,
        ),
        health=RelayHealth(clock, rate=2),
        jitter=lambda: 0.5,
        metrics=RecordedMetrics(),
        clock=clock,
        wake=Latch(),
    )
    loop.run(Until(clock, clock.monotonic() + 4.9))
    assert len(mailer.stored) == 11
    loop.run(Until(clock, clock.monotonic() + 10))
    assert len(mailer.stored) == 20
    mails = store.committed(A_TENANT).delivery.mails.values()
    assert {mail.state for mail in mails} == {MailState.SENT}
