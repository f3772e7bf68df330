"""The child of one check: opens the sources of a connection or job, reports each step and ends.

Started by the supervisor with only a pipe: no database, no broker, no setting of the platform in
its environment, and no Spark. The secrets of the sources arrive through the pipe.
"""

import os
import sys
from uuid import UUID

from datarecs_application.checking import OPENING, STEP
from datarecs_application.child_frames import FINISHED, Reader
from datarecs_application.comparison import Means, Question
from datarecs_application.ports.comparing import Connector, Engine, ProbeStep
from datarecs_application.source_checks import check_connection, check_job
from datarecs_connectors.registry import open_connector
from datarecs_connectors.surroundings import surroundings_of
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.documents import from_document
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.literals import parameters_written_in
from datarecs_core.resources.connection import SERVES, Connection
from datarecs_core.values import TenantId
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.frames import SupervisorChannel, take_over_stdio
from datarecs_specs.documents import job_of


def main() -> int:
    """Make the check of the first frame."""
    channel = take_over_stdio()
    frame = channel.receive()
    if frame is None:
        return 0
    _Check(Reader(frame), _FrameReporter(channel)).run()
    channel.send({"type": FINISHED})
    return 0


class _FrameReporter:
    """Port CheckReporter over the pipe to the supervisor."""

    def __init__(self, channel: SupervisorChannel) -> None:
        self._channel = channel

    def opening(self, source: str) -> None:
        self._channel.send({"type": OPENING, "source": source})

    def step(self, source: str, step: ProbeStep) -> None:
        self._channel.send(
            {
                "type": STEP,
                "source": source,
                "name": step.name,
                "ok": step.ok,
                "ms": round(step.duration.total_seconds() * 1000),
                "detail": step.detail,
                "code": step.code,
                "login_refused": step.login_refused,
            }
        )


class _Check:
    """The check of one frame."""

    def __init__(self, frame: Reader, reporter: _FrameReporter) -> None:
        self._frame, self._reporter = frame, reporter
        tenant = TenantId(UUID(frame.of("tenant_id", str)))
        self._around = surroundings_of(frame, tenant, SystemClock().now)
        self._connections = {
            name: from_document(Connection, document)
            for name, document in frame.of("connections", dict).items()
        }
        self._secrets = {str(name): str(value) for name, value in frame.of("secrets", dict).items()}

    def run(self) -> None:
        name = self._frame.of("name", str)
        spec = self._frame.maybe("spec", dict)
        if spec is None:
            source = _source_of(name, self._connections[name])
            check_connection(source, self._connect, self._reporter)
            return
        question = Question(
            job=parameters_written_in(job_of(name, spec), self._frame.of("parameters", dict)),
            job_uid=UUID(self._frame.of("job_id", str)),
            spec_hash=self._frame.of("spec_hash", str),
        )
        means = Means(
            connect=self._connect, engine=_no_engine, clock=SystemClock(), extracts=os.devnull
        )
        check_job(question, means, self._reporter)

    def _connect(self, source: Source) -> Connector:
        prefix = f"{source.connection}/"
        secrets = {
            name.removeprefix(prefix): value
            for name, value in self._secrets.items()
            if name.startswith(prefix)
        }
        connection = self._connections.get(source.connection or "")
        return open_connector(source, connection, secrets, surroundings=self._around)


def _source_of(name: str, connection: Connection) -> Source:
    """A source that opens the connection; its path or relation is not used."""
    kind = next(kind for kind, types in SERVES.items() if connection.type in types)
    return Source(name=name, kind=kind, connection=name)


def _no_engine(_plan: ComparisonPlan) -> Engine:
    raise NotImplementedError("a check compares nothing")


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Skips the interpreter's shutdown, in which native libraries print false reports of leaks.
    os._exit(code)
