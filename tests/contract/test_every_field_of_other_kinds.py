"""A field of every kind but jobs has an effect.

The effect is what core or an adapter decides by it: what is dialled, started, sent, matched, tried
again or mailed. The fields come from the published schemas, so one without a probe fails here.
"""

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import psycopg
import pytest

from datarecs_application.webhook_requests import Prepared, RequestMaker
from datarecs_application.webhooks import Leased
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.captures.declared import Capture, LastCapture, is_due
from datarecs_core.captures.items import CaptureJobId, WorkState
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.notifications.evaluation import (
    Audience,
    RunFacts,
    StoredRule,
    evaluate_rules,
)
from datarecs_core.notifications.rule import NotificationRule
from datarecs_core.resources.connection import Connection, ConnectionType
from datarecs_core.resources.resource import Kind
from datarecs_core.retention.policy import Target
from datarecs_core.runs.model import RunMode
from datarecs_core.scheduling.firing import Due, fire
from datarecs_core.scheduling.schedule import Schedule
from datarecs_core.sink.changes import RecordChanges
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.cycle import Cycle, Timetable
from datarecs_core.sink.definition import SinkTable
from datarecs_core.sink.dynamic import NamedTables
from datarecs_core.sink.routing import router
from datarecs_core.values import JobId, ResourceUid, RunId
from datarecs_core.webhooks.delivery import Ended, decide_delivery, lease
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_core.webhooks.health import EndpointState
from datarecs_core.webhooks.matching import (
    RESULT,
    EndpointFacts,
    EventFacts,
    JobFacts,
    match_endpoint,
)
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_core.webhooks.overflow import check_overflow
from datarecs_core.webhooks.signature import new_secret, secret_context
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_specs.cron_times import CronTimes
from datarecs_specs.documents import InvalidSpecError, decode_json
from datarecs_testing.builders import A_TENANT, NOON, an_id
from datarecs_testing.certificates import an_authority
from datarecs_testing.deliveries import FINALISED, a_delivery, a_message
from datarecs_testing.fields.documents import ABSENT, Json, jobs_of, put
from datarecs_testing.fields.documents import Probe as JobProbe
from datarecs_testing.fields.observing import observed
from datarecs_testing.fields.schema_fields import fields_of
from datarecs_testing.fields.tiny_sources import write_lake, write_sources

ROOT = Path(__file__).parents[2]
KINDS = tuple(kind for kind in Kind if kind is not Kind.RECONCILIATION_JOB)
FIELDS = [
    (kind, one.path)
    for kind in KINDS
    for one in fields_of(kind)
    if not one.is_fixed and not one.path.startswith(("metadata.", "apiVersion", "kind"))
]
"""Metadata acts as in jobs, where `test_every_field_of_a_job` asserts it."""
SECRET = new_secret(bytes(32))
_PREFIX = f"DATARECS_CONN_{A_TENANT.hex.upper()}_"
ENVIRONMENT = {
    f"{_PREFIX}{name}": value
    for name, value in {
        "A": SECRET,
        "B": new_secret(b"b" * 32),
        "URL": "https://a.test/x",
        "OTHER_URL": "https://b.test/x",
    }.items()
}
_USES: dict[str, tuple[str, ...]] = {
    f"env:{name}": ("url",) if name.endswith("URL") else ("webhook:a.test", "signing:a.test")
    for name in ENVIRONMENT
}
_A, _B = f"env:{_PREFIX}A", f"env:{_PREFIX}B"


def spec_of(kind: Kind, spec: Json) -> Any:  # noqa: ANN401  of whichever kind
    """The typed spec; raises InvalidSpecError."""
    document = {"apiVersion": "datarecs.io/v1", "kind": kind, "metadata": {"name": "probe"}}
    return decode_json({**document, "spec": spec}).require()[1]


# What a webhook endpoint decides.


