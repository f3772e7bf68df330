"""An object as a file: read by ranges, a little in advance where it is read in order."""

from datarecs_connectors.object_stores.bucket import Bucket, StoredObject
from datarecs_connectors.random_access import RangeFile

_LEAST_AHEAD, _MOST_AHEAD = 64 * 1024, 8 * 1024 * 1024


class ObjectFile(RangeFile):
    """One pinned version of an object."""

    def __init__(self, bucket: Bucket, item: StoredObject) -> None:
        super().__init__()
        self._bucket, self._item, self.size = bucket, item, item.size
        self._position, self._start, self._window = 0, 0, memoryview(b"")
        self._ahead = _LEAST_AHEAD

    def independent(self) -> "ObjectFile":
        return ObjectFile(self._bucket, self._item)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {0: 0, 1: self._position, 2: self.size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # what io hands over
        count = min(len(target), max(self.size - self._position, 0))
        filled = 0
        while filled < count:
            part = self._part(count - filled)
            target[filled : filled + len(part)] = part
            filled += len(part)
            self._position += len(part)
        return filled

    def _part(self, wanted: int) -> memoryview:
        """Bytes at the position: at least one, at most `wanted`."""
        end = self._start + len(self._window)
        if not self._start <= self._position < end:
            in_order = self._position == end
            self._ahead = min(self._ahead * 2, _MOST_AHEAD) if in_order else _LEAST_AHEAD
            stop = min(self._position + max(wanted, self._ahead), self.size)
            data = self._bucket.read(self._item, self._position, stop)
            self._start, self._window = self._position, memoryview(data)
        first = self._position - self._start
        return self._window[first : first + wanted]
