"""Documents of one command: no object twice, and the sources of a job against its connections.

The last step of validation, separate from decoding because it needs every document of a command.
A command that opens sources has all connections; elsewhere a server may have more, so an unknown
name is a note there, with the same message.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from datarecs_core.errors.faults import Fault
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.connection import Connection, connection_faults
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import Decoded

ConnectionKey = tuple[str, str]
"""Namespace and name."""
ObjectKey = tuple[Kind, str, str]


def connections_of(documents: Iterable[Decoded]) -> Mapping[ConnectionKey, Connection]:
    """The connections that the documents declare."""
    return {
        (one.declared.namespace, one.declared.name): one.spec
        for one in documents
        if one.declared is not None and isinstance(one.spec, Connection)
    }


def undeclared_connections(documents: Sequence[Decoded]) -> tuple[ConnectionKey, ...]:
    """Connections that jobs name and no document declares, each once."""
    declared = connections_of(documents)
    named = (
        (one.declared.namespace, source.connection)
        for one in documents
        if one.declared is not None and isinstance(one.spec, ReconciliationJob)
        for source in one.spec.sources
        if source.connection is not None
    )
    return tuple(dict.fromkeys(key for key in named if key not in declared))


def judged_together(
    documents: Sequence[Decoded],
    *,
    known: Mapping[ConnectionKey, Connection] | None = None,
    opens_sources: bool = False,
) -> tuple[Decoded, ...]:
    """The documents with the faults between them; jobs with other faults are unchanged.

    Args:
        documents: of one command, in order.
        known: connections of a server; a declared one replaces them.
        opens_sources: the command is about to read, so that an unknown connection is a fault.
    """
    connections = {**(known or {}), **connections_of(documents)}
    seen = set[ObjectKey]()
    return tuple(
        one.with_faults(
            (*_declared_twice(one, seen), *_between(one, connections, opens_sources=opens_sources))
        )
        for one in documents
    )


def _declared_twice(document: Decoded, seen: set[ObjectKey]) -> Iterator[Fault]:
    """Of two documents for one object, the later one would replace the other."""
    declared = document.declared
    if declared is None:
        return
    key = (declared.kind, declared.namespace, declared.name)
    if key in seen:
        yield Fault(
            code=SpecCode.DUPLICATE_NAME,
            path=("metadata", "name"),
            message=f"another document declares this {declared.kind} too",
        )
    seen.add(key)


def _between(
    document: Decoded, known: Mapping[ConnectionKey, Connection], *, opens_sources: bool
) -> list[Fault]:
    job, declared = document.spec, document.declared
    if declared is None or not isinstance(job, ReconciliationJob):
        return []
    types = {
        name: one.type
        for (namespace, name), one in known.items()
        if namespace == declared.namespace
    }
    return [
        replace(fault, warning=True, note=True)
        if fault.code is SpecCode.UNKNOWN_CONNECTION and not opens_sources
        else fault
        for fault in connection_faults(job, types)
    ]