def sent(endpoint: WebhookEndpoint) -> object:
    """The request that an attempt makes."""
    secrets = TenantSecrets(
        Secrets(uses=_USES), keyring=Keyring({"k": bytes(32)}, current="k"), environment=ENVIRONMENT
    )
    delivery = replace(_DELIVERY, endpoint_uid=_UID)
    sealed = secrets.seal(SECRET.encode(), context=secret_context(A_TENANT, _UID, "k1"))
    maker = RequestMaker(
        secrets=secrets,
        user_agent="x",
        child_trace=lambda _: f"00-{'a' * 32}-b",
        base_url="https://recs.example.com",
    )
    made = maker.prepare(
        Leased(
            delivery=delivery,
            message=a_message(delivery.event_id),
            spec=endpoint,
            generation=1,
            secrets=(("k1", sealed),),
            leased_at=NOON,
        ),
        since_lease=timedelta(),
    )
    assert isinstance(made, Prepared)
    return made.request.url, made.request.headers, made.request.body, made.request.timeout


_UID = ResourceUid(an_id())
_DELIVERY = a_delivery()


def matched(endpoint: WebhookEndpoint) -> object:
    facts = EndpointFacts(uid=_UID, created_at=NOON, spec=endpoint)
    types = (FINALISED, "io.datarecs.webhook.delivery.dead_lettered")
    ledger = JobFacts(name="a", labels={"team": "finance"})
    return [
        match_endpoint(
            facts,
            EventFacts(
                type=one,
                time=NOON,
                attributes={"type": one, "subject": "run/7"},
                values={RESULT: "UNMATCHED"},
                job=ledger,
            ),
        )
        for one in types
    ]


def tried_again(endpoint: WebhookEndpoint) -> object:
    leased = lease(_DELIVERY, owner="w", now=NOON)
    fact = Ended(lease_epoch=leased.lease_epoch, end=AttemptEnd(outcome=Outcome.HTTP_5XX), u=0.5)
    return decide_delivery(leased, fact, retry=endpoint.retry, now=NOON).state.due_at


def overflows(endpoint: WebhookEndpoint) -> object:
    state = EndpointState(tenant_id=A_TENANT, endpoint_uid=_UID, pending=1_000)
    return check_overflow(state, max_pending=endpoint.limits.max_pending, now=NOON).is_overflowing


# What a rule decides.


def mailed(rule: NotificationRule) -> object:
    """Mails of some runs of two jobs, one after the other."""
    stored = StoredRule(uid=_UID, name="r", spec=rule)
    states: dict[ResourceUid, Any] = {}
    decisions = []
    jobs = {name: JobId(an_id()) for name in ("a", "b")}
    for number, (job, outcome, mode) in enumerate(_RUNS):
        run = RunFacts(
            tenant_id=A_TENANT,
            run_id=_RUN_IDS[number],
            job_id=jobs[job],
            job_name=job,
            mode=mode,
            outcome=outcome,
            finalised_at=NOON + timedelta(minutes=number),
            detail_code="CONNECTION_LOST" if outcome.startswith("ERRORED") else None,
        )
        known = {uid: one for uid, one in states.items() if one.job_id == run.job_id}
        result = evaluate_rules(
            [stored], run, known, audience=Audience(domains={"example.com"}), now=run.finalised_at
        )
        states |= {one.rule_uid: one for one in result.states}
        decisions.append(
            [(one.address, one.kind, one.detail, one.skipped, one.due_at) for one in result.intents]
        )
    return decisions


_RUNS = (
    ("a", "UNMATCHED", RunMode.IMMEDIATE),
    ("a", "UNMATCHED", RunMode.IMMEDIATE),
    ("a", "MATCHED", RunMode.IMMEDIATE),
    ("b", "UNMATCHED", RunMode.SCHEDULED),
    ("b", "ERRORED:QUERY_FAILED", RunMode.SCHEDULED),
)
_RUN_IDS = [RunId(an_id()) for _ in _RUNS]


# What a schedule decides.


def started(schedule: Schedule) -> object:
    """What three missed hours become, without and with a run that is not over."""
    decisions = []
    for active_runs in (0, 1):
        due = Due(
            uid=_UID,
            schedule=schedule,
            created_at=NOON - timedelta(days=1),
            last_fire_time=NOON - timedelta(hours=3),
            active_runs=active_runs,
            was_suspended=False,
        )
        decisions.append(fire(due, CronTimes(), now=NOON + timedelta(minutes=5)))
    return decisions


# What a connection decides.


