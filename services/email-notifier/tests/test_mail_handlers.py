from dataclasses import dataclass, field

import pytest

from datarecs_application.notifications import MailPolicy, Planning
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.decision import Event
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.messaging import SubscriptionRefusedError
from datarecs_core.notifications.mail import Mail
from datarecs_core.notifications.rule import Match, NotificationRule, Notify, Recipient
from datarecs_core.runs.events import (
    RunCancelled,
    RunCompleted,
    RunErrored,
    RunFinalised,
    RunQueueErrored,
)
from datarecs_core.runs.model import Run, RunError, RunResult, RunStatus
from datarecs_core.values import EventId
from datarecs_email_notifier.handlers import Handlers
from datarecs_email_notifier.wiring import read_rule
from datarecs_events.catalogue import Service, Topic
from datarecs_events.codec import Stamp, encode
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.handling import Subscription
from datarecs_memory.message_log import MessageLog
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_testing.builders import A_TENANT, NOON, a_run, an_id
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.consuming import Until
from datarecs_testing.deliveries import a_rule
from datarecs_testing.metrics import RecordedMetrics

GROUP = Service.EMAIL_NOTIFIER
EVERY = NotificationRule(
    to=(Recipient(address="ana@example.com"),),
    notify=Notify.EVERY_RUN,
    match=Match(outcomes=("MATCHED", "UNMATCHED", "ERRORED")),
)


@dataclass
class World:
    """A broker and a database in memory, and the service's consumer over them."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(by_itself=True))
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)

    def __post_init__(self) -> None:
        self.log = MessageLog(self.clock, {Topic.RUN_PLATFORM: 3, f"{GROUP}.dlq": 3})
        self.store = MemoryStore(self.clock, FixedIds())
        self.unit = MemoryUnitOfWork(self.store)
        with self.unit.begin(A_TENANT) as tx:
            tx.resources.add(a_rule(EVERY))

    def ended(self, **changes: object) -> Run:
        run = a_run(**{"status": RunStatus.COMPLETED, "closed_at": NOON} | changes)
        with self.unit.begin(A_TENANT) as tx:
            tx.runs.add(run)
        return run

    def publish(self, *events: Event, event_id: EventId | None = None) -> None:
        for event in events:
            stamp = Stamp(event_id=event_id or EventId(an_id()), time=NOON, sequence=1)
            encoded = encode(event, stamp)
            self.log.append(
                Topic.RUN_PLATFORM,
                key=encoded.key_bytes,
                value=encoded.data,
                headers=encoded.headers,
                partition=0,
            )

    def consume(self) -> None:
        policy = MailPolicy(mail_domain="mail.example.com", domains={A_TENANT: {"example.com"}})
        planning = Planning(
            consumer=GROUP, specs=StoredSpecs(read_rule), policy=policy, ids=self.store.ids
        )
        handler = Handlers(planning, self.metrics).plan_mails
        consumer = Consumer(
            self.log,
            self.unit,
            group=GROUP,
            subscriptions=(Subscription(Topic.RUN_PLATFORM, (RunFinalised,), handler),),
            metrics=self.metrics,
            clock=self.clock,
            feed=0,
        )
        consumer.run(Until(self.clock, self.clock.monotonic() + 30))

    def mails(self) -> list[Mail]:
        return list(self.store.committed(A_TENANT).delivery.mails.values())


def finalised(run: Run) -> RunFinalised:
    return RunFinalised(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        result=run.result,
        error=run.error,
    )


@pytest.mark.case("M01")
@pytest.mark.parametrize(
    "changes",
    [
        {"result": RunResult.MATCHED},
        {"result": RunResult.UNMATCHED},
        *(
            {
                "status": RunStatus.ERRORED,
                "result": None,
                "error": RunError(code=code, message="no"),
            }
            for code in RunErrorCode
        ),
    ],
)
def test_every_end_of_a_run_is_one_mail(changes: dict[str, object]) -> None:
    world = World()
    run = world.ended(**changes)
    world.publish(finalised(run))
    world.consume()
    (mail,) = world.mails()
    assert (mail.run_id, mail.recipient) == (run.run_id, "ana@example.com")


@pytest.mark.case("M02")
def test_five_copies_with_the_same_and_with_other_ids_are_one_mail() -> None:
    world = World()
    event = finalised(world.ended())
    same = EventId(an_id())
    for event_id in (same, same, same, None, None):
        world.publish(event, event_id=event_id)
    world.consume()
    assert len(world.mails()) == 1


@pytest.mark.case("M03")
@pytest.mark.case("M04")
def test_nothing_but_run_finalised_leads_to_a_mail() -> None:
    world = World()
    run = world.ended()
    cancelled = RunCancelled(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        cancelled_by="u",
        reason="r",
    )
    queue_errored = RunQueueErrored(
        run_id=run.run_id, job_id=run.job_id, tenant_id=run.tenant_id, reason="r"
    )
    world.publish(cancelled, queue_errored)
    world.consume()
    assert world.mails() == []


@pytest.mark.case("L02")
@pytest.mark.parametrize("foreign", [RunErrored, RunCompleted, RunCancelled])
def test_a_handler_for_another_type_refuses_to_start(foreign: type[object]) -> None:
    world = World()
    with pytest.raises(SubscriptionRefusedError):
        Consumer(
            world.log,
            world.unit,
            group=GROUP,
            subscriptions=(Subscription(Topic.RUN_PLATFORM, (foreign,), lambda *_: None),),
            metrics=world.metrics,
            clock=world.clock,
        )


def test_reasons_for_silence_are_counted() -> None:
    world = World()
    run = world.ended(closed_at=NOON.replace(year=NOON.year - 1))
    world.publish(finalised(run))
    world.consume()
    assert world.mails() == []
    assert world.metrics.total("mail_skipped_total", reason="STALE") == 1
