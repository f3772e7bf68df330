"""The output of a task for judged groups: counts, candidates in its files, scope keys.

Every file has its task's attempt in its name, so nothing of a retried task counts twice; the result
goes to the driver as one row of JSON.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from datarecs_core.jobs.vocabulary import DuplicatePolicy
from datarecs_kernel.candidates import Candidates
from datarecs_kernel.counted import Counted
from datarecs_kernel.database import Connection
from datarecs_kernel.hashing import Hasher, hashing_connection
from datarecs_kernel.judging import JudgedGroups, repeated_in
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.stored import Part, native_of
from datarecs_kernel.written import Writer

SHOWN_KEYS = 3


class Stores:
    """The output of one attempt of a task."""

    def __init__(self, plan: SinkPlan, attempt: str, connection: Connection | None = None) -> None:
        """`connection` is for expressions over columns; created if None."""
        self.plan, self.layout = plan, plan.layout
        self.counted = Counted(len(plan.layout.sources))
        self._candidates = Candidates(plan.layout, Path(plan.directory), attempt)
        self._outer_connection, self._closing = connection, ExitStack()
        names = [(label, native_of(plan.layout, label)) for label in plan.layout.key_names]
        scope = None if plan.scope_directory is None else Path(plan.scope_directory)
        self._scope = None if scope is None else Part(scope, attempt, pa.schema(names))

    @cached_property
    def _connection(self) -> Connection:
        return self._outer_connection or self._closing.enter_context(hashing_connection(threads=1))

    def leave(self) -> Counted:
        """Close the files; `settle` chooses the stored candidates."""
        self.counted.candidates = self._candidates.close()
        self.counted.differences = self._candidates.differences
        if self._scope is not None:
            self.counted.scope_parts = self._scope.close()
        self._closing.close()
        return self.counted

    def add_equal(self, sizes: Sequence[int], groups: int) -> None:
        """Count groups that are equal in all sources, each with the same rows per source."""
        stage = self.layout.stage
        repeated = int(repeated_in(stage, np.array(sizes)))
        self.counted.groups[stage.everywhere, repeated, False, None] += groups
        for index, size in enumerate(sizes):
            self.counted.grouped[index] += size * groups

    def add(self, groups: JudgedGroups) -> None:
        """Add the differences of open groups as candidates."""
        if self.layout.stage.duplicates is DuplicatePolicy.ERROR and groups.repeated.any():
            writer = Writer(self.layout, self.plan.key, Hasher(self._connection))
            repeated = writer.keys(groups.keys.filter(pa.array(groups.repeated)))
            hashes = {each.hex() for each in repeated.hashes.to_pylist()}
            # The smallest hashes, independent of the partitioning.
            self.counted.repeated_keys = sorted({*self.counted.repeated_keys, *hashes})[:SHOWN_KEYS]
        if self._scope is not None:
            self._scope.write(groups.keys.filter(pa.array(groups.differs)))
        if any(map(len, groups.differences)):
            self._candidates.add(self._connection, groups.keys, groups.differences)
