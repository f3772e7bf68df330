"""Whether a job compares what a sink reads with what it writes, and what no job compares.

A sink names the jobs that prove it. What such a job filters, leaves out or tolerates is the matter
of its author; here is checked that it is about this sink at all.
"""

from collections.abc import Iterable

from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import OnUnmatched, SourceKind, StageType, TopicEdge
from datarecs_core.sink.definition import DynamicTables, SinkTable
from datarecs_core.sink.dynamic import topic_tables

_OF_EACH_ROW = frozenset({StageType.ROW, StageType.DIGEST})
_Place = tuple[str, ...]
"""Catalog, namespace, name of a table."""


def proof_fault(sink: SinkTable, job: ReconciliationJob) -> str | None:
    """Why the result of a job says nothing about a sink, and what to do; None: it proves it."""
    topics = [source for source in job.sources if _is_topic(sink, source)]
    if not topics:
        return (
            f"it reads no topic of the sink; it needs a source of kind kafka with the connection"
            f" {sink.connection} and one of the topics of the sink"
        )
    if not any(source.snapshot.end.edge is TopicEdge.WATERMARK for source in topics):
        return (
            "it does not read the topic up to what the table has; write `snapshot: {to: watermark}`"
            f" in its source {topics[0].name}"
        )
    tables = [source for source in job.sources if _is_table(sink, source)]
    if not tables:
        return (
            "it reads no table of the sink; it needs a source of kind iceberg with the connection"
            " and, as `relation`, the name of one of its tables"
        )
    if any(_is_of_the_past(source) for source in tables):
        return (
            f"it reads an earlier state of the table; leave `snapshot` out in its source"
            f" {tables[0].name}"
        )
    if not _compares_each_row(job):
        return (
            "it does not compare every row; it needs a stage of type row or digest without a scope,"
            " and `on_unmatched: continue` in the stages before it"
        )
    return None


def _compares_each_row(job: ReconciliationJob) -> bool:
    """Earlier stages that stop, or hand on only what they found, restrict it."""
    for stage in job.stages:
        if stage.type in _OF_EACH_ROW and stage.scope is None:
            return True
        if stage.on_unmatched is not OnUnmatched.CONTINUE:
            return False
    return False


def unproven(sink: SinkTable, jobs: Iterable[ReconciliationJob]) -> tuple[str, ...]:
    """Topics and declared tables of a sink that none of these jobs reads, in words.

    Tables that a field of the records names are not known.
    """
    sources = [source for job in jobs for source in job.sources]
    topics = {source.topic for source in sources if _is_topic(sink, source)}
    tables = {_place(source) for source in sources if _is_table(sink, source)}
    return (
        *(f"topic {topic}" for topic in sink.topics if topic not in topics),
        *(f"table {'.'.join(place[1:])}" for place in _declared(sink) if place not in tables),
    )


def _is_topic(sink: SinkTable, source: Source) -> bool:
    is_of_cluster = source.kind is SourceKind.KAFKA and source.connection == sink.connection
    return is_of_cluster and source.topic in sink.topics


def _is_table(sink: SinkTable, source: Source) -> bool:
    if source.kind is not SourceKind.ICEBERG or source.relation is None:
        return False
    place = _place(source)
    return place in _declared(sink) or (sink.dynamic is not None and _may_be(sink.dynamic, place))


def _may_be(rule: DynamicTables, place: _Place) -> bool:
    """Whether a record may name the table."""
    catalog, *namespace, _ = place
    if rule.path is None or catalog != rule.catalog or not namespace:
        return False
    return not rule.namespace or tuple(namespace) == rule.namespace


def _declared(sink: SinkTable) -> tuple[_Place, ...]:
    """Tables that the declaration names, each once."""
    named = () if sink.dynamic is None else topic_tables(sink.dynamic, sink.topics)
    places = ((one.catalog, *one.namespace, one.name) for one in (*sink.tables, *named))
    return tuple(dict.fromkeys(places))


def _place(source: Source) -> _Place:
    return (source.connection or "", *(source.relation or "").split("."))


def _is_of_the_past(source: Source) -> bool:
    snapshot = source.snapshot
    return any(one is not None for one in (snapshot.snapshot_id, snapshot.ref, snapshot.as_of))
