"""What `describe` prints of an object: its conditions in words, and what depends on it.

Separate from the command, which reads; here are the words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from datarecs_cli.client import Api, Json
from datarecs_core.captures.declared import LAST_CAPTURE, NEXT_DUE
from datarecs_core.resources.proven_condition import LAST_PROOFS
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.resources.sink_conditions import StatusField
from datarecs_specs.kinds import KINDS, KindEntry

TICKS = 5
"""Newest times of a schedule that are shown."""
MOST_JOBS = 10_000
"""Jobs that are searched for a connection."""
_METADATA = ("labels", "annotations", "finalizers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An object and what belongs to it."""

    resource: Json
    jobs: Sequence[str] | None = None
    """Jobs that use a connection; None for other kinds."""
    captures: Sequence[str] = ()
    """Captures that use a connection."""
    sinks: Sequence[str] = ()
    """Sinks that read topics or write tables of a connection."""
    history: Json | None = None
    """Of a schedule."""


def read_described(api: Api, entry: KindEntry, name: str, *, namespace: str) -> Described:
    """Read the object, the times of a schedule, the users of a connection."""
    resource = api.get(entry.path, name, namespace=namespace)
    if entry.kind is Kind.SCHEDULE:
        history = api.get(entry.path, name, "history", namespace=namespace, limit=str(TICKS))
        return Described(resource=resource, history=history)
    if entry.kind is Kind.CONNECTION and namespace == DEFAULT_NAMESPACE:
        everywhere = {"namespace": "*"}
        jobs = api.pages(KINDS[Kind.RECONCILIATION_JOB].path, limit=MOST_JOBS, params=everywhere)
        captures = api.pages(KINDS[Kind.CAPTURE].path, limit=MOST_JOBS, params=everywhere)
        sinks = api.pages(KINDS[Kind.SINK_TABLE].path, limit=MOST_JOBS, params=everywhere)
        shown = str(part_of(resource, "metadata").get("name"))
        return Described(
            resource=resource,
            jobs=[_name(one) for one in jobs if _uses(one, shown)],
            captures=[
                _name(one) for one in captures if part_of(one, "spec").get("connection") == shown
            ],
            sinks=[_name(one) for one in sinks if _is_sink_of(one, shown)],
        )
    return Described(resource=resource)


def as_document(described: Described) -> Json:
    """For -o json and yaml."""
    document: dict[str, object] = {"object": described.resource}
    if described.jobs is not None:
        document["jobs"] = list(described.jobs)
        document["captures"] = list(described.captures)
        document["sinks"] = list(described.sinks)
    if described.history is not None:
        document["history"] = described.history
    return document


def lines_of(described: Described) -> Iterator[str]:
    """For people."""
    resource = described.resource
    metadata, status = part_of(resource, "metadata"), part_of(resource, "status")
    yield f"{resource.get('kind')} {metadata.get('name')} in namespace {metadata.get('namespace')}"
    if "phase" in status:
        yield f"  phase       {status['phase']}"
    yield f"  generation  {metadata.get('generation')}{_decided(metadata, status)}"
    yield f"  created     {instant_of(metadata.get('creationTimestamp'))}"
    if metadata.get("deletionTimestamp"):
        yield f"  deleting    since {instant_of(metadata['deletionTimestamp'])}"
    for name in _METADATA:
        if metadata.get(name):
            yield f"  {name:11} {_inline(metadata[name])}"
    yield from _condition_lines(status)
    yield from _capture_lines(status)
    yield from _sink_lines(resource, status)
    yield from _job_lines(described.jobs)
    for what, names in (("captures", described.captures), ("sinks", described.sinks)):
        if names:
            yield f"{what} that use it"
            yield from (f"  {name}" for name in names)
    yield from _history_lines(described.history)


def _decided(metadata: Json, status: Json) -> str:
    """Whether the status is about the current declaration."""
    observed = status.get("observed_generation")
    if not status.get("conditions") or observed == metadata.get("generation"):
        return ""
    return f"; the status is about generation {observed}"


def _condition_lines(status: Json) -> Iterator[str]:
    conditions = status.get("conditions")
    if not isinstance(conditions, list) or not conditions:
        return
    yield "conditions"
    width = max(len(str(one.get("type"))) for one in conditions)
    for one in conditions:
        since = instant_of(one.get("last_transition_time"))
        kind, value = str(one.get("type")), str(one.get("status"))
        yield f"  {kind:{width}}  {value:7}  {one.get('reason')}, since {since}"
        if one.get("message"):
            yield f"  {'':{width}}  {one['message']}"


