import email
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from email.policy import default
from random import Random

import pytest
from structlog.testing import capture_logs

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.loops.mail_sending import MailSending, RelayHealth
from datarecs_application.mail_content import Links
from datarecs_application.mailing import Sending
from datarecs_application.notifications import MailPolicy, Planning
from datarecs_application.ports.delivery import (
    Mailer,
    OutgoingMail,
    RelayLost,
    RelayReplied,
    SendOutcome,
    SmtpUtf8Missing,
)
from datarecs_application.ports.outside import Wake
from datarecs_application.ports.state import HistoryEntry
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.delivery import RunNotFinishedError
from datarecs_core.notifications.evaluation import SkipReason
from datarecs_core.notifications.links import read_unsubscribe_link
from datarecs_core.notifications.mail import (
    Mail,
    MailReason,
    MailState,
    Notice,
    NoticeRecipient,
    OnUnknown,
    notice_mail,
)
from datarecs_core.notifications.replies import Reply, Stage
from datarecs_core.notifications.rule import (
    Digest,
    Match,
    NotificationRule,
    Notify,
    QuietHours,
    Recipient,
)
from datarecs_core.notifications.wall_clock import Period
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.model import Disposition, Run, RunError, RunResult, RunStatus
from datarecs_core.values import EventId, RunId, TenantId
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_reports.mail import MailTemplates
from datarecs_runtime.clock import Latch
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_run, an_id
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.conformance.mailer import MailerConformance
from datarecs_testing.consuming import Until
from datarecs_testing.deliveries import a_rule, read_rule
from datarecs_testing.flaky import Flaky
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.scripted_delivery import ScriptedMailer
from datarecs_testing.spans import RecordedTracing

MINUTE = timedelta(minutes=1)
LINK_KEY = b"k" * 32
HOUR = timedelta(hours=1)
EVERY = NotificationRule(
    to=(Recipient(address="ana@example.com"),),
    notify=Notify.EVERY_RUN,
    match=Match(outcomes=("MATCHED", "UNMATCHED", "ERRORED")),
)


def refused(stage: Stage, code: int) -> RelayReplied:
    return RelayReplied(reply=Reply(stage=stage, code=code, text="x"))


LOST = RelayLost(reason="connection refused")


@dataclass(slots=True)
class House:
    """The email-notifier without Kafka, Postgres and sockets."""

    mailer: ScriptedMailer = field(default_factory=ScriptedMailer)
    on_unknown: OnUnknown = OnUnknown.RESEND_ONCE
    clock: ManualClock = field(default_factory=lambda: ManualClock(now=NOON, by_itself=True))
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)
    store: MemoryStore = field(init=False)
    unit: MemoryUnitOfWork = field(init=False)
    health: RelayHealth = field(init=False)
    policy: MailPolicy = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock, FixedIds())
        self.unit = MemoryUnitOfWork(self.store)
        self.health = RelayHealth(self.clock)
        self.policy = MailPolicy(
            mail_domain="mail.example.com",
            domains={A_TENANT: {"example.com"}, B_TENANT: {"b.example"}},
            on_unknown=self.on_unknown,
            recipient_rate=30,
        )

    def links(self) -> Links:
        return Links(key=LINK_KEY, report_age=timedelta(days=7))

    def loop(self, mailer: Mailer | None = None, owner: str = "n-1") -> MailSending:
        sender = mailer or self.mailer
        templates = MailTemplates(
            sender="datarecs@mail.example.com",
            mail_domain="mail.example.com",
            base_url="https://recs.example.com",
        )
        return MailSending(
            MemoryWorkFinder(self.store),
            self.unit,
            sender,
            sending=Sending(
                renderer=templates,
                policy=self.policy,
                ids=self.store.ids,
                links=self.links(),
                owner=owner,
                relay=sender.relay,
            ),
            health=self.health,
            jitter=lambda: 0.5,
            metrics=self.metrics,
            clock=self.clock,
            wake=Latch(),
        )

    def declare(self, spec: NotificationRule = EVERY, **changes: object) -> Resource:
        rule = a_rule(spec, **changes)
        with self.unit.begin(rule.tenant_id) as tx:
            tx.resources.add(rule)
        return rule

    def finish(self, result: RunResult = RunResult.UNMATCHED, **changes: object) -> Run:
        """A run that ends now, and its event."""
        run = a_run(
            status=changes.pop("status", RunStatus.COMPLETED),
            result=result,
            closed_at=self.clock.now(),
            **changes,
        )
        with self.unit.begin(run.tenant_id) as tx:
            tx.runs.add(run)
        self.handle_end(run.run_id, run.tenant_id)
        return run

    def handle_end(self, run_id: RunId, tenant: TenantId = A_TENANT) -> None:
        planning = Planning(
            consumer="email-notifier",
            specs=StoredSpecs(read_rule),
            policy=self.policy,
            ids=self.store.ids,
        )
        with self.unit.begin(tenant, feed=8) as tx:
            planning.plan_mails(tx, run_id)

    def drain(self, loop: MailSending | None = None) -> None:
        """Turn until nothing is due."""
        turning = loop or self.loop()
        while turning.turn():
            pass

    def mails(self, run: Run) -> list[Mail]:
        with self.unit.begin(run.tenant_id, read_only=True) as tx:
            return tx.mails.of_run(run.run_id)

    def event_types(self, tenant: TenantId = A_TENANT) -> list[str]:
        rows = self.store.committed(tenant).outbox.values()
        return [queued.row.type.removeprefix("io.datarecs.notification.") for queued in rows]