def dialled(connection: Connection) -> object:
    """The requests to the driver of PostgreSQL."""
    calls: list[Mapping[str, object]] = []

    def refuse(**arguments: object) -> None:
        calls.append(arguments)
        raise psycopg.OperationalError("nobody listens")

    kind = SourceKind.ICEBERG if _is_catalog(connection) else SourceKind.POSTGRES
    source = Source(name="s", kind=kind, relation="a.t")
    policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
    around = Surroundings(roots=(), policy=policy, now=lambda: NOON)
    secrets = {"password": connection.auth.get("password", "")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", lambda host, port, **_: [(0, 0, 0, "", (host, port))])
        opened = open_connector(source, connection, secrets, surroundings=around)
        with pytest.raises(DatarecsError):
            opened.pin(source)
    return [
        {name: one for name, one in arguments.items() if name != "password"} for arguments in calls
    ], ([arguments.get("password") for arguments in calls])


def _is_catalog(connection: Connection) -> bool:
    return connection.type is ConnectionType.ICEBERG


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> object:
    made = tmp_path_factory.mktemp("sources")
    with ExitStack() as closing:
        write_sources(made)
        write_lake(made, closing)
        yield made


# What a declared capture starts.


def captured(capture: Capture) -> object:
    """The request of its job, and whether another one is due ten minutes after the first."""
    connection = ResourceUid(uuid5(NAMESPACE_DNS, capture.connection))
    last = LastCapture(
        job_id=CaptureJobId(_UID),
        state=WorkState.SUCCEEDED,
        generation=1,
        reconcile_at="",
        requested_at=NOON,
    )
    now = NOON + timedelta(minutes=10)
    again = is_due(capture, last, generation=1, reconcile_at="", now=now)
    return capture.request(connection), again


# What a sink decides.


def landed(sink: SinkTable) -> object:
    """The tables of some records."""
    route = router(sink.route, sink.tables)
    values = [{"a": one, "b": other} for one in ("x1", "x2", "y") for other in ("x1", "z")]
    return [[sink.tables[index] for index in route(value)] for value in values]


def named(sink: SinkTable) -> object:
    """The tables that a record names."""
    rule = sink.dynamic
    if rule is None:
        raise TypeError("the records of this sink name no table")
    tables = NamedTables(rule)
    return tables.targets[tables.number("Topic", {"a": "One", "b": "two"})]


def committed(sink: SinkTable) -> object:
    """Whether a cycle is due after two minutes, and whether it still waits after ten seconds."""
    timetable = Timetable(interval=sink.commit.interval, requests=0, last_start=0)
    partitions = frozenset({SourcePartition(topic="a", number=0)})
    cycle = Cycle(commit_id=uuid5(NAMESPACE_DNS, "c"), started=0, partitions=partitions)
    return timetable.is_due(120), cycle.end(now=10, timeout=sink.commit.timeout)


def replaced(sink: SinkTable) -> object:
    """What some records do to the rows of their keys."""
    changes = RecordChanges.of(sink)

    def outcome(value: Mapping[str, object]) -> object:
        try:
            return changes.change(value)
        except BadRecordError as error:
            return error.path

    values = [{"op": text} for text in ("i", "u", "d", "x", "y")]
    return [*map(outcome, values), changes.deletes_by_tombstone]


Effect = Callable[[Any], object]
_URL: Json = {"url": "https://a.test/hook"}
_SEVEN, _EIGHT = {"subject": "run/7"}, {"subject": "run/8"}


def _passing(dialect: str, body: object) -> Json:
    """An endpoint whose expression takes the event of `matched`."""
    return {**_URL, "filter": {"dialects": [{dialect: body}]}}


_PG: Json = {
    "type": "postgres",
    "config": {"host": "127.0.0.1", "database": "d", "user": "u", "sslmode": "disable"},
}
_TO: Json = {"to": [{"address": "a@example.com"}]}
_MUTED: Json = {**_TO, "mutes": [{"until": "2030-01-01T00:00:00Z"}]}
_QUIET: Json = {**_TO, "quiet_hours": {"periods": [{"from": "11:00", "to": "18:00"}]}}
_COLLECTED: Json = {**_TO, "digest": {"at": ["18:00"]}}
_OFTEN: Json = {"job": "a", "cron": "*/10 * * * *"}
_ALL_MISSED: Json = {**_OFTEN, "catchup": "all", "concurrency_policy": "Allow"}
_CATALOG = "spec<iceberg>.config.catalog<sql>.postgres."
_CATALOGS = "libs/connectors/tests/test_iceberg_catalogs.py"
_STORES = "libs/connectors/tests/test_object_sources.py"
_TOPICS = "libs/connectors/tests/kafka/test_logins.py"
_AVRO = "libs/cli/tests/test_avro_proof.py"
_SINK = "libs/application/tests/sinking/test_declared.py"
_PROOFS = "libs/application/tests/sinking/test_proofs.py"
_SINK_LOG = "libs/kafka/tests/test_sink_log.py"
_SINK_WORKER = "libs/application/tests/sinking/test_sink_worker.py"
_BAD_RECORDS = "libs/application/tests/sinking/test_sink_bad_records.py"
_EVOLVING = "libs/connectors/tests/sinking/test_evolving.py"
_NAME_CASES = "libs/connectors/tests/sinking/test_name_cases.py"
_DYNAMIC = "libs/core/tests/sink/test_dynamic.py"
_CREATED = "libs/connectors/tests/sinking/test_creating.py"
_HEALTH = "libs/core/tests/webhooks/test_health.py"
_RULES = "libs/specs/tests/test_other_kinds.py"
_ORDER = "libs/application/tests/test_webhook_order.py"
_SENDING = "libs/application/tests/test_webhooks.py"
_SCHEDULES = "services/core-api/tests/test_schedules.py"
_RETENTION = "libs/application/tests/test_retention.py"
_SELECTED = "libs/testing/src/datarecs_testing/conformance/retention.py"
_ALERTS = "libs/application/tests/test_webhook_alerts.py"
ENDPOINT_PROBES: Mapping[str, tuple[Json, object, Effect]] = {
    "url": (_URL, "https://b.test/hook", sent),
    "url_from.secret_ref": (
        {"url_from": {"secret_ref": f"env:{_PREFIX}URL"}},
        f"env:{_PREFIX}OTHER_URL",
        sent,
    ),
    "enabled": (_URL, False, matched),
    "filter.types": (_URL, ["none.*"], matched),
    "filter.exclude_types": (_URL, ["**"], matched),
    "filter.operational": (_URL, True, matched),
    "filter.data.jobs": (_URL, ["b"], matched),
    "filter.data.job_selector": (_URL, {"team": "risk"}, matched),
    "filter.data.results": (_URL, ["MATCHED"], matched),
    "filter.data.error_codes": (_URL, ["CRASHED"], matched),
    "filter.dialects[].exact": (_passing("exact", _SEVEN), _EIGHT, matched),
    "filter.dialects[].prefix": (_passing("prefix", _SEVEN), _EIGHT, matched),
    "filter.dialects[].suffix": (_passing("suffix", _SEVEN), _EIGHT, matched),
    "filter.dialects[].all": (_passing("all", [{"exact": _SEVEN}]), [{"exact": _EIGHT}], matched),
    "filter.dialects[].any": (_passing("any", [{"exact": _SEVEN}]), [{"exact": _EIGHT}], matched),
    "filter.dialects[].not": (_passing("not", {"exact": _EIGHT}), {"exact": _SEVEN}, matched),
    "format": (_URL, "standard", sent),
    "signing.mode": ({**_URL, "signing": {"secret_refs": [_B]}}, "reference", sent),
    "signing.secret_refs": (
        {**_URL, "signing": {"mode": "reference", "secret_refs": [_A]}},
        [_B],
        sent,
    ),
    "auth.bearer.secret_ref": ({**_URL, "auth": {"bearer": {"secret_ref": _A}}}, _B, sent),
    "headers.*.secret_ref": ({**_URL, "headers": {"X-Key": {"secret_ref": _A}}}, _B, sent),
    "validation": (_URL, "handshake", sent),
    "timeout": (_URL, "PT3S", sent),
    "retry.delays": (_URL, ["PT1H"], tried_again),
    "limits.max_pending": (_URL, 1_000, overflows),
}
RULE_PROBES: Mapping[str, tuple[Json, object, Effect]] = {
    "enabled": (_TO, False, mailed),
    "match.jobs": (_TO, ["b"], mailed),
    "match.triggers": (_TO, ["SCHEDULED"], mailed),
    "match.outcomes": (_TO, ["ERRORED"], mailed),
    "notify": (_TO, "every_run", mailed),
    "recovery": (_TO, False, mailed),
    "to[].address": (_TO, "b@example.com", mailed),
    "detail": (_TO, "minimal", mailed),
    "match.job_selector": (_TO, {"team": "finance"}, mailed),
    "match.detail_codes": (_TO, ["TABLE_NOT_FOUND"], mailed),
    "remind_after": (_TO, "PT1M", mailed),
    "after_consecutive": (_TO, 2, mailed),
    "mutes[].jobs": (_MUTED, ["b"], mailed),
    "mutes[].until": (_MUTED, "2020-01-01T00:00:00Z", mailed),
    "quiet_hours.periods[].days": (_QUIET, ["SUN"], mailed),
    "quiet_hours.periods[].from": (_QUIET, "13:00", mailed),
    "quiet_hours.periods[].to": (_QUIET, "19:00", mailed),
    "quiet_hours.timezone": (_QUIET, "Asia/Tokyo", mailed),
    "quiet_hours.except": (_QUIET, ["UNMATCHED"], mailed),
    "quiet_hours.behaviour": (_QUIET, "skip", mailed),
    "digest.at": (_COLLECTED, ["19:00"], mailed),
    "digest.days": (_COLLECTED, ["SUN"], mailed),
    "digest.timezone": (_COLLECTED, "Asia/Tokyo", mailed),
}
SCHEDULE_PROBES: Mapping[str, tuple[Json, object, Effect]] = {
    "cron": (_OFTEN, "0 * * * *", started),
    "interval": ({"job": "a", "interval": "PT10M"}, "PT20M", started),
    "timezone": ({"job": "a", "cron": "30 2 * * *"}, "Asia/Tokyo", started),
    "start_at": (_OFTEN, "2030-01-01T00:00:00Z", started),
    "end_at": (_OFTEN, (NOON - timedelta(hours=1)).isoformat(), started),
    "suspend": (_OFTEN, True, started),
    "concurrency_policy": (_OFTEN, "Allow", started),
    "catchup": (_OFTEN, "none", started),
    "max_catchup": (_ALL_MISSED, 2, started),
    "catchup_window": ({**_ALL_MISSED, "max_catchup": 100}, "PT1H", started),
    "starting_deadline": (_OFTEN, "PT1M", started),
    "jitter": (_OFTEN, "PT5M", started),
}
_CAPTURE: Json = {
    "connection": "lake",
    "mode": "METADATA_AND_CAPTURE",
    "outputs": ["TABLE_STATS", "COLUMN_STATS"],
    "snapshots": {"select": "CURRENT"},
    "interval": "PT1H",
}
_OF_TABLE: Json = {**_CAPTURE, "scope": {"tables": [{"namespace": "default", "name": "a"}]}}
_OF_VIEW: Json = {
    "connection": "lake",
    "mode": "METADATA_ONLY",
    "scope": {"view": {"namespace": "default", "name": "a"}},
}
_FIRST: Json = {**_CAPTURE, "columns": {"choice": "FIRST_N", "first": 3}}
_NAMED: Json = {**_CAPTURE, "columns": {"choice": "EXPLICIT_ONLY", "names": ["a"]}}
_LATEST: Json = {**_CAPTURE, "snapshots": {"select": "LATEST_N", "latest": 2}}
_BY_ID: Json = {**_CAPTURE, "snapshots": {"select": "EXPLICIT", "ids": ["1"]}}
CAPTURE_PROBES: Mapping[str, tuple[Json, object, Effect]] = {
    "connection": (_CAPTURE, "pond", captured),
    "mode": (_OF_TABLE, "CAPTURE_ONLY", captured),
    "full_rescan": (_CAPTURE, True, captured),
    "scope.namespaces": (_CAPTURE, ["default"], captured),
    "scope.tables[].namespace": (_OF_TABLE, "other", captured),
    "scope.tables[].name": (_OF_TABLE, "b", captured),
    "scope.view.namespace": (_OF_VIEW, "other", captured),
    "scope.view.name": (_OF_VIEW, "b", captured),
    "outputs": (_CAPTURE, ["COLUMN_STATS"], captured),
    "columns.choice": (_CAPTURE, "ALL", captured),
    "columns.first": (_FIRST, 4, captured),
    "columns.names": (_NAMED, ["b"], captured),
    "snapshots.select": (_CAPTURE, "ALL", captured),
    "snapshots.latest": (_LATEST, 3, captured),
    "snapshots.ids": (_BY_ID, ["2"], captured),
    "execution.class": (_CAPTURE, "BATCH", captured),
    "execution.lane": (_CAPTURE, "fast", captured),
    "interval": (_CAPTURE, "PT10M", captured),
}
_LANDING: Json = {
    "connection": "kafka",
    "topics": ["a"],
    "tables": [
        {"catalog": "lake", "namespace": "s", "name": "one"},
        {"catalog": "lake", "namespace": "s", "name": "two"},
    ],
}
_SHORT: Json = {**_LANDING, "table": _LANDING["tables"][0]}
del _SHORT["tables"]
_ROUTED: Json = {
    **_LANDING,
    "route": {"field": "a"},
    "tables": [{**one, "route": {"equals": "x1"}} for one in _LANDING["tables"]],
}
_ROUTED_SHORT: Json = {**_SHORT, "route": {"field": "a"}}
_ROUTED_SHORT["table"] = _ROUTED["tables"][0]
_UPSERT: Json = {**_LANDING, "mode": "upsert", "tombstones": "delete"}
_BY_TOPIC: Json = {
    "connection": "kafka",
    "topics": ["a"],
    "dynamic": {"catalog": "lake", "namespace": "s", "from": "topic"},
}
_BY_FIELD: Json = {**_BY_TOPIC, "dynamic": {**_BY_TOPIC["dynamic"], "from": {"field": "a"}}}
_CDC: Json = {**_LANDING, "mode": "cdc", "cdc": {"field": "op"}}
SINK_PROBES: Mapping[str, tuple[Json, object, Effect]] = {
    **{
        f"{table}.{name}": (spec, "other", landed)
        for table, spec in (("tables[]", _LANDING), ("table", _SHORT))
        for name in ("catalog", "namespace", "name")
    },
    **{
        f"{table}.route.{rule}": (spec, value, landed)
        for table, spec in (("tables[]", _ROUTED), ("table", _ROUTED_SHORT))
        for rule, value in (("equals", "x2"), ("in", ["x2"]), ("prefix", "x"))
    },
    "route.field": (_ROUTED, "b", landed),
    "commit.interval": (_LANDING, "PT1M", committed),
    "commit.timeout": (_LANDING, "PT9S", committed),
    "mode": (_LANDING, "upsert", replaced),
    "cdc.field": (_CDC, "other", replaced),
    "cdc.map": (_CDC, {"x": "insert", "y": "delete"}, replaced),
    "tombstones": (_UPSERT, "ignore", replaced),
    "dynamic.catalog": (_BY_TOPIC, "other", named),
    "dynamic.namespace": (_BY_TOPIC, "other", named),
    "dynamic.from.field": (_BY_FIELD, "b", named),
    "dynamic.lower_case": (_BY_TOPIC, False, named),
}
POSTGRES_PROBES: Mapping[str, object] = {
    "config.host": "127.0.0.2",
    "config.port": 5433,
    "config.database": "other",
    "config.user": "other",
    "config.sslmode": "prefer",
    "config.ca": an_authority().pem,
    "auth.password": "env:OTHER",
}
FILE_PROBES: Mapping[str, tuple[str, str, object]] = {
    "spec<files>.config.root": ("here", "config.root", "more"),
    "spec<iceberg>.config.catalog<sql>.name": ("lake", "config.catalog.name", "pond"),
    "spec<iceberg>.config.catalog<sql>.sqlite": ("lake", "config.catalog.sqlite", "lake/no.db"),
    "spec<iceberg>.config.catalog<hadoop>.warehouse": (
        "lake",
        "config.catalog",
        {"type": "hadoop", "warehouse": "lake/lake"},
    ),
}
"""Connection of the tiny jobs, field and value."""
SHOWN_ELSEWHERE: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("spec<iceberg>.config.catalog<rest>", _CATALOGS, ("uri", "warehouse", "token_uri", "scope")),
    ("spec<iceberg>.auth", _CATALOGS, ("password", "token", "credential")),
    ("spec<iceberg>.config.store", _STORES, ("url", "endpoint", "region", "ca")),
    ("spec<iceberg>.auth", _STORES, ("credentials",)),
    ("spec<object_store>.config", _STORES, ("url", "endpoint", "region", "ca")),
    ("spec<object_store>.auth", _STORES, ("credentials",)),
    (
        "spec<kafka>.config",
        _TOPICS,
        ("brokers", "security", "mechanism", "user", "ca", "transport"),
    ),
    ("spec<kafka>.auth", _TOPICS, ("password",)),
    ("spec<kafka>.config.registry", _AVRO, ("url", "username")),
    ("spec<kafka>.auth", _AVRO, ("registry_password",)),
    ("spec.decode", _AVRO, ("value",)),
    ("spec", _SINK, ("connection", "tasks")),
    ("spec", _SINK_LOG, ("topics",)),
    ("spec", _CREATED, ("auto_create", "id_columns", "partition_by", "metadata_columns")),
    ("spec", _EVOLVING, ("evolve",)),
    ("spec", _NAME_CASES, ("case_insensitive",)),
    ("spec.dynamic", _DYNAMIC, ("max_tables",)),
    ("spec", _PROOFS, ("verify",)),
    ("spec.errors", _BAD_RECORDS, ("tolerance", "max_in_a_row", "max_per_thousand")),
    ("spec.files", _SINK_WORKER, ("memory",)),
    ("spec.start", _SINK_WORKER, ("timestamp",)),
    ("spec.retry", _SENDING, ("max_age",)),
    ("spec.auto_disable", _SENDING, ("enabled", "after")),
    ("spec.mutes[]", _RULES, ("reason",)),
    ("spec.limits", _HEALTH, ("rate_per_minute", "max_concurrent")),
    ("spec", _ORDER, ("ordering", "max_block", "coalesce")),
    ("spec", _ALERTS, ("alert_emails",)),
    ("spec", _SCHEDULES, ("job",)),
    ("spec", _RETENTION, ("sweep_interval", "dry_run")),
    ("spec", _SELECTED, ("deleted_jobs", "job_labels")),
    *((f"spec.targets.{name}", _RETENTION, ("ttl",)) for name in Target),
    *((f"spec.targets.{name}", _SELECTED, ("keep_last",)) for name in ("runs", "differences")),
)
"""Fields that a server or several deliveries show, with the file of the tests that set them."""
_ELSEWHERE = {f"{start}.{name}": file for start, file, names in SHOWN_ELSEWHERE for name in names}


