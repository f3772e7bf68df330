"""Sections of the capture-worker: its slots, and the kinds of work it takes."""

from pathlib import Path

from pydantic import Field

from datarecs_runtime.sections import Section


class CaptureSlots(Section):
    max_parallelism: int = Field(default=1, ge=0, le=64)
    """Items of captures at the same time in one worker; each has its own child. With 2 or more, one
    slot takes no groups of files, so that plans are never behind them. 0: only the maintenance of
    the queue and the catalogue."""
    scratch_dir: Path = Path("/tmp/datarecs")  # noqa: S108  only a default; `up` and images set it
    """Folder for what children report; a second worker with it waits. Files are removed at the end
    of an item and, after a kill, at the next start."""
    child_memory_mb: int = Field(default=4096, ge=512)
    """Resident memory, in MiB, of a child and its processes; above it the item fails as
    OUT_OF_MEMORY."""


class Enabled(Section):
    enabled: bool = True
    """Whether this worker takes this kind of work."""


class Executor(Section):
    planner: Enabled = Enabled()
    """Lists the tables and views of a connection."""
    default: Enabled = Enabled()
    """Reads the definition of a table or view."""
    snapshot_planner: Enabled = Enabled()
    """Lists the files of a snapshot; captures a table of a database."""
    file_group: Enabled = Enabled()
    """Reads a group of files."""
    snapshot_finalize: Enabled = Enabled()
    """Completes and publishes the statistics of a snapshot."""
