"""The catalogue of metrics: name, kind, unit, meaning, labels. Nothing else can be counted.

A separate module because dashboards, alerts and the docs page read names: they are published, added
and never renamed. Labels come from closed sets (enum members, topics, groups, routes); an id or a
tenant is never one. Sources: run-lifecycle 17, notifications 1.14 and 2.7.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

PREFIX = "datarecs_"


class MetricKind(StrEnum):
    COUNTER = "counter"
    """Only grows; counted with `Metrics.count`."""
    GAUGE = "gauge"
    """Has a value; set with `Metrics.gauge`."""
    HISTOGRAM = "histogram"
    """Durations or sizes; reported one by one with `Metrics.observe`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One entry. `name` has no prefix, in code as well."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, in its unit (seconds)."""

    @property
    def full_name(self) -> str:
        return PREFIX + self.name


_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds of database and broker calls."""
_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Seconds of runs and of ways that people wait for."""


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.COUNTER, meaning=meaning, labels=labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.GAUGE, meaning=meaning, labels=labels)


def _histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...]) -> Metric:
    return Metric(
        name=name, kind=MetricKind.HISTOGRAM, meaning=meaning, labels=labels, buckets=buckets
    )


_RUNS = (
    _counter(
        "runs_total", "Runs that reached a terminal state.", "mode", "status", "result", "code"
    ),
    _histogram(
        "run_seconds",
        "Time a run spent in a phase: queue, execute, close.",
        "phase",
        buckets=_LONG,
    ),
    _gauge("runs_active", "Runs that are not terminal.", "status"),
    _gauge("run_oldest_seconds", "Age of the oldest run in a status.", "status"),
    _gauge("runs_overdue", "Runs that are open 120 s after their deadline."),
    _counter("run_transitions_total", "Status changes.", "from", "to"),
    _counter("run_facts_total", "Facts received for runs, by disposition.", "disposition"),
    _counter("run_repairs_total", "Runs that rescue or a timer repaired.", "reason"),
    _counter(
        "cancels_total", "Cancel requests by end: immediate, stopped, stale, forced.", "outcome"
    ),
    _counter("submits_total", "Submissions to an execution backend.", "backend", "outcome"),
    _histogram("stage_seconds", "Time one stage took.", "type", buckets=_LONG),
    _counter("rows_extracted_total", "Rows read from sources.", "connector"),
    _counter("groups_compared_total", "Groups compared over all stages."),
)
_WORKER = (
    _counter(
        "leases_lost_total", "Runs that a worker gave up because it lost the lease.", "reason"
    ),
    _counter("leases_expired_total", "Leases that expired without renewal.", "queue"),
    _counter("stale_epoch_total", "Writes refused because another holder has the lease.", "queue"),
    _histogram("lease_renew_seconds", "Time one renewal of all leases took.", buckets=_FAST),
    _counter("child_exits_total", "Ends of worker children, by exit code or signal.", "code"),
)
_CAPTURES = (
    _counter("queue_claims_total", "Claims of work of captures: leased, or empty.", "result"),
    _histogram("queue_claim_seconds", "Time of one claim.", buckets=_FAST),
    _histogram(
        "capture_job_seconds",
        "Time from the begin of an item of a capture to its reported end.",
        "kind",
        buckets=_LONG,
    ),
    _counter(
        "capture_repeats_total",
        "Requests of capture-workers that were repeated: the database, the store of blobs or a "
        "pointer of the catalogue was busy or away.",
        "cause",
    ),
    _histogram(
        "catalog_gc_seconds", "Time of one collection of a tenant's catalogue.", buckets=_LONG
    ),
    _counter("catalog_gc_scanned_total", "Blobs of the catalogue that collections examined."),
    _counter("catalog_gc_deleted_total", "Blobs that nothing named any more, removed."),
    _counter("catalog_gc_rescued_total", "Blobs that were named again before their removal."),
    _counter("catalog_gc_generations_total", "Superseded and abandoned statistics, removed."),
    _counter(
        "catalog_gc_failed_owners_total",
        "Tables and other owners that could not be read completely, so nothing of them was "
        "removed; `datarecs catalog verify` names what is damaged.",
    ),
)
_SINKS = (
    _counter(
        "sink_commits_total",
        "Commit cycles of sinks: full, partial (some partition had no vote in time), or failed "
        "(some table did not take it).",
        "outcome",
    ),
    _histogram(
        "sink_commit_seconds",
        "Time from the begin of a cycle until every table had it.",
        buckets=_LONG,
    ),
    _counter("sink_records_total", "Records of completed cycles, each table counted."),
    _counter("sink_dead_letters_total", "Records that went to topics of dead letters."),
    _counter("sink_votes_refused_total", "Votes of tasks that were refused and read again."),
    _counter("sink_unrouted_total", "Records that the route of their sink gives to no table."),
    _counter("sink_tombstones_total", "Records without a value, and deletes without a table."),
    _counter("sink_fields_dropped_total", "Values of fields that their table has no column for."),
    _gauge(
        "sink_tasks",
        "Tasks of sinks. Of this process: running; stalled, for five commit intervals without a "
        "commit of what was read, or hindered by an error. Of all tenants: halted, until a person "
        "acts; every process of iceberg-sink counts the same ones.",
        "state",
    ),
    _gauge(
        "sink_lag_messages", "Records of topics that are not committed, of tasks of this process."
    ),
    _gauge(
        "sink_oldest_uncommitted_seconds",
        "Time since the oldest record that is not committed was seen, of tasks of this process.",
    ),
)
_DELIVERY = (
    _gauge("outbox_unsent", "Outbox rows that are not sent yet, in all shards."),
    _gauge("outbox_oldest_unsent_seconds", "Age of the oldest unsent outbox row."),
    _histogram("outbox_publish_seconds", "From commit to the broker's ack.", buckets=_FAST),
    _counter("outbox_published_total", "Outbox rows by outcome.", "topic", "outcome"),
    _gauge("outbox_parked", "Outbox rows that the broker refuses for good."),
    _counter("inbox_duplicates_total", "Events that were handled before.", "group"),
    _gauge("consumer_lag_records", "Records a group has not read yet.", "group", "topic"),
    _histogram(
        "consumer_handle_seconds",
        "Time to handle one record, transaction included.",
        "group",
        "type",
        "outcome",
        buckets=_FAST,
    ),
    _gauge("consumer_paused_partitions", "Partitions that wait after a failure.", "group"),
    _counter("kafka_unreadable_total", "Records that cannot be parsed.", "group", "topic"),
    _gauge("partition_default_rows", "Rows that fell into a DEFAULT partition.", "table"),
    _counter("codec_refused_total", "Records the codec refused.", "group", "reason"),
    _counter("codec_notes_total", "Records skipped, or accepted with a remark.", "group", "note"),
    _counter("dlq_total", "Records stored as dead letters.", "group", "reason"),
    _gauge("dlq_depth", "Dead letters that wait for a re-drive.", "group"),
    _counter("tenant_mismatch_total", "Events whose tenant contradicts their payload."),
    _counter(
        "offset_gaps_total", "Committed offsets older than the topic's first record.", "group"
    ),
    _gauge("feed_connections", "Open live views.", "kind"),
    _gauge("feed_lag_seconds", "How far live views are behind the commit."),
    _gauge("watch_lag_seconds", "How far watches of declared objects are behind the commit."),
)
_WEBHOOK = (
    _counter("webhook_attempts_total", "Attempts by outcome.", "outcome"),
    _histogram("webhook_attempt_seconds", "Time one attempt took.", buckets=_LONG),
    _counter("webhook_deliveries_total", "Deliveries that ended.", "state", "reason"),
    _gauge("webhook_in_flight", "Attempts that are on the wire now."),
    _gauge("webhook_egress_suspect", "1 while most endpoints fail for a network reason."),
    _gauge("webhook_actions_open", "Actions of users that are not expanded yet."),
    _counter("webhook_fanout_total", "Deliveries created by fan-out."),
    _counter(
        "webhook_order_gaps_total",
        "Events of a run sent after 30 s without an earlier event that is missing.",
    ),
    _counter("webhook_late_results_total", "Results that arrived after the lease was lost."),
    _counter("egress_blocked_total", "Connections refused by the address table.", "class"),
)
_MAIL = (
    _counter("emails_total", "Mails that ended, by outcome.", "outcome"),
    _counter("mail_attempts_total", "SMTP attempts by class of the reply.", "class"),
    _counter("mail_skipped_total", "Mails not sent on purpose.", "reason"),
    _histogram(
        "mail_finalised_to_accepted_seconds",
        "From the run's end to the relay's acceptance.",
        buckets=_LONG,
    ),
    _counter("mail_unknown_total", "Mails that the relay may or may not have accepted."),
    _gauge("mail_transport_paused", "1 while sending pauses after a fault of the relay."),
)
_SCHEDULES = (
    _counter(
        "schedule_ticks_total", "Times of schedules that were decided, by outcome.", "outcome"
    ),
    _histogram(
        "schedule_start_delay_seconds",
        "From the time of a schedule to the trigger of its run, its jitter included.",
        buckets=_LONG,
    ),
)
_SCHEDULER = (
    _counter("scheduler_ticks_total", "Passes of the loops that act when a time comes.", "phase"),
    _counter("scheduler_processed_total", "Objects and runs that these passes acted on.", "phase"),
    _histogram("scheduler_tick_seconds", "Time of one of these passes.", "phase", buckets=_FAST),
)
_WATCHING = (
    _counter("watch_polls_total", "Reads of the feed of declared objects for watches."),
    _counter("watch_changes_total", "Changes of declared objects that were read for watches."),
    _histogram("watch_poll_seconds", "Time of one of these reads.", buckets=_FAST),
    _counter(
        "cache_reads_total",
        "Reads of stored declarations: decoded before (yes) or not (no).",
        "hit",
    ),
)
_RETENTION = (
    _counter("cleanup_total", "Objects that retention policies removed.", "what"),
    _counter("retention_sweeps_total", "Sweeps of retention policies that ended."),
)
_CHECKS = (
    _counter(
        "resource_checks_total",
        "Checks of connections and jobs, by kind and by the cause of the first failed step; NONE: "
        "every step succeeded.",
        "kind",
        "cause",
    ),
)
_RECONCILING = (
    _counter("reconcile_total", "Reconciles of objects, by how they ended.", "kind", "result"),
    _histogram("reconcile_seconds", "Time of one reconcile.", "kind", buckets=_LONG),
    _gauge("reconcile_queue_depth", "Objects that are due for their controller.", "kind"),
    _gauge("reconcile_oldest_due_seconds", "Time since the oldest of them is due.", "kind"),
)
_PROCESS = (
    _gauge("loop_alive", "1 while a loop's thread runs.", "loop"),
    _counter("http_requests_total", "Requests answered by core-api.", "route", "method", "status"),
    _histogram("http_request_seconds", "Time to answer a request.", "route", buckets=_FAST),
    _counter("auth_failures_total", "Requests without a valid credential.", "reason"),
    _counter("http_connections_dropped_total", "Connections that core-api cut.", "reason"),
)