def test_every_field_has_a_probe() -> None:
    probed = {
        *(f"spec.{name}" for name in (*ENDPOINT_PROBES, *RULE_PROBES, *SCHEDULE_PROBES)),
        *(f"spec.{name}" for name in (*CAPTURE_PROBES, *SINK_PROBES)),
        *(f"spec<postgres>.{name}" for name in (*POSTGRES_PROBES, "config.transport")),
        *(
            place.replace("config.", _CATALOG)
            for place in (*POSTGRES_PROBES, "config.transport")
            if place.startswith("config.")
        ),
        *FILE_PROBES,
        *_ELSEWHERE,
        "spec<files>.auth",
    }
    declared = {path for _, path in FIELDS}
    print(f"{len(declared)} fields")  # noqa: T201  the count that was requested
    assert declared == probed


@pytest.mark.parametrize("name", ENDPOINT_PROBES)
def test_a_field_of_an_endpoint_changes_what_is_sent(name: str) -> None:
    spec, value, effect = ENDPOINT_PROBES[name]
    assert _changed(Kind.WEBHOOK_ENDPOINT, name, spec, value, effect)


@pytest.mark.parametrize("name", RULE_PROBES)
def test_a_field_of_a_rule_changes_who_is_mailed(name: str) -> None:
    spec, value, effect = RULE_PROBES[name]
    assert _changed(Kind.NOTIFICATION_RULE, name, spec, value, effect)


