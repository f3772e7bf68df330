"""What a sink has committed and how far it is, and the verbs that a person needs.

A verb is stored in the row of the sink; the service iceberg-sink carries it out, so that no
service is called from here. `pause` and `resume` are actions of controllers.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, ConfigDict, Field

from datarecs_application.ports.state import AuditEntry, Transaction
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.captures.naming import joined_name, split_name
from datarecs_core.errors.faults import pointer
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.resources.sink_conditions import PartitionView, partition_views
from datarecs_core.sink.accepting import (
    held_positions,
    place_of,
    requested,
    reset_positions,
)
from datarecs_core.sink.checkpoint import Checkpoint, TableCommit, TablePlace
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.decisions import WaitingRecords
from datarecs_core.sink.definition import MOST_TOPICS
from datarecs_core_api.addressing import read_resource
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import Reader, needs
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import WHOLE, In, JsonBody, Namespace, NoFieldsIn, Sent
from datarecs_core_api.outputs import Page, ResourceOut
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Cursor, Position, next_link
from datarecs_core_api.problems import ProblemError, input_fault, invalid
from datarecs_core_api.published_types import LARGEST, ObjectName
from datarecs_core_api.sink_outputs import (
    SinkCommitOut,
    SinkPartitionOut,
    commit_view,
    partition_view,
)
from datarecs_core_api.views import resource_view
from datarecs_specs.kinds import KINDS

router = APIRouter(prefix="/api/v1", tags=["resources"], route_class=GuardedRoute)
SINK = KINDS[Kind.SINK_TABLE]
Writer = Annotated[Principal, needs(Permission.RESOURCE_WRITE)]
NoFields = Annotated[Sent[NoFieldsIn], Depends(JsonBody(NoFieldsIn))]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
ACCEPTED = 202
MOST_PARTITIONS = 10_000
"""Of one topic, in a request."""
MOST_TABLE_CHARACTERS = 1024
MOST_SHOWN = 100
"""Partitions in an audit entry."""


@router.get(
    f"/{SINK.path}/{{name}}/commits",
    operation_id="list_sink_commits",
    responses={200: {"model": Page[SinkCommitOut]}},
)
def commits(
    name: ObjectName,
    caller: Reader,
    request: Request,
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor | None = None,
) -> Response:
    """Commits that are complete, newest first, with the snapshots that they added."""
    now = use.clock.now()
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        sink = read_resource(tx, SINK, name, namespace=namespace)
        scope, before = {"list": "commits", "sink": str(sink.uid)}, None
        if cursor is not None:
            place = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=now)
            before = place.created_at, place.id
        stored = tx.sinks.commits(sink.uid, limit=limit + 1, before=before)
    following = None
    if len(stored) > limit:
        last = stored[limit - 1]
        place = Position(created_at=last.completed_at, id=last.commit_id)
        following = use.cursors.write(place, tenant=caller.tenant_id, where=scope, now=now)
    page = Page(items=[commit_view(one) for one in stored[:limit]], next=following)
    return json_answer(page, headers=next_link(request, page.next))


@router.get(
    f"/{SINK.path}/{{name}}/partitions",
    operation_id="list_sink_partitions",
    responses={200: {"model": Page[SinkPartitionOut]}},
)
def partitions(
    name: ObjectName,
    caller: Reader,
    request: Request,
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor | None = None,
) -> Response:
    """Partitions of the topics, by topic and number: what is committed, read and waiting."""
    now = use.clock.now()
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        sink = read_resource(tx, SINK, name, namespace=namespace)
        views = partition_views(tx.sinks.status(sink.uid))
    scope = {"list": "partitions", "sink": str(sink.uid)}
    if cursor is not None:
        after = _partition_of(
            use.cursors.read_place(cursor, tenant=caller.tenant_id, where=scope, now=now)
        )
        views = tuple(one for one in views if one.partition > after)
    following = None
    if len(views) > limit:
        place = _place_of(views[limit - 1].partition)
        following = use.cursors.write_place(place, tenant=caller.tenant_id, where=scope, now=now)
    page = Page(items=[partition_view(one) for one in views[:limit]], next=following)
    return json_answer(page, headers=next_link(request, page.next))


def _place_of(partition: SourcePartition) -> str:
    return f"{partition.topic}/{partition.number}"


def _partition_of(place: str) -> SourcePartition:
    topic, _, number = place.rpartition("/")
    return SourcePartition(topic=topic, number=int(number))


def _partition_number(text: str) -> str:
    if not text.isascii() or not text.isdigit() or text != str(int(text)):
        raise ValueError("not the number of a partition, such as 0")
    return text


Topic = Annotated[str, Field(min_length=1, max_length=249)]
PartitionNumber = Annotated[
    str,
    Field(max_length=6, json_schema_extra={"pattern": "^(0|[1-9][0-9]{0,5})$"}),
    AfterValidator(_partition_number),
]
Offset = Annotated[int, Field(ge=0, le=LARGEST), WHOLE]
Positions = Annotated[
    dict[PartitionNumber, Offset],
    Field(max_length=MOST_PARTITIONS, json_schema_extra={"additionalProperties": False}),
]


class ResetSinkIn(In):
    """Where a sink goes on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"positions": {"orders": {"0": 5}}}]})

    positions: Annotated[dict[Topic, Positions], Field(max_length=MOST_TOPICS)] = Field(
        default_factory=dict
    )
    """Next offset to read, by topic and partition; others stay where they are."""