@pytest.mark.case("M01")
@pytest.mark.case("M02")
@pytest.mark.case("U57")
def test_one_mail_per_recipient_and_run_however_often_the_event_comes() -> None:
    house = House()
    house.declare()
    run = house.finish()
    for _ in range(4):
        house.handle_end(run.run_id)
    house.drain()
    (mail,) = house.mails(run)
    assert mail.state is MailState.SENT
    (sent,) = house.mailer.stored
    assert sent.recipient == "ana@example.com"
    assert b"=?utf-8?" in sent.mime
    assert house.event_types() == ["email.sent"]
    assert house.metrics.total("emails_total", outcome="sent") == 1
    assert house.metrics.times("mail_finalised_to_accepted_seconds") == 1


@pytest.mark.case("M05")
def test_a_run_that_was_never_submitted_is_mailed_as_such() -> None:
    house = House()
    house.declare()
    error = RunError(code=RunErrorCode.UNKNOWN, message="no space", detail_code="SUBMIT_REJECTED")
    run = a_run(status=RunStatus.QUEUE_ERRORED, error=error, closed_at=house.clock.now())
    with house.unit.begin(A_TENANT) as tx:
        tx.runs.add(run)
    house.handle_end(run.run_id)
    house.drain()
    assert b"never started" in house.mailer.stored[0].mime


def test_an_event_without_a_finished_run_is_refused() -> None:
    house = House()
    run = a_run(status=RunStatus.RUNNING)
    with house.unit.begin(A_TENANT) as tx:
        tx.runs.add(run)
    for run_id in (run.run_id, RunId(an_id())):
        with pytest.raises(RunNotFinishedError):
            house.handle_end(run_id)


@pytest.mark.case("M03")
@pytest.mark.case("M04")
def test_a_cancelled_run_is_never_mailed() -> None:
    house = House()
    house.declare()
    run = a_run(status=RunStatus.CANCELLED)
    with house.unit.begin(A_TENANT) as tx:
        tx.runs.add(run)
    with pytest.raises(RunNotFinishedError):
        house.handle_end(run.run_id)
    assert house.mails(run) == []


@pytest.mark.case("M06")
def test_on_change_over_a_sequence_of_runs_mails_change_and_recovery() -> None:
    house = House()
    house.declare(replace(EVERY, notify=Notify.ON_CHANGE, match=Match()))
    job = an_id()
    sequence = [RunResult.MATCHED, *[RunResult.UNMATCHED] * 3, RunResult.MATCHED]
    for result in sequence:
        house.finish(result, job_id=job)
        house.clock.advance(MINUTE)
        house.drain()
    subjects = [mail.mime.split(b"Subject: ")[1][:60] for mail in house.mailer.stored]
    assert len(subjects) == 2
    assert house.event_types().count("email.skipped") == 3


