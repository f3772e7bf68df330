"""Which rows each task of a cluster reads: whole files, or ranges of one file's row groups.

Every row of every source lies in exactly one share, and shares are about equal in bytes. Its own
module because footers decide here, and nothing that is read does.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_spark.kernel_work import KernelSource, sql_text
from datarecs_spark.native_errors import NotNativeError

_NUMBER = "file_row_number"
"""A row's place in its file, as DuckDB calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSource(KernelSource):
    """Some rows of one file; row groups outside are not read."""

    first: int
    end: int
    """The row behind the last."""

    @property
    def everything(self) -> str:
        """All rows of the range."""
        (file,) = self.files
        options = f"hive_partitioning = false, union_by_name = false, {_NUMBER} = true"
        return (
            f"(SELECT * FROM read_parquet([{sql_text(file)}], {options})"  # noqa: S608 - made of literals
            f" WHERE {_NUMBER} BETWEEN {self.first} AND {self.end - 1})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one task reads of one source."""

    index: int
    """Of the source."""
    source: KernelSource


Share = tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A file, or a range of its rows."""

    index: int
    file: str
    size_bytes: int
    rows: tuple[int, int] | None = None


def shares(sources: Sequence[KernelSource], most: int) -> tuple[Share, ...]:
    """Cut the sources into so many shares, or fewer where there are not as many row groups.

    Raises:
        NotNativeError: a file cannot be looked at.
    """
    try:
        pieces = list(_pieces(sources, most))
    except (pa.ArrowException, OSError) as cause:
        raise NotNativeError("a footer cannot be read") from cause
    loads: list[tuple[int, int, list[_Piece]]] = [(0, at, []) for at in range(most)]
    for piece in sorted(pieces, key=lambda each: -each.size_bytes):
        load, at, taken = loads[0]
        taken.append(piece)
        heapq.heapreplace(loads, (load + piece.size_bytes, at, taken))
    by_share = [own for _, _, own in sorted(loads, key=lambda each: each[1])]
    return tuple(tuple(_parts(sources, own)) for own in by_share if own)


def _pieces(sources: Sequence[KernelSource], shares: int) -> Iterator[_Piece]:
    sizes = [[Path(file).stat().st_size for file in source.files] for source in sources]
    wanted = max(1, sum(map(sum, sizes)) // shares)
    for index, source in enumerate(sources):
        for file, size in zip(source.files, sizes[index], strict=True):
            whole = _Piece(index=index, file=file, size_bytes=size)
            yield from (_cut(whole, wanted) if size > wanted else [whole])


def _cut(whole: _Piece, wanted: int) -> Iterator[_Piece]:
    """Ranges of row groups that have so many bytes together, as far as rows tell it."""
    footer = pq.ParquetFile(whole.file)
    rows = footer.metadata.num_rows
    named = {name.lower() for name in footer.schema.to_arrow_schema().names}
    if not rows or _NUMBER in named:
        yield whole
        return
    groups = range(footer.metadata.num_row_groups)
    first = 0
    for end in accumulate(footer.metadata.row_group(at).num_rows for at in groups):
        size = (end - first) * whole.size_bytes // rows
        if end > first and (size >= wanted or end == rows):
            yield _Piece(index=whole.index, file=whole.file, size_bytes=size, rows=(first, end))
            first = end


def _parts(sources: Sequence[KernelSource], pieces: Sequence[_Piece]) -> Iterator[Part]:
    """Whole files of a source are read together."""
    for index, source in enumerate(sources):
        own = [piece for piece in pieces if piece.index == index]
        files = tuple(piece.file for piece in own if piece.rows is None)
        known = {each.name: getattr(source, each.name) for each in fields(KernelSource)}
        if files:
            yield Part(index=index, source=KernelSource(**{**known, "files": files}))
        for piece in own:
            if piece.rows is not None:
                first, end = piece.rows
                place = {"files": (piece.file,), "rows": end - first, "first": first, "end": end}
                yield Part(index=index, source=RangeSource(**{**known, **place}))
