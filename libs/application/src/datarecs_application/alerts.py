"""What an operator is woken for: each alert as data, with what to do about it.

Apart from the catalogue of metrics because a number means something by itself and an alert is a
judgement: threshold, patience, severity. `docs/alerts.yaml` and the page of metrics are printed
from here. Source: run-lifecycle 17.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Severity(StrEnum):
    PAGE = "page"
    """Somebody is woken: promises are being broken, or work stands still."""
    TICKET = "ticket"
    """Somebody looks today: nothing is lost, and it does not heal by itself."""


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

    A series begins with its first count, and `increase` sees no rise in a beginning.
    """
    return f"increase({series}[{window}]) > 0 or ({series} > 0 unless {series} offset {window})"


_MINUTE = timedelta(minutes=1)

_RUNS = (
    _ticket(
        "conflicting_ends",
        _rose('datarecs_run_facts_total{disposition="CONFLICT"}'),
        "A run that has ended was told the opposite end; the first one stands.",
        "Look for `late_fact` in the controller's log: two executions of one attempt, or a worker "
        "that went on after its lease was lost.",
    ),
    _page(
        "run_past_deadline",
        "max(datarecs_runs_overdue) > 0",
        "A run is still open two minutes after its deadline: neither its supervisor nor the "
        "controller's timer closed it.",
        "See whether the loops `timing` and `rescue` of a controller run and the database answers; "
        "then look at the run's timeline for the worker that holds it.",
    ),
    _ticket(
        "many_repairs",
        "sum(increase(datarecs_run_repairs_total[1h]))"
        " > 0.01 * clamp_min(sum(increase(datarecs_runs_total[1h])), 100)",
        "More than 1 % of runs were put right by rescue or timers: parts die or do not answer.",
        "Group `run_repairs_total` by reason. `attempt_lost` is dying workers (memory, evictions), "
        "`end_unhandled` a controller that does not consume.",
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
        "Events wait for more than a minute; mails, webhooks and closings wait with them.",
        "Look at `relay_waits` and `outbox_row_waits` in the controller's log: the broker is away, "
        "full, or refuses the relay's login. Nothing is lost, it goes out when the cause is gone.",
    ),
    _page(
        "outbox_row_parked",
        "max(datarecs_outbox_parked) > 0",
        "The broker can never take an event, so it was set aside and later ones went on.",
        "Read `outbox_row_parked` in the controller's log, mend the topic's limits, then "
        "`datarecs admin outbox unpark`.",
    ),
    _ticket(
        "dead_letters",
        "max by (group) (datarecs_dlq_depth) > 0",
        "Records that a consumer set aside, because they can never be handled as they are, wait.",
        "Read the dead letter's reason; after the fix run the service's `redrive`, which takes "
        "each effect once.",
    ),
    _page(
        "unreadable_record",
        _rose("datarecs_kafka_unreadable_total"),
        "A record on a topic cannot be parsed at all and was passed over; its bytes stay there.",
        "`record_unreadable` in the log names topic, partition and offset. Find out who writes "
        "there besides the relay.",
    ),
    _ticket(
        "rows_in_default_partition",
        "max by (table) (datarecs_partition_default_rows) > 0",
        "Rows fell into a DEFAULT partition: the partition of their day was not made in time.",
        "See whether the loop `partitions` of a controller runs; it moves the rows when it does.",
    ),
    _page(
        "consumer_lags",
        "sum by (group) (datarecs_consumer_lag_records) > (sum by (group)"
        " (increase(datarecs_consumer_handle_seconds_count[2m]))"
        " or 0 * sum by (group) (datarecs_consumer_lag_records))",
        "A group has more to read than it handled in two minutes: it is 120 s behind or more.",
        "Look at `consumer_paused_partitions` and `consumer_handle_seconds` of the group: the "
        "database is away, one record fails over and over, or more replicas are needed.",
        lasting=2 * _MINUTE,
    ),
    _page(
        "consumer_paused",
        "max by (group) (datarecs_consumer_paused_partitions) > 0",
        "Partitions of a group wait after failures.",
        "`partition_paused` in the log names the cause; with the database back they go on by "
        "themselves.",
        lasting=2 * _MINUTE,
    ),
    _page(
        "tenant_mismatch",
        _rose("datarecs_tenant_mismatch_total"),
        "An event named one tenant and carried another's data. It had no effect.",
        "Treat it as an attack until explained: who may write the topic, and from where did the "
        "dead letter come.",
    ),
    _page(
        "offset_gap",
        _rose("datarecs_offset_gaps_total", "1h"),
        "A group's position is older than what the topic still holds: events were not read.",
        "The consumer fills the gap from the outbox. Raise the topic's retention above the "
        "longest outage.",
    ),
    _page(
        "loop_dead",
        "min by (loop, instance) (datarecs_loop_alive) < 1",
        "A loop of a process has ended while the process goes on.",
        "`loop_died` in its log has the error; restart the process.",
        lasting=_MINUTE,
    ),
)

ALERTS: tuple[Alert, ...] = (*_RUNS, *_DELIVERY)
"""Every alert, in the order in which a page shows them."""