@pytest.mark.case("M09")
def test_an_overtaken_run_is_skipped_and_reported() -> None:
    house = House()
    house.declare(replace(EVERY, notify=Notify.ON_CHANGE))
    job = an_id()
    late = a_run(
        status=RunStatus.COMPLETED, job_id=job, closed_at=NOON - HOUR, result=RunResult.UNMATCHED
    )
    with house.unit.begin(A_TENANT) as tx:
        tx.runs.add(late)
    house.finish(RunResult.MATCHED, job_id=job)
    house.handle_end(late.run_id)
    assert house.mails(late) == []
    assert "email.skipped" in house.event_types()


@pytest.mark.case("M15")
def test_each_recipient_has_a_separate_outcome() -> None:
    house = House()
    to = tuple(Recipient(address=f"{name}@example.com") for name in ("a", "b", "c"))
    house.declare(replace(EVERY, to=to))
    house.mailer = ScriptedMailer(refused(Stage.RCPT, 550), refused(Stage.RCPT, 451))
    run = house.finish()
    house.drain()
    house.clock.advance(HOUR)
    house.drain()
    states = [(mail.state, mail.reason) for mail in house.mails(run)]
    assert sorted(states) == [
        (MailState.FAILED, MailReason.PERMANENT),
        (MailState.SENT, None),
        (MailState.SENT, None),
    ]
    assert len(house.mailer.stored) == 2


@pytest.mark.case("M16")
def test_greylisting_then_acceptance_is_sent_on_the_second_attempt() -> None:
    house = House(mailer=ScriptedMailer(refused(Stage.RCPT, 451)))
    house.declare()
    run = house.finish()
    house.drain()
    assert house.mails(run)[0].state is MailState.PENDING
    house.clock.advance(MINUTE)
    house.drain()
    (mail,) = house.mails(run)
    assert (mail.state, mail.attempts) == (MailState.SENT, 2)


def lost_after_data() -> SendOutcome:
    return RelayLost(reason="cut")


@pytest.mark.case("M17")
def test_a_lost_answer_is_sent_once_more_with_the_same_bytes() -> None:
    house = House(mailer=ScriptedMailer(lost_after_data))
    house.declare()
    run = house.finish()
    house.drain()
    assert house.mails(run)[0].state is MailState.UNKNOWN
    assert house.metrics.total("mail_unknown_total") == 1
    house.clock.advance(10 * MINUTE)
    house.drain()
    assert house.mails(run)[0].state is MailState.SENT
    first, second = house.mailer.stored
    assert first == second


@pytest.mark.case("M17")
def test_with_policy_stop_a_lost_reply_is_final_and_reported() -> None:
    house = House(mailer=ScriptedMailer(lost_after_data), on_unknown=OnUnknown.STOP)
    house.declare()
    run = house.finish()
    house.drain()
    (mail,) = house.mails(run)
    assert (mail.state, mail.is_terminal) == (MailState.UNKNOWN, True)
    assert house.event_types() == ["email.failed"]


class KilledError(BaseException):
    """Simulates kill -9: nothing after it runs."""


@dataclass
class KilledMailer:
    """Sends the mail up to a phase and ends there."""

    house: House
    at: str
    relay: str = "scripted"

    def send(self, mail: OutgoingMail, *, may_send_data: Callable[[], bool]) -> SendOutcome:
        if self.at == "OPEN":
            raise KilledError
        may_send_data()
        if self.at == "after RCPT":
            raise KilledError
        self.house.mailer.stored.append(mail)
        raise KilledError

    def close(self) -> None: ...


@pytest.mark.case("M18")
@pytest.mark.parametrize(
    ("at", "copies"), [("OPEN", 1), ("after RCPT", 1), ("after DATA", 2), ("after 250", 2)]
)
def test_a_notifier_killed_anywhere_sends_one_copy_or_two_identical_ones(
    at: str, copies: int
) -> None:
    house = House()
    house.declare()
    run = house.finish()
    with pytest.raises(KilledError):
        house.loop(KilledMailer(house, at)).turn()
    for _ in range(2):
        house.clock.advance(11 * MINUTE)
        house.drain(house.loop(owner="n-2"))
    assert house.mails(run)[0].state is MailState.SENT
    assert len(house.mailer.stored) == copies
    assert len({mail.mime for mail in house.mailer.stored}) == 1


