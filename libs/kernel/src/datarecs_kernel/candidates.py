"""Differences of one task that may be stored, in temporary files until all are counted.

Every difference is a candidate until the limit of the stage is exceeded. After that a cut over the
rows so far selects candidates, and texts are made only for candidates.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from datarecs_kernel.choosing import (
    NO_CHOICES,
    NO_SIZE,
    Choices,
    Cut,
    candidate_cut,
    joined,
    largest,
    measure_names,
)
from datarecs_kernel.columns import Flags, Numbers
from datarecs_kernel.database import BATCH_BYTES, Connection
from datarecs_kernel.differing import Differences
from datarecs_kernel.layout import Layout
from datarecs_kernel.ranks import ranks_of
from datarecs_kernel.stored import native_of
from datarecs_kernel.unidentified import (
    GROUP,
    SIZE,
    Unidentified,
    chosen_rows,
    sizes_of,
    unidentified_schema,
)

CANDIDATES = "candidates-"
"""Prefix of file names."""
BATCH_ROWS = 2**16
"""Rows in a batch of the files; fewer if texts are long (`database.BATCH_BYTES`)."""
_SLACK = 3
"""Factor by which the files may exceed the limit before they are rewritten."""
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_CHOOSING = ("measure", GROUP, SIZE)
"""Columns that the choice uses, in addition to keys."""


class CandidateFiles:
    """Keys of groups and rows of differences, in pairs of files that are written one by one."""

    def __init__(self, layout: Layout, directory: Path, names: Sequence[str]) -> None:
        """Use new files, or the files with these names."""
        self.names = list(names)
        self.rows = 0
        """Written so far."""
        self._directory = directory
        # A column that always exists, so that keys without parts have a length.
        keys = [(name, native_of(layout, name)) for name in layout.key_names]
        self._schemas = [pa.schema([*keys, (GROUP, pa.int64())]), unidentified_schema()]
        self._writers: list[pa.ipc.RecordBatchStreamWriter] = []
        self._waiting: list[tuple[pa.RecordBatch, pa.RecordBatch]] = []
        self._rows_waiting = self._bytes_waiting = 0

    def add(self, name: str, keys: pa.RecordBatch, rows: pa.RecordBatch) -> None:
        """Write groups and differences; `name` is used if a new file is started."""
        if GROUP not in keys.schema.names:
            keys = keys.append_column(GROUP, pa.array(np.arange(keys.num_rows)))
        if not self._writers:
            self._begin(name)
        self._waiting.append((keys.cast(self._schemas[0]), rows))
        self._rows_waiting += rows.num_rows
        self._bytes_waiting += keys.nbytes + rows.nbytes
        self.rows += rows.num_rows
        if self._rows_waiting >= BATCH_ROWS or self._bytes_waiting >= BATCH_BYTES:
            self._flush()

    def close(self) -> None:
        """Close the files; later rows go to new files."""
        if self._waiting:
            self._flush()
        for writer in self._writers:
            writer.close()
        self._writers = []

    def read(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Batches of keys and rows; only after `close`."""
        return self._read(None)

    def read_choosing(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """The same batches, with only the row columns that the choice uses."""
        fields = [self._schemas[1].get_field_index(name) for name in _CHOOSING]
        return self._read(pa.ipc.IpcReadOptions(included_fields=fields))

    def remove(self) -> None:
        for name in self.names:
            for path in self._paths(name):
                path.unlink()
        self.names, self.rows = [], 0

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self._directory / f"{name}.keys.arrow", self._directory / f"{name}.rows.arrow"

    def _begin(self, name: str) -> None:
        self.names.append(name)
        self._writers = [
            pa.ipc.new_stream(str(path), schema, options=_OPTIONS)
            for path, schema in zip(self._paths(name), self._schemas, strict=True)
        ]

    def _flush(self) -> None:
        starts = np.cumsum([0, *(keys.num_rows for keys, _ in self._waiting)])
        moved = [
            rows.set_column(0, GROUP, pa.array(rows.column(GROUP).to_numpy() + start))
            for (_, rows), start in zip(self._waiting, starts, strict=False)
        ]
        self._writers[0].write_batch(pa.concat_batches([keys for keys, _ in self._waiting]))
        self._writers[1].write_batch(pa.concat_batches(moved))
        self._waiting, self._rows_waiting, self._bytes_waiting = [], 0, 0

    def _read(
        self, options: pa.ipc.IpcReadOptions | None
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        for name in self.names:
            keys_path, rows_path = map(str, self._paths(name))
            with pa.OSFile(keys_path) as keys, pa.OSFile(rows_path) as rows:
                yield from zip(
                    pa.ipc.open_stream(keys), pa.ipc.open_stream(rows, options=options), strict=True
                )


def choices_of(
    connection: Connection, layout: Layout, keys: pa.RecordBatch, rows: pa.RecordBatch
) -> Choices:
    """The columns of the files that the choice uses."""
    ranks = ranks_of(connection, layout.keys, keys)
    sizes = rows.column(SIZE).fill_null(NO_SIZE).to_numpy(zero_copy_only=False)
    measures = rows.column("measure").to_numpy().astype(np.int64)
    return Choices(ranks[rows.column(GROUP).to_numpy()], sizes, measures)


class Candidates:
    """Candidates of one attempt of a task."""

    def __init__(self, layout: Layout, directory: Path, attempt: str) -> None:
        self.layout, self.caps = layout, layout.stage.caps
        self.differences = 0
        """Number of added differences."""
        self._directory, self._attempt, self._begun = directory, attempt, 0
        self._files = CandidateFiles(layout, directory, ())
        self._unidentified = Unidentified(layout)
        self._measures = {name: at for at, name in enumerate(measure_names(layout))}
        self._cut: Cut | None = None
        self._rows, self._added = NO_CHOICES, list[Choices]()

    def add(
        self, connection: Connection, keys: pa.RecordBatch, differences: Sequence[Differences]
    ) -> None:
        """Add differences of groups with these keys.

        Args:
            connection: for ranks.
            keys: key columns of the layout.
            differences: their groups are rows of `keys`.
        """
        self.differences += sum(map(len, differences))
        if not self.caps.max_rows:
            return
        if self.differences <= self.caps.max_rows:
            self._write(keys, [(each, np.arange(len(each))) for each in differences])
            return
        if self._cut is None:
            self._files.close()
            read = self._files.read_choosing()
            self._added = [choices_of(connection, self.layout, *batches) for batches in read]
            self._tighten(connection)
        self._choose(connection, keys, differences)

    def close(self) -> list[str]:
        """Close the files and return their names."""
        self._files.close()
        return self._files.names

    def _choose(
        self, connection: Connection, keys: pa.RecordBatch, differences: Sequence[Differences]
    ) -> None:
        """Write the candidates among differences."""
        used = flags_at(keys.num_rows, [each.groups for each in differences])
        ranks = np.zeros(keys.num_rows, np.uint64)
        ranks[used] = ranks_of(connection, self.layout.keys, keys.filter(pa.array(used)))
        chosen = []
        for each in differences:
            measures = np.full(len(each), self._measures[each.measure])
            rows = Choices(ranks[each.groups], sizes_of(each), measures)
            flags = self._is_candidate(rows)
            self._added.append(rows.take(flags))
            chosen.append((each, np.flatnonzero(flags)))
        self._write(keys, chosen)
        if sum(map(len, self._added)) >= max(self.caps.max_rows // 4, BATCH_ROWS):
            self._tighten(connection)

    def _is_candidate(self, rows: Choices) -> Flags:
        if self._cut is None:
            raise RuntimeError("there is no cut before the limit is passed")
        # If sizes increase from row to row, only the last rows of a batch need texts.
        by_size = self._cut.allows_size(rows)
        by_size[by_size] = largest(rows.take(by_size), self.caps)
        return by_size | self._cut.allows_rank(rows)

    def _write(self, keys: pa.RecordBatch, chosen: Sequence[tuple[Differences, Numbers]]) -> None:
        groups = [each.groups[at] for each, at in chosen]
        used = flags_at(keys.num_rows, groups)
        numbers = np.cumsum(used) - 1
        rows = [
            self._unidentified.rows(each, at, numbers[places])
            for (each, at), places in zip(chosen, groups, strict=True)
            if len(at)
        ]
        if rows:
            self._add(self._files, keys.filter(pa.array(used)), pa.concat_batches(rows))

    def _add(self, files: CandidateFiles, keys: pa.RecordBatch, rows: pa.RecordBatch) -> None:
        self._begun += 1
        files.add(f"{CANDIDATES}{self._attempt}-{self._begun}", keys, rows)

    def _tighten(self, connection: Connection) -> None:
        """Recompute the cut; rewrite the files if most of their rows are no longer candidates."""
        rows = joined([self._rows, *self._added])
        self._cut, self._added = candidate_cut(rows, self.caps, len(self._measures)), []
        self._rows = rows.take(self._cut.allows(rows))
        if self._files.rows > _SLACK * max(len(self._rows), BATCH_ROWS):
            self._rewrite(connection, self._cut)

    def _rewrite(self, connection: Connection, cut: Cut) -> None:
        old, self._files = self._files, CandidateFiles(self.layout, self._directory, ())
        old.close()
        for keys, rows in old.read():
            allowed = cut.allows(choices_of(connection, self.layout, keys, rows))
            self._add(self._files, *chosen_rows(keys, rows, allowed))
        old.remove()


def flags_at(rows: int, places: Sequence[Numbers]) -> Flags:
    """Flags of `count` rows, set at some places."""
    flags = np.zeros(rows, np.bool_)
    for at in places:
        flags[at] = True
    return flags