CATALOGUE: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for family in (
            *(
                _RUNS,
                _WORKER,
                _CAPTURES,
                _DELIVERY,
                _WEBHOOK,
                _MAIL,
                _SCHEDULES,
                _CHECKS,
                _RETENTION,
                _SINKS,
            ),
            *(_RECONCILING, _SCHEDULER, _WATCHING, _PROCESS),
        )
        for metric in family
    }
)
"""Every metric by its name without the prefix."""


class UnknownMetricError(LookupError):
    """Code names a metric, or labels, that the catalogue does not have; a defect."""

    def __init__(self, name: str, *, labels: tuple[str, ...], known: Metric | None) -> None:
        wanted = f"{name}{{{','.join(labels)}}}"
        has = f"; it has labels {', '.join(known.labels) or 'none'}" if known else ""
        super().__init__(f"the catalogue has no metric {wanted}{has}")
        self.name = name


def metric(name: str, kind: MetricKind, labels: Mapping[str, str]) -> Metric:
    """The entry of a call.

    Raises:
        UnknownMetricError: no such name, another kind, or not exactly its labels.
    """
    known = CATALOGUE.get(name)
    if known is None or known.kind is not kind or set(known.labels) != set(labels):
        raise UnknownMetricError(name, labels=tuple(labels), known=known)
    return known