@pytest.mark.case("M18")
def test_two_notifiers_never_hold_one_mail_at_once() -> None:
    house = House()
    house.declare()
    house.finish()
    other: list[bool] = []

    def meanwhile() -> SendOutcome:
        house.clock.advance(MINUTE)
        other.append(house.loop(ScriptedMailer(), owner="n-2").turn())
        return RelayReplied(reply=Reply(stage=Stage.DATA, code=250))

    house.mailer = ScriptedMailer(meanwhile)
    house.drain()
    assert other == [False]
    assert len(house.mailer.stored) == 1


def test_a_notifier_that_lost_its_lease_sends_no_data() -> None:
    house = House()
    house.declare()
    run = house.finish()
    mailer = ScriptedMailer()
    slow = _Slow(mailer, lambda: _steal(house))
    house.drain(house.loop(slow))
    assert mailer.stored == []
    assert house.mails(run)[0].state is MailState.SENT


def _steal(house: House) -> None:
    house.clock.advance(5 * MINUTE)
    house.drain(house.loop(ScriptedMailer(), owner="n-2"))


@dataclass
class _Slow:
    """Runs an action before it sends the mail."""

    mailer: ScriptedMailer
    before: Callable[[], None]
    relay: str = "slow"

    def send(self, mail: OutgoingMail, *, may_send_data: Callable[[], bool]) -> SendOutcome:
        self.before()
        return self.mailer.send(mail, may_send_data=may_send_data)

    def close(self) -> None: ...


@pytest.mark.case("M20")
def test_a_relay_that_is_away_consumes_nothing_and_everything_goes_when_it_is_back() -> None:
    house = House(mailer=ScriptedMailer(*[LOST] * 10))
    house.declare()
    runs = [house.finish() for _ in range(3)]
    loop = house.loop()
    began = house.clock.now()
    while not all(house.mails(run)[0].state is MailState.SENT for run in runs):
        rest = house.health.rest()
        if rest or not loop.turn():
            house.clock.advance(rest or MINUTE)
    assert house.clock.now() - began > HOUR
    assert [mail.attempts for run in runs for mail in house.mails(run)] == [1, 1, 1]


@pytest.mark.case("M20")
def test_a_day_without_relay_ends_as_expired_with_an_event() -> None:
    house = House(mailer=ScriptedMailer(*[LOST] * 1000))
    house.declare()
    run = house.finish()
    with capture_logs() as said:
        house.drain()
    assert [entry["code"] for entry in said if "code" in entry] == ["DR5604"]
    house.clock.advance(25 * HOUR)
    house.drain()
    (mail,) = house.mails(run)
    assert (mail.state, mail.reason) == (MailState.FAILED, MailReason.EXPIRED)
    assert house.event_types() == ["email.failed"]


@pytest.mark.case("M21")
def test_a_refused_login_leaves_mails_pending_and_rests_15_minutes() -> None:
    house = House(mailer=ScriptedMailer(refused(Stage.AUTH, 535)))
    house.declare()
    run = house.finish()
    with capture_logs() as said:
        house.drain()
    assert [entry["code"] for entry in said if "code" in entry] == ["DR5603"]
    assert house.mails(run)[0].state is MailState.PENDING
    assert house.health.rest() == 15 * MINUTE
    assert house.metrics.total("mail_attempts_total", **{"class": "CONFIGURATION"}) == 1


def test_a_relay_that_is_left_alone_is_shown() -> None:
    house = House(mailer=ScriptedMailer(refused(Stage.AUTH, 535)))
    house.declare()
    house.finish()
    loop = house.loop()
    with capture_logs():
        loop.run(Until(house.clock, house.clock.monotonic() + 5))
    assert house.metrics.last("mail_transport_paused") == 1


@pytest.mark.case("L44")
def test_a_mail_and_its_events_are_in_the_trace_of_its_run() -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    house = House()
    house.declare()
    run = house.finish(traceparent=trace)
    loop = house.loop()
    loop.tracing = traced = RecordedTracing()
    house.drain(loop)
    (span,) = traced.spans
    assert (span.name, span.parent, span.attributes["run_id"]) == (
        *("mail.send", trace),
        str(run.run_id),
    )
    (event,) = house.store.committed(A_TENANT).outbox.values()
    assert dict(event.row.headers)["ce_traceparent"].decode() == trace


