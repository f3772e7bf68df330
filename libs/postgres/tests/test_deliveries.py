"""Webhook deliveries and mails on PostgreSQL: the suites, and what only a real server can show."""

import threading

import pytest

from datarecs_core.notifications.evaluation import RuleState
from datarecs_core.values import JobId, ResourceUid
from datarecs_core.webhooks.delivery import lease
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.conformance.deliveries import DeliveriesConformance, fresh
from datarecs_testing.conformance.delivery_order import DeliveryOrderConformance
from datarecs_testing.conformance.mails import (
    MailChoicesConformance,
    MailsConformance,
    RuleStatesConformance,
)
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.deliveries import a_mail

pytestmark = pytest.mark.integration


class TestDeliveries(DeliveriesConformance):
    pass


class TestDeliveryOrder(DeliveryOrderConformance):
    pass


class TestMails(MailsConformance):
    pass


class TestRuleStates(RuleStatesConformance):
    pass


@pytest.mark.case("M06")
def test_two_runs_of_one_job_are_evaluated_one_after_the_other(stores: Stores) -> None:
    job, rule = JobId(an_id()), ResourceUid(an_id())
    seen: list[bool] = []
    entered = threading.Event()

    def second() -> None:
        with stores.mail.unit.begin(A_TENANT) as tx:
            entered.set()
            seen.append(rule in tx.rule_states.of_job(job))

    other = threading.Thread(target=second)
    with stores.mail.unit.begin(A_TENANT) as tx:
        assert tx.rule_states.of_job(job) == {}
        other.start()
        assert entered.wait(10)
        other.join(0.3)
        assert seen == []
        tx.rule_states.save([RuleState(rule_uid=rule, job_id=job, announced="UNMATCHED")])
    other.join(10)
    assert seen == [True]


@pytest.mark.case("W12")
def test_two_workers_never_lease_one_delivery(stores: Stores) -> None:
    endpoint = ResourceUid(an_id())
    with stores.webhook.unit.begin(A_TENANT) as tx:
        tx.deliveries.states([endpoint])
        tx.deliveries.add([fresh(tx, endpoint) for _ in range(40)])
    leased: list[list[object]] = [[], []]

    def work(number: int) -> None:
        for _ in range(20):
            with stores.webhook.unit.begin(A_TENANT) as tx:
                tx.deliveries.states([endpoint])
                due = tx.deliveries.due(endpoint, 2)
                tx.deliveries.save([lease(one, owner=f"w-{number}", now=tx.now) for one in due])
                leased[number] += [one.delivery_id for one in due]

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    both = [*leased[0], *leased[1]]
    assert len(both) == len(set(both)) == 40


@pytest.mark.case("W42")
def test_without_a_tenant_the_services_see_no_row(
    stores: Stores, database: PreparedDatabase
) -> None:
    with stores.webhook.unit.begin(A_TENANT) as tx:
        tx.deliveries.states([ResourceUid(an_id())])
        tx.deliveries.add([fresh(tx, ResourceUid(an_id()))])
    with database.connect("datarecs_webhook") as connection:
        for table in ("webhook_delivery", "webhook_endpoint_state"):
            row = connection.execute(f"SELECT count(*) FROM datarecs.{table}").fetchone()  # noqa: S608  two names of ours
            assert row == (0,)


@pytest.mark.case("M14")
def test_while_one_sender_folds_a_group_another_leaves_it_alone(stores: Stores) -> None:
    with stores.mail.unit.begin(A_TENANT) as tx:
        mails = [a_mail(fold="rule:1", due_at=tx.now) for _ in range(2)]
        for mail in mails:
            tx.mails.add(mail)
    with stores.mail.unit.begin(A_TENANT) as first:
        assert len(first.mails.fold_of(mails[0]) or []) == 2
        with stores.mail.unit.begin(A_TENANT) as second:
            assert second.mails.fold_of(mails[1]) is None


class TestMailChoices(MailChoicesConformance):
    """Unsubscribing, suppression, revoked links."""