@pytest.mark.parametrize("name", SCHEDULE_PROBES)
def test_a_field_of_a_schedule_changes_what_starts(name: str) -> None:
    spec, value, effect = SCHEDULE_PROBES[name]
    assert _changed(Kind.SCHEDULE, name, spec, value, effect)


@pytest.mark.parametrize("name", POSTGRES_PROBES)
def test_a_field_of_a_database_changes_what_is_dialled(name: str) -> None:
    assert _changed(Kind.CONNECTION, name, _PG, POSTGRES_PROBES[name], dialled)
    in_catalog = name.replace("config.", "config.catalog.postgres.")
    catalog = {"type": "sql", "name": "lake", "postgres": _PG["config"]}
    lake = {"type": "iceberg", "config": {"catalog": catalog}}
    assert _changed(Kind.CONNECTION, in_catalog, lake, POSTGRES_PROBES[name], dialled)


@pytest.mark.parametrize("place", ["config", "config.catalog.postgres"])
def test_the_transport_of_a_database_allows_what_is_refused_without_it(place: str) -> None:
    config = {**_PG["config"], "host": "db.example.com"}
    spec: Json = {"type": "postgres"}
    if place != "config":
        spec = {"type": "iceberg", "config": {"catalog": {"type": "sql", "name": "lake"}}}
    put(spec, place, config)
    with pytest.raises(InvalidSpecError, match="without encryption"):
        spec_of(Kind.CONNECTION, spec)
    put(spec, f"{place}.transport", "unencrypted-accepted")
    assert isinstance(spec_of(Kind.CONNECTION, spec), Connection)


