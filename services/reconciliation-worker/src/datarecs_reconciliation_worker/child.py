"""The child of a worker: holds the Spark session and executes runs, without platform access.

Started by the supervisor with only a pipe: no database, no broker, no setting of the
platform in its environment. It answers frames, pings while it works, and exits 70 when it is broken
and 75 after a stop request. When its Java process ends it reports that and exits at once,
also during a run.
"""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from datarecs_application.child_frames import (
    FINISHED,
    JAVA_ENDED,
    NOT_STARTED,
    PING,
    READY,
    RUN,
    STOP,
    Reader,
)
from datarecs_application.stopping import Stopping
from datarecs_connectors.registry import open_connector
from datarecs_connectors.surroundings import surroundings_of
from datarecs_core.errors.base import DatarecsError
from datarecs_events.catalogue import Service
from datarecs_reconciliation_worker.frame_reporter import FrameReporter
from datarecs_reconciliation_worker.work import Tools, read_assignment, work
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.frames import SupervisorChannel, take_over_stdio
from datarecs_runtime.sections import Otel
from datarecs_runtime.tracing import tracing_of
from datarecs_spark.cluster import Cluster
from datarecs_spark.session import SparkRuntime, SparkSettings

PING_EVERY_S = 10.0
EXIT_BROKEN, EXIT_STOPPED = 70, 75
LAST_WORDS_S = 1.0
"""How long a child lives after its Java process ended: a kill of both is then detected as one."""


def main() -> int:
    """Serve runs until the supervisor ends or requests a stop."""
    channel = take_over_stdio()
    hello = channel.receive()
    if hello is None:
        return 0
    spark = _started(channel, Reader(hello))
    java = _JavaNeed(channel)
    spark.java.watch(java.ended)
    stopped = Stopping()
    tools = replace(tools_of(Reader(hello), spark, stopped), needs_no_java=java.not_needed)
    otel = Otel(endpoint=Reader(hello).maybe("otel_endpoint", str))
    tracing = tracing_of(otel, f"{Service.RECONCILIATION_WORKER}-child")
    channel.send({"type": READY})
    inbox = _Inbox(channel, spark, stopped)
    threading.Thread(target=inbox.listen, name="listen", daemon=True).start()
    threading.Thread(target=_ping, args=(channel,), name="ping", daemon=True).start()
    while (frame := inbox.next_run()) is not None:
        with tracing.span("run.work", parent=Reader(frame).maybe("traceparent", str)):
            work(read_assignment(frame), tools, FrameReporter(channel))
        if inbox.stopped.is_set():
            return EXIT_STOPPED
        channel.send({"type": FINISHED})
    spark.close()
    tracing.close()
    return EXIT_STOPPED if inbox.stopped.is_set() else 0


def _started(channel: SupervisorChannel, hello: Reader) -> SparkRuntime:
    """The session; a failure is reported before this process ends by it."""
    try:
        return SparkRuntime.start(spark_settings_of(hello))
    except DatarecsError as cause:
        with suppress(OSError):  # the supervisor has ended, too
            channel.send({"type": NOT_STARTED, "cause": f"{cause.code.docs_id} {cause}"})
        raise


class _Inbox:
    """Frames of the supervisor, read while a run is executed."""

    def __init__(self, channel: SupervisorChannel, spark: SparkRuntime, stopped: Stopping) -> None:
        self._channel, self._spark, self.stopped = channel, spark, stopped
        self._runs: list[Mapping[str, object] | None] = []
        self._arrived = threading.Condition()

    def listen(self) -> None:
        while (frame := self._channel.receive()) is not None:
            if frame.get("type") == STOP:
                self.stopped.set()
                self._spark.cancel()
                break
            if frame.get("type") == RUN:
                self._put(frame)
        if not self.stopped.is_set():
            # No supervisor is left for a report: the work is useless.
            os._exit(EXIT_BROKEN)
        self._put(None)

    def next_run(self) -> Mapping[str, object] | None:
        with self._arrived:
            self._arrived.wait_for(lambda: self._runs)
            return self._runs.pop(0)

    def _put(self, frame: Mapping[str, object] | None) -> None:
        with self._arrived:
            self._runs.append(frame)
            self._arrived.notify()


class _JavaNeed:
    """Ends this process once Java has ended, in the middle of any work that needs Java."""

    def __init__(self, channel: SupervisorChannel) -> None:
        self._channel, self._needed = channel, threading.Event()
        self._needed.set()

    @contextmanager
    def not_needed(self) -> Iterator[None]:
        """Results that are complete are stored to their end."""
        self._needed.clear()
        try:
            yield
        finally:
            self._needed.set()

    def ended(self, java_exit: int) -> None:
        """Report how Java ended, then leave."""
        self._needed.wait()
        with suppress(OSError):  # the supervisor has ended, too
            self._channel.send({"type": JAVA_ENDED, "exit": java_exit})
        threading.Event().wait(LAST_WORDS_S)
        os._exit(EXIT_BROKEN)


def _ping(channel: SupervisorChannel) -> None:
    silence = threading.Event()
    while not silence.wait(PING_EVERY_S):
        channel.send({"type": PING})


def spark_settings_of(hello: Reader) -> SparkSettings:
    return SparkSettings(
        master=hello.of("master", str),
        driver_memory=hello.of("driver_memory", str),
        java_home=hello.maybe("java_home", str),
        java_options=hello.of("java_options", str),
        scratch=Path(hello.of("scratch", str)),
        cluster=_cluster(hello.maybe("cluster", dict)),
    )


def _cluster(fields: Mapping[str, object] | None) -> Cluster | None:
    if fields is None:
        return None
    reader = Reader(fields)
    return Cluster(
        secret=reader.of("secret", str),
        driver_host=reader.maybe("driver_host", str),
        executor_memory=reader.of("executor_memory", str),
        max_cores=reader.maybe("max_cores", int),
        executor_python=reader.maybe("executor_python", str),
    )


def tools_of(hello: Reader, spark: SparkRuntime, stop: Stopping) -> Tools:
    return Tools(
        connect=lambda run, source, connection, secrets: open_connector(
            source,
            connection,
            secrets,
            surroundings=replace(
                surroundings_of(hello, run.tenant_id, SystemClock().now, stop),
                spill_bytes=run.spill_bytes,
                catalogued=run.catalogued,
            ),
        ),
        max_spill_bytes=hello.of("max_spill_bytes", int),
        engine=lambda plan, key, directory: spark.engine(plan, key=key, directory=directory),
        clock=SystemClock(),
        versions=spark.versions(),
        stop=stop,
        java_exit=lambda: spark.java.within(0),
    )


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Skips the interpreter's shutdown, in which native libraries print false reports of leaks.
    os._exit(code)
