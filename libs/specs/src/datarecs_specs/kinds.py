"""The table of kinds: which spec class, which shape, which rules, which path in REST.

A new kind is one entry here; decoding, canonical form, hash, JSON Schema and CLI follow from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from datarecs_core.captures.declared import Capture
from datarecs_core.errors.faults import is_gap
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.jobs.effects import faults_without_effect
from datarecs_core.jobs.spec_hash import spec_hash as job_hash
from datarecs_core.jobs.validation import job_faults
from datarecs_core.notifications.rule import NotificationRule
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import Kind
from datarecs_core.retention.policy import RetentionPolicy
from datarecs_core.scheduling.schedule import Schedule
from datarecs_core.sink.definition import SinkTable
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_specs.capture_shape import DECLARED_CAPTURE, capture_meaning
from datarecs_specs.connection_shape import CONNECTION
from datarecs_specs.job_shape import JOB
from datarecs_specs.notice_shapes import ENDPOINT, endpoint_meaning
from datarecs_specs.reading import Reading, Shape
from datarecs_specs.retention_shapes import RETENTION
from datarecs_specs.rule_shapes import RULE, rule_meaning
from datarecs_specs.schedule_shapes import SCHEDULE, schedule_meaning
from datarecs_specs.sink_shape import SINK_TABLE, sink_meaning
from datarecs_specs.sql import sql_faults

Spec = (
    ReconciliationJob
    | Connection
    | Schedule
    | WebhookEndpoint
    | NotificationRule
    | RetentionPolicy
    | Capture
    | SinkTable
)
Meaning = Callable[[object, Reading], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindEntry:
    """The properties of one kind."""

    kind: Kind
    path: str
    """Segment of REST: `/api/v1/<path>`."""
    alias: str
    """Short name of the command line and of `/schemas/<alias>/v1.json`."""
    model: type[Spec]
    shape: Shape
    meaning: Meaning
    """Rules between fields, run on what could be read."""
    order: int
    """Order in `apply`: referenced kinds come first."""

    @property
    def singular(self) -> str:
        """The path of one: `job`, `retention-policy`."""
        if self.path.endswith("ies"):
            return f"{self.path.removesuffix('ies')}y"
        return self.path.removesuffix("s")


def _no_more(spec: object, reading: Reading) -> None:
    """The shape is complete."""


_PARAMETERS = ("spec", "parameters")


def _job_meaning(spec: object, reading: Reading) -> None:
    if isinstance(spec, ReconciliationJob):
        reading.faults.extend(job_faults(spec))
        parameters = {str(at[-1]) for at in reading.spots if at[:-1] == _PARAMETERS}
        reading.faults.extend(sql_faults(spec, parameters))
        reading.faults.extend(faults_without_effect(spec))


KINDS: Mapping[Kind, KindEntry] = {
    entry.kind: entry
    for entry in (
        KindEntry(
            kind=Kind.CONNECTION,
            path="connections",
            alias="conn",
            model=Connection,
            shape=CONNECTION,
            meaning=_no_more,
            order=0,
        ),
        KindEntry(
            kind=Kind.RECONCILIATION_JOB,
            path="jobs",
            alias="job",
            model=ReconciliationJob,
            shape=JOB,
            meaning=_job_meaning,
            order=3,
        ),
        KindEntry(
            kind=Kind.SCHEDULE,
            path="schedules",
            alias="sched",
            model=Schedule,
            shape=SCHEDULE,
            meaning=schedule_meaning,
            order=4,
        ),
        KindEntry(
            kind=Kind.WEBHOOK_ENDPOINT,
            path="webhook-endpoints",
            alias="hook",
            model=WebhookEndpoint,
            shape=ENDPOINT,
            meaning=endpoint_meaning,
            order=5,
        ),
        KindEntry(
            kind=Kind.NOTIFICATION_RULE,
            path="notification-rules",
            alias="rule",
            model=NotificationRule,
            shape=RULE,
            meaning=rule_meaning,
            order=6,
        ),
        KindEntry(
            kind=Kind.RETENTION_POLICY,
            path="retention-policies",
            alias="ret",
            model=RetentionPolicy,
            shape=RETENTION,
            meaning=_no_more,
            order=7,
        ),
        KindEntry(
            kind=Kind.CAPTURE,
            path="captures",
            alias="cap",
            model=Capture,
            shape=DECLARED_CAPTURE,
            meaning=capture_meaning,
            order=2,
        ),
        KindEntry(
            kind=Kind.SINK_TABLE,
            path="sink-tables",
            alias="sink",
            model=SinkTable,
            shape=SINK_TABLE,
            meaning=sink_meaning,
            order=1,
        ),
    )
}


def kind_named(word: str) -> KindEntry | None:
    """The kind meant by its name, path, alias or a singular path, case aside."""
    wanted = word.casefold()
    for entry in KINDS.values():
        names = {entry.kind.casefold(), entry.path, entry.singular, entry.alias}
        if wanted in names:
            return entry
    return None


def shape_for(kind: Kind, name: str) -> Shape:
    """The shape that builds the spec; a job also contains its name."""
    if kind is Kind.RECONCILIATION_JOB:
        return replace(JOB, build=partial(ReconciliationJob, name=name))
    return KINDS[kind].shape


def canonical_spec(kind: Kind, spec: Spec) -> Mapping[str, JsonValue]:
    """The spec as it is stored: aliases resolved, defaults spelled out, decimals as text."""
    return _mapping(KINDS[kind].shape.write(spec, minimal=False))


def spec_hash(kind: Kind, spec: Spec) -> str:
    """`sha256:` of the spec without fields at their default, so a later field changes no hash.

    A job's hash is core's, which also leaves out what changes no number.
    """
    if isinstance(spec, ReconciliationJob):
        return job_hash(spec)
    minimal = _mapping(KINDS[kind].shape.write(spec, minimal=True))
    return f"sha256:{sha256_hex(canonical_json(minimal))}"


def _mapping(value: Any) -> Mapping[str, JsonValue]:  # noqa: ANN401  a JSON value, proven here
    if not isinstance(value, Mapping):
        raise TypeError("a spec is written as a mapping")
    return value


def is_spec(value: object) -> bool:
    """Whether decoding got as far as an object of the kind."""
    return value is not None and not is_gap(value)
