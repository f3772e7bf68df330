"""A stream of bytes over an iterator of chunks."""

import io
from collections.abc import Iterator
from typing import BinaryIO


class _Chunks(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes], opened: BinaryIO) -> None:
        super().__init__()
        self._chunks, self._opened = chunks, opened
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # what io passes
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._opened.close()
        super().close()


def stream_of(chunks: Iterator[bytes], opened: BinaryIO, buffer_bytes: int) -> BinaryIO:
    """Read the chunks as one stream; closing it closes their iterator."""
    return io.BufferedReader(_Chunks(chunks, opened), buffer_bytes)
