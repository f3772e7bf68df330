"""Number of different values: the smallest hashes of the values, and what they estimate.

A set of at most `SKETCH_HASHES` hashes is exact; of more values the smallest hashes are kept, and
the largest of these shows how dense the hashes are. Two sketches can be united, without any row,
if one function made their hashes.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SKETCH_HASHES = 2048
EXACT_METHOD = "exact"
_NAME_BYTES = 16
_HASH_BYTES = 8
_RANGE = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Hashes of the different values of a column that are not NULL."""

    function: str
    """Name and version of the hash function, up to 16 ASCII characters: `duckdb-2.0.0`."""
    hashes: Sequence[int]
    """Different, ascending, 0 to 2^64 - 1, at most `SKETCH_HASHES`."""
    is_exact: bool
    """Whether these are the hashes of all values."""

    @property
    def distinct(self) -> int:
        """The number of different values, or its estimate (standard error 2.2 %)."""
        if self.is_exact:
            return len(self.hashes)
        return (SKETCH_HASHES - 1) * _RANGE // (self.hashes[-1] + 1)

    @property
    def method(self) -> str:
        return EXACT_METHOD if self.is_exact else f"kmv-{SKETCH_HASHES} {self.function}"

    def to_bytes(self) -> bytes:
        """The name of the function in 16 bytes, then the hashes in 8 bytes each."""
        name = self.function.encode("ascii").ljust(_NAME_BYTES, b"\0")
        return name + struct.pack(f">{len(self.hashes)}Q", *self.hashes)

    @classmethod
    def from_bytes(cls, raw: bytes, method: str | None) -> "Sketch":
        """Of `to_bytes` and `method`. Raises ValueError for other bytes."""
        if len(raw) < _NAME_BYTES or len(raw) % _HASH_BYTES:
            raise ValueError("a sketch has 16 bytes and 8 bytes for each hash")
        name = raw[:_NAME_BYTES].rstrip(b"\0").decode("ascii")
        count = len(raw) // _HASH_BYTES - _NAME_BYTES // _HASH_BYTES
        hashes = struct.unpack_from(f">{count}Q", raw, _NAME_BYTES)
        return cls(function=name, hashes=hashes, is_exact=method == EXACT_METHOD)


def united(sketches: Iterable[Sketch]) -> Sketch | None:
    """The sketch of all values together; None if different functions made the hashes."""
    parts = [sketch for sketch in sketches if sketch.hashes]
    if not parts:
        return None
    if len({sketch.function for sketch in parts}) > 1:
        return None
    hashes = sorted(set().union(*(sketch.hashes for sketch in parts)))
    is_exact = len(hashes) <= SKETCH_HASHES and all(sketch.is_exact for sketch in parts)
    return Sketch(function=parts[0].function, hashes=hashes[:SKETCH_HASHES], is_exact=is_exact)
