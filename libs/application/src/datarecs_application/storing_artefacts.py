"""Store what a child has left: differences first, then run.json, which names them.

Separate from supervision because a store may be away, while the attempt can still be stopped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from datarecs_application.child_frames import BadFrameError
from datarecs_application.ports.outside import BlobStore, Clock
from datarecs_core.catalog.layout import all_differences, is_written_by_child, run_document
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_core.runs.model import Run
from datarecs_core.runs.outcome import Evidence

log = structlog.get_logger()

PATIENCE = timedelta(minutes=2)
"""How long an attempt that has finished waits for a store that does not answer."""
PAUSE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Storing:
    """The store of the run's account."""

    blobs: BlobStore
    clock: Clock

    def store(
        self, run: Run, left: Mapping[str, str], stopped: Callable[[], Evidence | None]
    ) -> Evidence | None:
        """Store the files in place of those of an earlier attempt; safe to repeat.

        Args:
            run: that completed.
            left: path by key.
            stopped: why the attempt has to stop, checked before each file.

        Returns:
            Why it was stopped; None when everything is stored.

        Raises:
            BadFrameError: a key that is not evidence of the run; nothing is stored.
            BlobStoreUnavailableError: the store is away for longer than `PATIENCE`.
        """
        ids, last = (run.tenant_id, run.run_id), run_document(run.tenant_id, run.run_id)
        if not all(is_written_by_child(key, *ids) for key in left):
            raise BadFrameError("an artefact outside its run")
        ordered = sorted(left, key=lambda key: (key == last, key))
        steps: list[Callable[[], object]] = [
            # An earlier attempt may have stored more parts.
            partial(self.blobs.delete_prefix, all_differences(*ids)),
            *(partial(self.blobs.put_file, key, left[key]) for key in ordered),
        ]
        until = self.clock.monotonic() + PATIENCE.total_seconds()
        for step in steps:
            reason = self._done(step, until, stopped)
            if reason is not None:
                return reason
        return None

    def _done(
        self, step: Callable[[], object], until: float, stopped: Callable[[], Evidence | None]
    ) -> Evidence | None:
        """Repeated while the store is away."""
        while (reason := stopped()) is None:
            try:
                step()
            except BlobStoreUnavailableError as cause:
                if self.clock.monotonic() >= until:
                    raise
                log.warning("artefacts_wait", code=cause.code.name)
                self.clock.wait(PAUSE)
            else:
                return None
        return reason
