"""Files that are read by ranges: objects in a store have no descriptor.

Separate because readers of Parquet use a descriptor where one exists: it refers to exactly the file
that was checked, also after its name was taken by another file.
"""

import io
import os
from abc import abstractmethod
from typing import BinaryIO

import pyarrow as pa


class RangeFile(io.RawIOBase):
    """A file of a known size without a descriptor."""

    size: int
    """Bytes."""

    @abstractmethod
    def independent(self) -> "RangeFile":
        """The same file with its own position, open after this one is closed."""


def has_descriptor(file: BinaryIO) -> bool:
    return not isinstance(file, RangeFile)


def size_of(file: BinaryIO) -> int:
    """Bytes of an open file."""
    return file.size if isinstance(file, RangeFile) else os.fstat(file.fileno()).st_size


def last_bytes(file: BinaryIO, count: int) -> bytes:
    """The end of a file; its position may change."""
    start = max(size_of(file) - count, 0)
    if not isinstance(file, RangeFile):
        return os.pread(file.fileno(), count, start)
    file.seek(start)
    return file.read(count) or b""


def arrow_source(file: BinaryIO) -> "str | pa.PythonFile":
    """What pyarrow opens; `file` may be closed afterwards."""
    if isinstance(file, RangeFile):
        return pa.PythonFile(file.independent(), mode="r")
    return f"/dev/fd/{file.fileno()}"