def test_an_address_the_relay_cannot_take_fails_alone() -> None:
    house = House(mailer=ScriptedMailer(SmtpUtf8Missing()))
    house.declare()
    run = house.finish()
    house.drain()
    assert house.mails(run)[0].reason is MailReason.SMTPUTF8_UNSUPPORTED


@pytest.mark.case("M27")
def test_a_year_of_events_read_again_sends_no_mail() -> None:
    house = House()
    house.declare()
    for day in range(30):
        run = a_run(
            status=RunStatus.COMPLETED,
            result=RunResult.UNMATCHED,
            closed_at=NOON - timedelta(days=day + 2),
        )
        with house.unit.begin(A_TENANT) as tx:
            tx.runs.add(run)
        house.handle_end(run.run_id)
    house.drain()
    assert house.mailer.stored == []
    assert house.event_types() == ["email.skipped"] * 30


@pytest.mark.case("X83")
def test_a_tenant_writes_to_its_domains_alone() -> None:
    house = House()
    house.declare(replace(EVERY, to=(Recipient(address="x@b.example"),)))
    run = house.finish()
    house.drain()
    (mail,) = house.mails(run)
    assert (mail.state, mail.reason) == (MailState.SKIPPED, "UNVERIFIED")
    assert house.mailer.stored == []
    house.declare(replace(EVERY, to=(Recipient(address="x@b.example"),)), tenant_id=B_TENANT)
    theirs = house.finish(tenant_id=B_TENANT)
    house.drain()
    assert house.mails(theirs)[0].state is MailState.SENT


@pytest.mark.case("M29")
def test_every_run_leaves_an_event_and_the_sent_ones_are_the_relays_ledger() -> None:
    house, chance = House(), Random(29)  # noqa: S311  a fixed test sequence
    house.policy = replace(house.policy, recipient_rate=1000)
    house.declare(replace(EVERY, notify=Notify.ON_CHANGE, match=Match()), name="changes")
    house.declare(
        replace(EVERY, to=(Recipient(address="b@example.com"),), match=Match(jobs=("ledger",))),
        name="ledger",
    )
    jobs = [(name, an_id()) for name in ("ledger", "bank", "cards")]
    runs = []
    for _ in range(100):
        name, job = chance.choice(jobs)
        runs.append(house.finish(chance.choice(list(RunResult)), job_id=job, job_name=name))
        house.clock.advance(MINUTE)
    house.drain()
    rows = house.store.committed(A_TENANT).outbox.values()
    announced_runs = {queued.row.partition_key for queued in rows}
    assert announced_runs == {str(run.run_id) for run in runs}
    sent = [
        mail.message_id for run in runs for mail in house.mails(run) if mail.state is MailState.SENT
    ]
    assert sorted(sent) == sorted(mail.message_id for mail in house.mailer.stored)
    assert len(sent) == len(set(sent)) == house.event_types().count("email.sent")


def test_the_loop_waits_while_the_relay_pauses_and_ends_on_stop() -> None:
    house = House(mailer=ScriptedMailer(LOST))
    house.declare()
    run = house.finish()
    loop, stop = house.loop(), Latch()
    seen: list[float] = []

    def stop_when_sent() -> SendOutcome:
        seen.append(house.clock.monotonic())
        stop.set()
        loop.wake.set()
        return RelayReplied(reply=Reply(stage=Stage.DATA, code=250))

    house.mailer = ScriptedMailer(LOST, stop_when_sent)
    loop.mailer = house.mailer
    loop.run(stop)
    assert house.mails(run)[0].state is MailState.SENT
    assert seen[0] >= 30
    assert house.mailer.closed


AWAY = StoreUnavailableError(cause="restart")


@pytest.mark.parametrize("passing", [0, 1, 2])
def test_a_database_that_is_away_for_a_moment_costs_no_second_copy(passing: int) -> None:
    """Away at the lease, at the phase before DATA, and at the record."""
    house = House()
    house.declare()
    run = house.finish()
    loop, stop = house.loop(), Latch()
    loop.unit_of_work = Flaky(house.unit, 2, AWAY, passing=passing)
    loop.clock = _StopsAfter(house.clock, stop, timedelta(minutes=5))
    loop.run(stop)
    assert house.mails(run)[0].state is MailState.SENT
    assert len(house.mailer.stored) == 1


