"""Shares of a stage's files for tasks: of similar size, every row in exactly one of them.

A file that is larger than a task's share is divided by row numbers; DuckDB reads only the row
groups with these rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from datarecs_core.comparison.planning.scan import PinnedFile
from datarecs_kernel.delivered import Delivered, FilePiece, Share
from datarecs_kernel.readings import Rechecks, Shares

SMALLEST_BYTES = 2**23
"""Minimum bytes of a part of a file: a smaller part is read faster than a task starts."""
_CUT = 2
_ENDLESS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    recheck: int
    source: int
    size_bytes: int
    piece: FilePiece


def shares_of(rechecks: Rechecks, tasks: int) -> tuple[Shares, ...]:
    """The share of each task; the same files and number give the same shares.

    Args:
        rechecks: complete, as `read_sources` returns them.
        tasks: the maximum number, at least 1.
    """
    total = sum(
        file.size_bytes for sources in rechecks for each in sources for file in _files(each)
    )
    part = max(total // tasks, SMALLEST_BYTES)
    pieces = [
        _Piece(recheck=recheck, source=at, size_bytes=size, piece=piece)
        for recheck, sources in enumerate(rechecks)
        for at, source in enumerate(sources)
        for size, piece in _pieces(source, part)
    ]
    heaps: list[list[_Piece]] = [[] for _ in range(max(1, min(tasks, len(pieces))))]
    sizes = [0] * len(heaps)
    for piece in sorted(pieces, key=lambda each: -each.size_bytes):
        smallest = sizes.index(min(sizes))
        heaps[smallest].append(piece)
        sizes[smallest] += piece.size_bytes
    return tuple(_shares(rechecks, heap) for heap in heaps)


def _files(source: Delivered) -> tuple[PinnedFile, ...]:
    return () if source.files is None else source.files.files


def _pieces(source: Delivered, part: int) -> Iterator[tuple[int, FilePiece]]:
    """Parts of the files of a source, with their sizes."""
    for number, file in enumerate(_files(source)):
        rows = file.rows or 0
        cuts = min(-(-file.size_bytes // part), rows)
        if cuts < _CUT or not source.has_row_numbers:
            yield file.size_bytes, FilePiece(file=number)
            continue
        edges = [rows * at // cuts for at in range(cuts + 1)]
        # The last part has all following rows, independent of the pinned number.
        edges[-1] = _ENDLESS
        for first, after in pairwise(edges):
            yield file.size_bytes // cuts, FilePiece(file=number, rows=(first, after))


def _shares(rechecks: Rechecks, pieces: list[_Piece]) -> Shares:
    return tuple(
        tuple(
            Share(
                pieces=tuple(
                    each.piece for each in pieces if (each.recheck, each.source) == (recheck, at)
                ),
                columns=source.columns,
                wide=source.wide,
            )
            for at, source in enumerate(sources)
        )
        for recheck, sources in enumerate(rechecks)
    )