class AcceptTableIn(In):
    """What becomes of records that a table of the sink does not hold."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"table": "sales.orders", "records": "leave_out"}]}
    )

    table: Annotated[str, Field(min_length=1, max_length=MOST_TABLE_CHARACTERS)]
    """Namespace and name, such as `sales.orders`."""
    catalog: ObjectName | None = None
    """Connection of its catalog; needed where two catalogs have a table of this name."""
    records: Literal["commit", "leave_out"]
    """`commit` them to the table that is there now, or `leave_out` for good."""


Verb = Callable[[Transaction, Resource], bool]
"""Stores the verb; False: the sink has not begun."""


def _carry_out(
    request: Request,
    use: Ports,
    caller: Principal,
    where: tuple[str, str],
    *,
    action: str,
    verb: Verb,
    body: bytes,
    detail: Mapping[str, object] | None = None,
) -> Response:
    """Store a verb with its audit entry, once for each Idempotency-Key."""

    def act(tx: Transaction, _key: str | None) -> Answer:
        name, namespace = where
        sink = read_resource(tx, SINK, name, namespace=namespace)
        if not verb(tx, sink):
            raise ProblemError(
                code=SinkCode.SINK_NOT_STARTED,
                detail=f"SinkTable {sink.name} has not begun; its condition Ready says why",
            )
        tx.resource_work.reconcile_soon(sink.uid, sink.kind)
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action=f"sink.{action}",
                resource_kind=str(sink.kind),
                resource_uid=str(sink.uid),
                detail={"namespace": sink.namespace, "name": sink.name, **(detail or {})},
            )
        )
        return Answer(status=ACCEPTED, body=resource_view(sink))

    return once(request, body, unit=use.unit, caller=caller, act=act)


def _verb(name: str) -> Mapping[str, Any]:
    """What the route of a verb is declared with."""
    return {
        "path": f"/{SINK.path}/{{name}}/actions/{name}",
        "status_code": ACCEPTED,
        "responses": {ACCEPTED: {"model": ResourceOut}, 409: {}},
    }


@router.post(**_verb("commit-now"), operation_id="commit_sink_now")
def commit_now(
    name: ObjectName,
    caller: Writer,
    request: Request,
    body: NoFields,
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Commit what was read now, without waiting for the interval."""
    return _carry_out(
        *(request, use, caller, (name, namespace)),
        action="commit_now",
        verb=lambda tx, sink: tx.sinks.request_commit(sink.uid),
        body=body.canonical,
    )