@dataclass
class _StopsAfter:
    """The clock of a loop, which ends the loop when so much time has passed."""

    clock: ManualClock
    stop: Latch
    span: timedelta

    def now(self) -> datetime:
        return self.clock.now()

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
        if self.clock.monotonic() > self.span.total_seconds():
            self.stop.set()
        return self.clock.wait(duration, until=until)


def test_a_database_that_stays_away_leaves_the_mail_unknown() -> None:
    house = House()
    house.declare()
    run = house.finish()
    loop = house.loop()
    loop.unit_of_work = Flaky(house.unit, 1000, AWAY, passing=2)
    with pytest.raises(StoreUnavailableError):
        loop.turn()
    house.clock.advance(5 * MINUTE)
    assert house.loop().turn()
    assert house.mails(run)[0].state is MailState.UNKNOWN


def test_a_defect_at_one_mail_is_that_mails_problem() -> None:
    house = House()
    to = tuple(Recipient(address=f"{name}@example.com") for name in ("a", "b"))
    house.declare(replace(EVERY, to=to))
    run = house.finish()
    loop = house.loop()
    loop.unit_of_work = Flaky(house.unit, 1, RuntimeError("a defect"))
    house.drain(loop)
    states = [mail.state for mail in house.mails(run)]
    assert sorted(states) == [MailState.PENDING, MailState.SENT]


def test_a_rule_that_is_being_deleted_or_cannot_be_read_sends_no_mail() -> None:
    house = House()
    house.declare(deletion_at=NOON)
    spoilt = house.declare()
    with house.unit.begin(A_TENANT) as tx:
        broken = replace(spoilt, spec={"to": 3}, generation=2, rv=2)
        assert tx.resources.replace(broken, expected_rv=1)
    assert house.mails(house.finish()) == []


def test_a_claim_that_came_too_late_finds_nothing_to_do() -> None:
    house = House()
    house.declare()
    run = house.finish()
    (mail,) = house.mails(run)
    sending = house.loop().sending
    house.drain()
    with house.unit.begin(A_TENANT) as tx:
        assert sending.lease_mail(tx, mail.delivery_id) is None
        assert sending.lease_mail(tx, an_id()) is None


def test_a_long_history_is_read_page_by_page() -> None:
    house = House()
    house.declare()
    run = a_run(status=RunStatus.COMPLETED, result=RunResult.UNMATCHED, closed_at=house.clock.now())
    with house.unit.begin(A_TENANT, feed=1100) as tx:
        tx.runs.add(run)
        tx.runs.for_update(run.run_id)
        for number in range(1100):
            name = "stage.started" if number == 1050 else "rows_processed"
            tx.runs.record(
                run.run_id,
                HistoryEntry(
                    sequence=0,
                    event_id=EventId(an_id()),
                    type=f"io.datarecs.reconciliation.run.{name}",
                    source="/datarecs/reconciliation-worker",
                    time=NOON,
                    data={"attempt": 1, "stage_name": "late-stage"},
                    disposition=Disposition.HISTORY,
                ),
            )
    house.handle_end(run.run_id)
    house.drain()
    assert len(house.mailer.stored) == 1


class TestScriptedMailer(MailerConformance):
    @pytest.fixture
    def mailer(self) -> ScriptedMailer:
        return ScriptedMailer()

    def stored(self, mailer: Mailer) -> list[bytes]:
        assert isinstance(mailer, ScriptedMailer)
        return [mail.mime for mail in mailer.stored]


def subjects(house: House) -> list[str]:
    return [
        str(email.message_from_bytes(mail.mime, policy=default)["Subject"])
        for mail in house.mailer.stored
    ]


def wait(house: House, length: timedelta) -> None:
    house.clock.advance(length)
    house.drain()


