"""The process of one task: opens the cluster and the catalogs, and works until it is to end.

It is forked from a template, which has imported what tasks need and knows nothing else: no
database, no setting of the platform in its environment. The secrets of the connections arrive
through its own pipe, and what is stored of the sink is asked for over the same pipe.
"""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from datarecs_application.child_frames import Reader
from datarecs_application.ports.outside import Wake
from datarecs_application.ports.sinking import ValueDecoder
from datarecs_application.sinking.remote import (
    ANSWER,
    FAILED,
    LOG,
    STOP,
    Calls,
    RemoteMemory,
)
from datarecs_application.sinking.task import SinkTask
from datarecs_connectors.iceberg.catalogs import Catalog
from datarecs_connectors.registry import Surroundings, connected_lake, connected_registry
from datarecs_connectors.sinking.tables import IcebergSinkTables
from datarecs_connectors.sinking.value_decoding import value_decoder
from datarecs_connectors.surroundings import surroundings_of
from datarecs_core.documents import from_document
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.sink import SinkCode
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, KafkaConfig
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.wording import storable_text
from datarecs_core.sink.definition import SinkTable, Tolerance
from datarecs_core.values import TenantId
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_kafka.sink_log import KafkaSinkLog
from datarecs_runtime.child_template import become_child
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_runtime.frames import BrokenFrameError, SupervisorChannel, take_over_stdio
from datarecs_runtime.scratch import empty_folder, use_for_temporary_files
from datarecs_specs.documents import decode_stored

log = structlog.get_logger()
ORPHANED = 75
"""Exit code after the end of the service."""


def main() -> int:
    """Do the work of the first frame."""
    channel = take_over_stdio()
    first = channel.receive()
    if first is None:
        return 0
    log_over(channel)
    calls, stop = Calls(send=channel.send), Latch()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=listen, args=(channel, calls, stop), daemon=True).start()
    try:
        opened_task(Reader(first), calls).run(stop)
    except Exception as error:  # the process's entry: every failure is reported
        log.exception("sink_task_failed")
        channel.send(failure_frame(error))
        return 1
    return 0


def log_over(channel: SupervisorChannel) -> None:
    """Send lines of the log to the service, which knows whom they concern."""

    def send(_logger: object, level: str, record: MutableMapping[str, Any]) -> str:
        name, fields = str(record.pop("event")), dict(record)
        with suppress(OSError):  # the service has ended, and this process ends with it
            channel.send({"type": LOG, "level": level, "name": name, "fields": fields})
        raise structlog.DropEvent

    structlog.configure(
        processors=[structlog.processors.format_exc_info, send],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


def listen(channel: SupervisorChannel, calls: Calls, stop: Wake) -> None:
    """Deliver answers until the pipe ends; the process ends with it."""
    try:
        while (frame := channel.receive()) is not None:
            if frame.get("type") == ANSWER:
                calls.deliver(frame)
            elif frame.get("type") == STOP:
                stop.set()
    except (BrokenFrameError, OSError):
        log.warning("sink_pipe_broken")
    os._exit(ORPHANED)


def failure_frame(error: Exception) -> dict[str, object]:
    """Code and message, without measured values."""
    if isinstance(error, DatarecsError):
        code, message = error.code.name, str(error)
    else:
        code, message = SinkCode.TASK_CRASHED.name, f"unexpected {type(error).__name__}"
    return {"type": FAILED, "code": code, "message": storable_text(message)}


def opened_task(frame: Reader, calls: Calls) -> SinkTask:
    """The task of a frame, over its cluster and its catalogs; nothing is dialled yet."""
    directory, clock = frame.of("directory", str), SystemClock()
    empty_folder(Path(directory))
    use_for_temporary_files(directory)
    uid = UUID(frame.of("sink_uid", str))
    around = surroundings_of(frame, TenantId(UUID(frame.of("tenant_id", str))), clock.now)
    connections = _Connections.of(frame)
    sink = _declared(frame)
    task = f"{uid}-{frame.of('number', int)}"
    return SinkTask(
        log=_log_of(uid, sink, connections, around),
        memory=RemoteMemory(calls=calls, sink_uid=uid),
        tables=IcebergSinkTables(
            sink=sink,
            catalogs=_catalogs_of(sink, connections, around),
            task=task,
            now=clock.now,
            stop=around.stop,
        ),
        sink=sink,
        clock=clock,
        ids=UuidV7Ids(),
        name=task,
        decode=_decoder_of(sink, connections, around),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Connections:
    """Those of a sink, by name, with their secrets."""

    declared: Mapping[str, Connection]
    secrets: Mapping[str, str]
    """By `<connection>/<field>`."""

    @classmethod
    def of(cls, frame: Reader) -> "_Connections":
        documents = frame.of("connections", dict)
        secrets = frame.of("secrets", dict)
        return cls(
            declared={
                str(name): from_document(Connection, document)
                for name, document in documents.items()
            },
            secrets={str(name): str(value) for name, value in secrets.items()},
        )

    def cluster(self, sink: SinkTable) -> KafkaConfig:
        config = self.declared[sink.connection].config
        if not isinstance(config, KafkaConfig):
            raise TypeError(f"the connection {sink.connection} is not of type kafka")
        return config

    def secrets_of(self, name: str) -> dict[str, str]:
        prefix = f"{name}/"
        return {
            key.removeprefix(prefix): value
            for key, value in self.secrets.items()
            if key.startswith(prefix)
        }


def _decoder_of(sink: SinkTable, connections: _Connections, around: Surroundings) -> ValueDecoder:
    secrets = connections.secrets_of(sink.connection)
    registry = connected_registry(sink.connection, connections.cluster(sink), secrets, around)
    return value_decoder(sink, registry)


def _declared(frame: Reader) -> SinkTable:
    sink = decode_stored(Kind.SINK_TABLE, frame.of("name", str), frame.of("sink", dict))
    if not isinstance(sink, SinkTable):
        raise TypeError("the shape of a SinkTable builds SinkTables")
    return sink


def _log_of(
    uid: UUID, sink: SinkTable, connections: _Connections, around: Surroundings
) -> KafkaSinkLog:
    config = connections.cluster(sink)
    password = connections.secrets_of(sink.connection).get("password", "")
    return KafkaSinkLog(
        access=ClusterAccess.declared(config, password=password, policy=around.policy),
        uid=uid,
        topics=sink.topics,
        has_dead_letters=sink.errors.tolerance is Tolerance.DEAD_LETTER,
        clock=SystemClock(),
        ids=UuidV7Ids(),
    )


def _catalogs_of(
    sink: SinkTable, connections: _Connections, around: Surroundings
) -> dict[str, Catalog]:
    return {
        name: connected_lake(
            Source(name=name, kind=SourceKind.ICEBERG),
            connections.declared[name],
            connections.secrets_of(name),
            around,
        ).catalog
        for name in sink.catalogs
    }


if __name__ == "__main__":
    become_child(())  # this module has imported everything
    # Records live until the next vote: a collection every 700 of them costs more than the reading.
    gc.set_threshold(200_000, 20, 100)
    code = main()
    sys.stderr.flush()
    # Skips the interpreter's shutdown, which waits for threads of libraries.
    os._exit(code)