@router.post(**_verb("retry"), operation_id="retry_sink")
def retry(
    name: ObjectName,
    caller: Writer,
    request: Request,
    body: NoFields,
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Begin the tasks again that have stopped because of an error."""
    return _carry_out(
        *(request, use, caller, (name, namespace)),
        action="retry",
        verb=lambda tx, sink: tx.sinks.retry(sink.uid),
        body=body.canonical,
    )


@router.post(**_verb("accept-table"), operation_id="accept_sink_table")
def accept_table(
    name: ObjectName,
    caller: Writer,
    request: Request,
    body: Annotated[Sent[AcceptTableIn], Depends(JsonBody(AcceptTableIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Go on with a table that was rolled back, dropped or created again.

    The next coordinator carries it out; `status.table_decision` says what came of it.
    """
    wish = body.value

    def verb(tx: Transaction, sink: Resource) -> bool:
        commits = tx.sinks.newest_commits(sink.uid)
        checkpoint = tx.sinks.status(sink.uid).state.checkpoint
        if checkpoint.lineage is None:
            return False
        places = {*checkpoint.known_tables(), *_declared(sink), *map(_place_of_commit, commits)}
        place = _place_named(wish, places, {*_catalogs(sink), *(one[0] for one in places)})
        records = WaitingRecords(wish.records)
        with _refusals():
            return tx.sinks.decide(sink.uid, requested(checkpoint, place, records, commits))

    return _carry_out(
        *(request, use, caller, (name, namespace)),
        action="accept_table",
        verb=verb,
        body=body.canonical,
        detail={"table": wish.table, "catalog": wish.catalog, "records": wish.records},
    )


def _place_named(
    wish: AcceptTableIn, places: Collection[TablePlace], catalogs: Collection[str]
) -> TablePlace:
    """The one place of the name. Raises ProblemError (422).

    A table that is not declared and has no commit yet is named with its catalog.
    """
    *namespace, name = split_name(wish.table) or ("",)
    if wish.catalog is not None:
        if wish.catalog not in catalogs:
            shown = ", ".join(sorted(catalogs))
            message = f"the sink has no such catalog; it has {shown}"
            raise invalid("the sink has no such catalog", input_fault("/catalog", message))
        return (wish.catalog, tuple(namespace), name)
    fitting = [one for one in places if one[1:] == (tuple(namespace), name)]
    if len(fitting) == 1:
        return fitting[0]
    shown = ", ".join(sorted(joined_name((*one[1], one[2])) for one in places)[:MOST_SHOWN])
    if fitting:
        message = "tables of this name are in two catalogs; add `catalog`"
    else:
        message = f"the sink has no such table; it has {shown or 'none yet'}"
    raise invalid("the sink has no such table", input_fault(pointer(("table",)), message))


def _declared(sink: Resource) -> Sequence[TablePlace]:
    tables = sink.spec.get("tables")
    return [
        (str(one.get("catalog")), split_name(str(one.get("namespace"))) or (), str(one.get("name")))
        for one in (tables if isinstance(tables, list | tuple) else ())
        if isinstance(one, Mapping)
    ]


def _catalogs(sink: Resource) -> Sequence[str]:
    dynamic = sink.spec.get("dynamic")
    return [str(dynamic.get("catalog"))] if isinstance(dynamic, Mapping) else []


def _place_of_commit(commit: TableCommit) -> TablePlace:
    return place_of(commit.table)


@router.post(**_verb("reset"), operation_id="reset_sink")
def reset(
    name: ObjectName,
    caller: Writer,
    request: Request,
    body: Annotated[Sent[ResetSinkIn], Depends(JsonBody(ResetSinkIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Forget the control topic, and go on at these positions.

    A position behind what is committed writes its records again; one ahead of it leaves records
    out. Without positions every partition goes on at what the tables hold; that is refused where
    they hold different records. A partition that the sink does not know is refused once it knows
    any, and so is a position above the partition's end.
    """
    positions = {
        SourcePartition(topic=topic, number=int(number)): offset
        for topic, offsets in body.value.positions.items()
        for number, offset in offsets.items()
    }

    first = islice(positions.items(), MOST_SHOWN)
    shown = {_place_of(one): offset for one, offset in first}

    def verb(tx: Transaction, sink: Resource) -> bool:
        _check_topics(sink, body.value)
        commits = tx.sinks.newest_commits(sink.uid)
        stored = tx.sinks.status(sink.uid)
        _check_positions(partition_views(stored), positions)
        checkpoint, declared = stored.state.checkpoint, _declared(sink)
        return tx.sinks.reset(
            sink.uid,
            _all_positions(checkpoint, commits, declared, positions),
            _held(checkpoint, commits, declared),
        )

    return _carry_out(
        *(request, use, caller, (name, namespace)),
        action="reset",
        verb=verb,
        body=body.canonical,
        detail={"partitions": len(positions), "positions": shown},
    )


def _all_positions(
    checkpoint: Checkpoint,
    commits: Sequence[TableCommit],
    declared: Sequence[TablePlace],
    positions: Mapping[SourcePartition, int],
) -> Mapping[SourcePartition, int]:
    """With those of partitions that are not named. Raises ProblemError (409)."""
    if positions and positions.keys() >= checkpoint.partitions.keys():
        return positions
    others = reset_positions if positions else held_positions
    with _refusals():
        return {**others(checkpoint, commits, declared), **positions}


def _held(
    checkpoint: Checkpoint, commits: Sequence[TableCommit], declared: Sequence[TablePlace]
) -> Mapping[SourcePartition, int]:
    """What the tables hold; nothing where they hold different records."""
    try:
        return held_positions(checkpoint, commits, declared)
    except SinkError:
        return {}


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except SinkError as refusal:
        raise ProblemError(code=refusal.code, detail=str(refusal)) from refusal


def _check_topics(sink: Resource, body: ResetSinkIn) -> None:
    """Raises ProblemError (422) for topics that the sink does not read."""
    topics = sink.spec.get("topics")
    known = set(topics) if isinstance(topics, list | tuple) else set()
    unknown = [topic for topic in body.positions if topic not in known]
    if unknown:
        faults = [
            input_fault(pointer(("positions", topic)), "the sink does not read this topic")
            for topic in unknown
        ]
        raise invalid("the sink does not read these topics", *faults)


def _check_positions(
    views: Sequence[PartitionView], positions: Mapping[SourcePartition, int]
) -> None:
    """Raises ProblemError (422) for partitions and offsets that the topics do not have.

    Args:
        views: of all partitions that the sink knows; without any nothing is checked.
        positions: of the request.
    """
    known = {one.partition: one for one in views}
    faults = []
    for partition, offset in positions.items() if known else ():
        view = known.get(partition)
        if view is None:
            message = _unknown_partition(partition, known)
        elif view.end is not None and offset > view.end:
            message = (
                f"{_place_of(partition)} ends at {view.end}: name a position up to it; the end"
                " leaves out every record that is there now. A sink that is paused has last seen"
                " the end before its pause"
            )
        else:
            continue
        place = pointer(("positions", partition.topic, str(partition.number)))
        faults.append(input_fault(place, message))
    if faults:
        raise invalid("the topics do not have these positions", *faults)


def _unknown_partition(partition: SourcePartition, known: Collection[SourcePartition]) -> str:
    numbers = sorted(one.number for one in known if one.topic == partition.topic)
    shown = ", ".join(str(one) for one in numbers[:MOST_SHOWN]) or "none of it yet"
    return (
        f"the sink knows no partition {partition.number} of the topic {partition.topic}; it knows"
        f" {shown}. Name one of these; a partition that is new appears in a few seconds"
    )