@pytest.mark.case("M28")
def test_above_30_mails_an_hour_the_rest_leaves_as_one_digest_and_no_run_is_missing() -> None:
    house = House()
    house.declare()
    runs = [house.finish(job_name=f"job-{number}") for number in range(100)]
    house.drain()
    assert len(house.mailer.stored) == 30
    wait(house, 15 * MINUTE)
    (digest,) = subjects(house)[30:]
    assert digest == "[datarecs] 70 runs: 70 ▲"
    reasons = [mail.reason for run in runs for mail in house.mails(run)]
    assert reasons.count(SkipReason.FOLDED) == 70
    assert house.event_types() == ["email.sent"] * 100


@pytest.mark.case("M14")
def test_a_digest_has_every_run_of_its_window_and_a_late_run_joins_the_next() -> None:
    house = House()
    house.declare(replace(EVERY, digest=Digest(at=("13:00", "14:00"))))
    house.finish(job_name="one")
    house.finish(job_name="two")
    house.drain()
    assert house.mailer.stored == []
    wait(house, HOUR)
    house.finish(job_name="late")
    house.drain()
    assert subjects(house) == ["[datarecs] 2 runs: 2 ▲"]
    wait(house, HOUR)
    assert subjects(house)[1:] == ["[datarecs] ▲ UNMATCHED late"]
    assert house.event_types() == ["email.sent"] * 3


@pytest.mark.case("M13")
def test_mails_held_in_quiet_hours_leave_at_their_end_as_one() -> None:
    house = House()
    periods = (Period(start="11:00", end="15:00"),)
    house.declare(replace(EVERY, quiet_hours=QuietHours(periods=periods)))
    house.finish()
    house.finish(RunResult.MATCHED)
    wait(house, 2 * HOUR)
    assert house.mailer.stored == []
    wait(house, HOUR)
    assert subjects(house) == ["[datarecs] 2 runs: 1 ▲, 1 ●"]


@pytest.mark.case("M15")
def test_an_address_that_does_not_exist_gets_no_further_mail() -> None:
    house = House(mailer=ScriptedMailer(refused(Stage.RCPT, 550)))
    house.declare()
    house.finish()
    house.drain()
    run = house.finish()
    house.drain()
    assert [mail.reason for mail in house.mails(run)] == [SkipReason.SUPPRESSED]


@pytest.mark.case("M26")
def test_five_refusals_of_a_full_mailbox_pause_mails_for_seven_days() -> None:
    house = House(mailer=ScriptedMailer(*[refused(Stage.RCPT, 552)] * 5))
    house.declare()
    for _ in range(5):
        run = house.finish()
        house.drain()
        assert [mail.state for mail in house.mails(run)] == [MailState.FAILED]
        house.clock.advance(HOUR)
    run = house.finish()
    assert [mail.reason for mail in house.mails(run)] == [SkipReason.SUPPRESSED]
    house.clock.advance(timedelta(days=7))
    run = house.finish()
    house.drain()
    assert [mail.state for mail in house.mails(run)] == [MailState.SENT]


@pytest.mark.case("M23")
def test_who_unsubscribes_by_the_link_of_a_mail_gets_no_more_of_the_rule() -> None:
    house = House()
    rule = house.declare()
    house.finish()
    house.drain()
    header = email.message_from_bytes(house.mailer.stored[0].mime, policy=default)
    token = str(header["List-Unsubscribe"]).strip("<>").rpartition("/")[2]
    link = read_unsubscribe_link(token, [LINK_KEY], now=house.clock.now())
    assert link is not None
    assert link.rules == (rule.uid,)
    with house.unit.begin(A_TENANT) as tx:
        tx.mail_choices.unsubscribe(link.recipient, [str(uid) for uid in link.rules])
    run = house.finish()
    assert [mail.reason for mail in house.mails(run)] == [SkipReason.UNSUBSCRIBED]


def test_a_notice_is_sent_once_per_address_without_an_event() -> None:
    house = House()
    notice = Notice(subject="Webhook orders is disabled", headline="Webhook orders is disabled")
    to = NoticeRecipient(tenant_id=A_TENANT, address="ana@example.com", scope="endpoint:1:down:1")
    for _ in range(2):
        with house.unit.begin(A_TENANT) as tx:
            tx.mails.add(notice_mail(notice, to, delivery_id=an_id(), now=tx.now))
    house.drain()
    assert subjects(house) == ["[datarecs] ▲ Webhook orders is disabled"]
    assert house.event_types() == []