def _capture_lines(status: Json) -> Iterator[str]:
    """The last job of a Capture and when the next one is due."""
    last = part_of(status, LAST_CAPTURE)
    if last:
        yield f"last capture  {last.get('job_id')}  {last.get('state')}"
        yield f"  requested  {instant_of(last.get('requested_at'))}"
        yield f"  started    {instant_of(last.get('started_at'))}"
        yield f"  finished   {instant_of(last.get('finished_at'))}"
        counters = part_of(last, "counters")
        yield from (f"  {name}  {count}" for name, count in counters.items() if count)
    if NEXT_DUE in status:
        yield f"next capture: {instant_of(status[NEXT_DUE])}"


_LEFT_OUT = {
    StatusField.UNROUTED: "for no table",
    StatusField.DROPPED_FIELDS: "fields left out",
    StatusField.TOMBSTONES: "without value",
}
"""What a sink leaves out, and its words."""


def _sink_lines(resource: Json, status: Json) -> Iterator[str]:
    """The figures of a SinkTable."""
    if resource.get("kind") != Kind.SINK_TABLE or StatusField.LAG not in status:
        return
    running = f"{status.get(StatusField.WORKERS)} of {status.get(StatusField.TASKS)} run"
    yield f"tasks            {running}"
    yield f"records waiting  {status[StatusField.LAG]}"
    yield f"dead letters     {status.get(StatusField.DEAD_LETTERS)}"
    for name, words in _LEFT_OUT.items():
        if status.get(name):
            yield f"{words:16} {status[name]}, since its tasks began"
    yield f"last commit      {instant_of(status.get(StatusField.LAST_COMMIT_AT))}"
    yield f"valid through    {instant_of(status.get(StatusField.VALID_THROUGH))}"
    yield from _proof_lines(status.get(LAST_PROOFS))
    error = part_of(status, StatusField.LAST_ERROR)
    if error:
        yield f"last error       {error.get('code')}: {error.get('message')}"
    decision = part_of(status, StatusField.TABLE_DECISION)
    if decision:
        what = f"{decision.get('records')} for {decision.get('table')} is {decision.get('state')}"
        yield f"decision         {what}: {decision.get('message')}".removesuffix(": ")


def _proof_lines(proofs: object) -> Iterator[str]:
    """The newest run of each job that proves a sink."""
    for one in proofs if isinstance(proofs, list) else ():
        words = f"{one.get('job')} {one.get('result')}, {instant_of(one.get('finished_at'))}"
        yield f"last proof       {words}, run {one.get('run_id')}"


def _job_lines(jobs: Sequence[str] | None) -> Iterator[str]:
    if jobs is None:
        return
    yield "jobs that use it" if jobs else "no job uses it"
    for name in jobs:
        yield f"  {name}"


def _history_lines(history: Json | None) -> Iterator[str]:
    if history is None:
        return
    starts = history.get("next_start_at")
    yield f"next run: {instant_of(starts)}" if starts else "no next run: suspended or ended"
    items = history.get("items")
    ticks = items if isinstance(items, list) else []
    yield "newest times" if ticks else "no times yet"
    for one in ticks:
        ending = one.get("reason") or one.get("run_id") or ""
        yield f"  {times_of(one)}  {one.get('outcome')}  {ending}".rstrip()


def times_of(tick: Json) -> str:
    """The time of a line of the history, or its range with the number of times."""
    first, last = tick.get("first_fire_time"), instant_of(tick.get("fire_time"))
    return last if first is None else f"{instant_of(first)} to {last} ({tick.get('missed')})"


def part_of(one: Json, name: str) -> Json:
    part = one.get(name)
    return part if isinstance(part, Mapping) else {}


def instant_of(value: object) -> str:
    """A time to the second, or a dash."""
    if not isinstance(value, str):
        return "-"
    return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M:%S} UTC"


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _uses(job: Json, connection: str) -> bool:
    sources = part_of(job, "spec").get("sources")
    return isinstance(sources, list) and any(
        isinstance(one, Mapping) and one.get("connection") == connection for one in sources
    )


def _is_sink_of(sink: Json, connection: str) -> bool:
    spec = part_of(sink, "spec")
    tables = spec.get("tables")
    return (
        spec.get("connection") == connection
        or (
            isinstance(tables, list)
            and any(isinstance(one, Mapping) and one.get("catalog") == connection for one in tables)
        )
        or part_of(spec, "dynamic").get("catalog") == connection
    )


def _name(job: Json) -> str:
    metadata = part_of(job, "metadata")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return str(name) if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"
