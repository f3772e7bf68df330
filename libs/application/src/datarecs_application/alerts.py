"""What an operator is woken for: each alert as data, with what to do about it.

Separate from the catalogue of metrics because a number means something by itself and an alert is a
judgement: threshold, patience, severity. `docs/alerts.yaml` and the page of metrics are printed
from here. Source: run-lifecycle 17.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Severity(StrEnum):
    PAGE = "page"
    """Wakes a person: a guarantee is broken, or no work is done."""
    TICKET = "ticket"
    """A person checks it today: nothing is lost, but it does not resolve by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule. Named in Prometheus `Datarecs` and the name in capitals of each word."""

    name: str
    """snake_case, never renamed: silences and runbooks name it."""
    expression: str
    """PromQL over names of the catalogue; it alerts while it has a result."""
    lasting: timedelta = timedelta(0)
    """How long it must hold without a break."""
    severity: Severity
    means: str
    """What is the case, for a person."""
    remedy: str
    """What to do, first step first."""

    @property
    def title(self) -> str:
        return "Datarecs" + "".join(word.capitalize() for word in self.name.split("_"))


def _page(
    name: str, expression: str, means: str, remedy: str, *, lasting: timedelta = timedelta(0)
) -> Alert:
    return Alert(
        name=name,
        expression=expression,
        means=means,
        remedy=remedy,
        lasting=lasting,
        severity=Severity.PAGE,
    )


def _ticket(
    name: str, expression: str, means: str, remedy: str, *, lasting: timedelta = timedelta(0)
) -> Alert:
    return Alert(
        name=name,
        expression=expression,
        means=means,
        remedy=remedy,
        lasting=lasting,
        severity=Severity.TICKET,
    )


def _rose(series: str, window: str = "15m") -> str:
    """It was counted within the window; the first count of all included.

    A series starts with its first count, and `increase` does not see that start as a rise.
    """
    return f"increase({series}[{window}]) > 0 or ({series} > 0 unless {series} offset {window})"


_MINUTE = timedelta(minutes=1)

_RUNS = (
    _ticket(
        "conflicting_ends",
        _rose('datarecs_run_facts_total{disposition="CONFLICT"}'),
        "A run that has ended received a contradicting end; the first end is kept.",
        "Search the controller's log for `late_fact`: two executions of one attempt, or a worker "
        "that continued after its lease was lost.",
    ),
    _page(
        "run_past_deadline",
        "max(datarecs_runs_overdue) > 0",
        "A run is still open two minutes after its deadline: neither its supervisor nor the "
        "controller's timer closed it.",
        "Check that the loops `timing` and `rescue` of a controller run and the database responds; "
        "then check the run's timeline for the worker that holds it.",
    ),
    _ticket(
        "run_waits_long",
        'max(datarecs_run_oldest_seconds{status="QUEUED"}) > 600',
        "A run has waited for more than ten minutes for a worker; it is not lost, and runs in its "
        "turn until the time limit of the queue.",
        "Check that reconciliation-workers run and are ready; if all are busy, add workers, or "
        "spread the schedules of the hour with `jitter`.",
    ),
    _ticket(
        "many_repairs",
        "sum(increase(datarecs_run_repairs_total[1h]))"
        " > 0.01 * clamp_min(sum(increase(datarecs_runs_total[1h])), 100)",
        "More than 1 % of runs were repaired by rescue or timers: processes end or do not respond.",
        "Group `run_repairs_total` by reason. `attempt_lost` means workers that end (memory, "
        "evictions), `end_unhandled` a controller that does not consume.",
    ),
    _ticket(
        "leases_lost",
        "sum(increase(datarecs_leases_lost_total[15m])) > 3",
        "Workers keep losing leases of runs they are working on.",
        "Compare `lease_renew_seconds` with a third of the lease: the database is slow, or the "
        "host pauses its processes.",
    ),
)
_DELIVERY = (
    _page(
        "outbox_stands_still",
        "max(datarecs_outbox_oldest_unsent_seconds) > 60",
        "Events wait for more than a minute; mails, webhooks and ends of runs are late too.",
        "Check `relay_waits` and `outbox_row_waits` in the controller's log: the broker is "
        "unavailable, full, or refuses the relay's login. Nothing is lost; events are sent when "
        "the cause is removed.",
    ),
    _page(
        "outbox_row_parked",
        "max(datarecs_outbox_parked) > 0",
        "The broker refuses an event for good, so it was parked; later events are sent.",
        "Read `outbox_row_parked` in the controller's log, correct the topic's limits, then "
        "`datarecs admin outbox unpark`.",
    ),
    _ticket(
        "dead_letters",
        "max by (group) (datarecs_dlq_depth) > 0",
        "Dead letters wait: records that a consumer could not handle.",
        "Read the dead letter's reason; after the fix run the service's `redrive`, which applies "
        "each effect once.",
    ),
    _page(
        "unreadable_record",
        _rose("datarecs_kafka_unreadable_total"),
        "A record cannot be parsed and was skipped; its bytes stay in the topic.",
        "`record_unreadable` in the log names topic, partition and offset. Find out who writes "
        "there besides the relay.",
    ),
    _ticket(
        "rows_in_default_partition",
        "max by (table) (datarecs_partition_default_rows) > 0",
        "Rows fell into a DEFAULT partition: the partition of their day was not created in time.",
        "Check that the loop `partitions` of a controller runs; it moves the rows.",
    ),
    _page(
        "consumer_lags",
        "sum by (group) (datarecs_consumer_lag_records) > (sum by (group)"
        " (increase(datarecs_consumer_handle_seconds_count[2m]))"
        " or 0 * sum by (group) (datarecs_consumer_lag_records))",
        "A group has more to read than it handled in two minutes: it is 120 s behind or more.",
        "Check `consumer_paused_partitions` and `consumer_handle_seconds` of the group: the "
        "database is unavailable, one record fails over and over, or more replicas are needed.",
        lasting=2 * _MINUTE,
    ),
    _page(
        "consumer_paused",
        "max by (group) (datarecs_consumer_paused_partitions) > 0",
        "Partitions of a group wait after failures.",
        "`partition_paused` in the log names the cause; they continue when the "
        "database is available.",
        lasting=2 * _MINUTE,
    ),
    _page(
        "tenant_mismatch",
        _rose("datarecs_tenant_mismatch_total"),
        "The tenant of an event contradicts its data. The event had no effect.",
        "Treat it as an attack until explained: check who may write to the topic and where "
        "the dead letter came from.",
    ),
    _page(
        "offset_gap",
        _rose("datarecs_offset_gaps_total", "1h"),
        "A group's offset is older than the first record of the topic: events were not read.",
        "The consumer fills the gap from the outbox. Raise the topic's retention above the "
        "longest outage.",
    ),
    _ticket(
        "reconciles_late",
        "max by (kind) (datarecs_reconcile_oldest_due_seconds) > 300",
        "Objects wait for their controller for more than five minutes: their status is old.",
        "Check that a resource-controller runs; then compare `reconcile_total` by result: many "
        "`timeout` or `error` name a dependency that does not answer.",
    ),
    _page(
        "loop_dead",
        "min by (loop, instance) (datarecs_loop_alive) < 1",
        "A loop of a process has ended, but the process continues.",
        "`loop_died` in its log has the error; restart the process.",
        lasting=_MINUTE,
    ),
)
_SINKS = (
    _page(
        "sink_halted",
        'max(datarecs_sink_tasks{state="halted"}) > 0',
        "A task of a sink has stopped at something that only a person can decide; nothing of what "
        "it reads is committed.",
        "`datarecs get sinks` names it and `datarecs sink status` says why and what to do; then "
        "use `datarecs sink retry`.",
    ),
    _page(
        "sink_stalled",
        'max(datarecs_sink_tasks{state="stalled"}) > 0',
        "A sink has not committed what it read for five intervals, or an error hinders it for as "
        "long; nothing is lost as long as the topics have the records.",
        "Compare `datarecs sink status` of the sinks with Ready or Lagging; mend the cluster, the "
        "catalog or the store that it names. The sink goes on by itself.",
        lasting=_MINUTE,
    ),
)

ALERTS: tuple[Alert, ...] = (*_RUNS, *_DELIVERY, *_SINKS)
"""Every alert, in the order in which a page shows them."""
