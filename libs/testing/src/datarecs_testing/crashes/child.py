"""A child of the worker for crash tests: the real frames, comparison and result file, no Spark.

Everything between the pipe and the result file is the shipped code; the oracle replaces Spark,
which needs seconds to start, except for jobs that select Spark by their name. Jobs with another
name
prefix never end by themselves: they wait to be stopped.
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from datarecs_application.child_frames import FINISHED, READY, RUN, STOP, Reader
from datarecs_application.ports.comparing import Connector, Engine
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import open_connector
from datarecs_connectors.surroundings import surroundings_of
from datarecs_core import crashing
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.jobs.definition import Source
from datarecs_core.resources.connection import Connection
from datarecs_memory.engine import MemoryEngine
from datarecs_reconciliation_worker.frame_reporter import FrameReporter
from datarecs_reconciliation_worker.work import Allowance, Tools, read_assignment, work
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.frames import SupervisorChannel, take_over_stdio
from datarecs_testing.crashes import killing

if TYPE_CHECKING:
    from datarecs_spark.session import SparkRuntime

PROCESS = "child"
HELD, ON_SPARK = "held", "spark"
"""Name prefixes of jobs that wait to be stopped, and of jobs that Spark compares."""
EXIT_STOPPED = 75


@dataclass(slots=True)
class Bench:
    """State that outlives a run."""

    hello: Reader
    _connectors: dict[str, Connector] = field(default_factory=dict)
    _spark: "SparkRuntime | None" = None

    def tools(self, *, on_spark: bool) -> Tools:
        self._connectors.clear()
        return Tools(
            connect=self._connect,
            engine=self._on_spark if on_spark else self._in_memory,
            clock=SystemClock(),
            versions={"engine": "spark" if on_spark else "oracle"},
        )

    def _connect(
        self,
        run: Allowance,
        source: Source,
        connection: Connection | None,
        secrets: Mapping[str, str],
    ) -> Connector:
        surroundings = surroundings_of(self.hello, run.tenant_id, SystemClock().now)
        made = open_connector(source, connection, secrets, surroundings=surroundings)
        self._connectors[source.name] = made
        return made

    def _in_memory(self, _plan: ComparisonPlan, key: bytes, _directory: Path) -> Engine:
        return MemoryEngine(lambda scan: rows_of(self._connectors[scan.source], scan), key=key)

    def _on_spark(self, plan: ComparisonPlan, key: bytes, directory: Path) -> Engine:
        from datarecs_spark.session import SparkRuntime, SparkSettings  # noqa: PLC0415  seconds

        if self._spark is None:
            self._spark = SparkRuntime.start(
                SparkSettings(
                    master="local[1]",
                    driver_memory=self.hello.of("driver_memory", str),
                    java_home=self.hello.maybe("java_home", str),
                    java_options=self.hello.of("java_options", str),
                    scratch=Path(self.hello.of("scratch", str)),
                )
            )
        return self._spark.engine(plan, key=key, directory=directory)


def main() -> int:
    """Serve runs until the supervisor has ended or requests a stop."""
    channel = take_over_stdio()
    hello = channel.receive()
    if hello is None:
        return 0
    crashing.hook = killing.Killer(Path.cwd() / killing.FOLDER, PROCESS)
    bench = Bench(Reader(hello))
    with suppress(BrokenPipeError):  # the supervisor was killed in between
        channel.send({"type": READY})
        while (frame := channel.receive()) is not None:
            if frame.get("type") == STOP or not _served(frame, bench, channel):
                return EXIT_STOPPED
            channel.send({"type": FINISHED})
    return 0


def _served(frame: Mapping[str, object], bench: Bench, channel: SupervisorChannel) -> bool:
    """Do the run; False if it was stopped."""
    if frame.get("type") != RUN:
        return False
    job = str(frame["job"])
    if job.startswith(HELD):
        channel.receive()
        return False
    work(
        read_assignment(frame),
        bench.tools(on_spark=job.startswith(ON_SPARK)),
        FrameReporter(channel),
    )
    return True


if __name__ == "__main__":
    sys.exit(main())
