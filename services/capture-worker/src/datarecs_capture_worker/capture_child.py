"""The child of one item: opens the connection, does the work, leaves the outcome and ends.

It is forked from a template, which has imported what children need and knows nothing else: no
database, no setting of the platform in its environment. The secrets of the connection arrive
through the child's own pipe.
"""

import os
import sys
from contextlib import closing
from uuid import UUID

from datarecs_application.capturing.source_work import (
    failure_frame,
    source_outcome,
    write_report,
)
from datarecs_application.child_frames import FINISHED, Reader
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.surroundings import surroundings_of
from datarecs_core.documents import from_document
from datarecs_core.resources.connection import Connection
from datarecs_core.values import TenantId
from datarecs_runtime.child_template import become_child
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.frames import take_over_stdio
from datarecs_runtime.scratch import use_for_temporary_files

MODULES = (
    "datarecs_connectors.capturing.files",
    "datarecs_connectors.capturing.iceberg",
    "datarecs_connectors.capturing.postgres",
)
"""What captures of every type of connection import; see `open_capture_source`."""


def main() -> int:
    """Do the work of the first frame."""
    channel = take_over_stdio()
    frame = channel.receive()
    if frame is None:
        return 0
    try:
        work(Reader(frame))
    except Exception as error:  # noqa: BLE001  the child's entry: every failure is reported
        channel.send(failure_frame(error))
    else:
        channel.send({"type": FINISHED})
    return 0


def work(frame: Reader) -> None:
    """Leave the outcome in the folder that the frame names."""
    directory = frame.of("directory", str)
    use_for_temporary_files(directory)
    around = surroundings_of(frame, TenantId(UUID(frame.of("tenant_id", str))), SystemClock().now)
    connection = from_document(Connection, frame.of("connection", dict))
    secrets = {str(name): str(value) for name, value in frame.of("secrets", dict).items()}
    source = open_capture_source(frame.of("name", str), connection, secrets, around)
    with closing(source):
        write_report(source_outcome(frame, source, directory), directory)


if __name__ == "__main__":
    become_child(MODULES)
    code = main()
    sys.stderr.flush()
    # Skips the interpreter's shutdown, in which native libraries print false reports of leaks.
    os._exit(code)