@pytest.mark.parametrize("name", CAPTURE_PROBES)
def test_a_field_of_a_capture_changes_what_is_captured(name: str) -> None:
    spec, value, effect = CAPTURE_PROBES[name]
    assert _changed(Kind.CAPTURE, name, spec, value, effect)


@pytest.mark.parametrize("name", SINK_PROBES)
def test_a_field_of_a_sink_changes_where_and_when_records_land(name: str) -> None:
    spec, value, effect = SINK_PROBES[name]
    changed = deepcopy(spec)
    rule = name.replace("[]", ".0").rpartition(".")[0]
    if ".route." in name:
        put(changed, rule, {})
    place = name.replace("[]", ".0")
    put(changed, place, value)
    if name == "commit.interval":
        assert effect(spec_of(Kind.SINK_TABLE, spec)) == (False, None)
    assert effect(spec_of(Kind.SINK_TABLE, spec)) != effect(spec_of(Kind.SINK_TABLE, changed))


def _changed(kind: Kind, name: str, spec: Json, value: object, effect: Effect) -> bool:
    other = deepcopy(spec)
    place = name.replace("[]", ".0").replace(".*", ".X-Key")
    put(other, place, value)
    if name == "signing.mode":
        put(spec, "signing.secret_refs", ABSENT)
    return effect(spec_of(kind, spec)) != effect(spec_of(kind, other))


