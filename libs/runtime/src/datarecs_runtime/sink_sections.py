"""The section of iceberg-sink; no other service has it."""

from pathlib import Path

from pydantic import Field

from datarecs_runtime.sections import Section


class Sink(Section):
    max_tasks: int = Field(default=16, ge=1, le=64)
    """Tasks of sinks at the same time in one process of the service. Each has a process of its own,
    which needs 1 GiB and three times `files.memory` of its sink at most. One that waits after a
    fault, and one of a paused sink, count too. While a task of another tenant waits, one tenant has
    at most half of them, rounded up."""
    scratch_dir: Path = Path("/tmp/datarecs")  # noqa: S108  only a default; `up` and images set it
    """Folder for temporary files of tasks; a second process with it waits. Files are removed at
    the end of the service and, after a kill, at its next start."""