@pytest.mark.parametrize("path", FILE_PROBES)
def test_a_field_of_files_and_catalogs_changes_what_is_read(path: str, folder: Path) -> None:
    name, place, value = FILE_PROBES[path]
    kind = "csv" if name == "here" else "iceberg"
    documents, _ = jobs_of(f"spec.sources[]<{kind}>.name", JobProbe(value="one"))
    changed = deepcopy(documents)
    connection = next(one for one in changed if one["metadata"]["name"] == name)
    put(connection["spec"], place, value)
    before, after = observed(documents, folder), observed(changed, folder)
    assert before.result
    assert not after.faults
    assert (after.result, after.error) != (before.result, before.error)


def test_files_take_no_secret() -> None:
    spec = {"type": "files", "config": {"root": "x"}, "auth": {"password": "env:X"}}
    document = {"apiVersion": "datarecs.io/v1", "kind": "Connection", "metadata": {"name": "x"}}
    (fault,) = decode_json({**document, "spec": spec}).faults
    assert fault.pointer == "/spec/auth/password"


@pytest.mark.parametrize("path", sorted(_ELSEWHERE))
def test_a_field_that_needs_a_server_has_a_test_that_sets_it(path: str) -> None:
    name = path.rpartition(".")[2]
    assert re.search(rf"\b{name}\b", (ROOT / _ELSEWHERE[path]).read_text(encoding="utf-8"))
