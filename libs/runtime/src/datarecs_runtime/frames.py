"""Frames between a supervisor and its child: four bytes of length, then one JSON document.

Both ends use this module. The child's end takes over standard input and output, so that no output
of a library can appear between two frames.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from decimal import Decimal
from typing import IO

_HEADER_BYTES = 4
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""Longest document that a supervisor may send; it only stops a defect."""


class BrokenFrameError(ValueError):
    """The other end did not send a valid frame; reading cannot continue."""


def write_frame(stream: IO[bytes], document: bytes) -> None:
    """Write one document and flush it.

    Raises:
        OSError: the other end has closed the pipe.
    """
    stream.write(len(document).to_bytes(_HEADER_BYTES) + document)
    stream.flush()


def read_frame(stream: IO[bytes], *, max_bytes: int) -> bytes | None:
    """The next document; None if the stream ends between two frames.

    Raises:
        BrokenFrameError: longer than `max_bytes` (checked before reading), or cut off.
    """
    header = stream.read(_HEADER_BYTES)
    if not header:
        return None
    length = int.from_bytes(header)
    if len(header) < _HEADER_BYTES or length > max_bytes:
        raise BrokenFrameError(f"a frame of {length} bytes; at most {max_bytes} are allowed")
    document = stream.read(length)
    if len(document) < length:
        raise BrokenFrameError(f"a frame of {length} bytes was cut off after {len(document)}")
    return document


def parse(document: bytes) -> dict[str, object]:
    """The JSON object of a frame; numbers with a fraction become Decimal.

    Raises:
        BrokenFrameError: not UTF-8, not JSON, not an object, or with NaN or Infinity.
    """
    try:
        value = json.loads(document, parse_float=Decimal, parse_constant=_refused)
    except (ValueError, RecursionError) as cause:
        raise BrokenFrameError("a frame that is not JSON") from cause
    if not isinstance(value, dict):
        raise BrokenFrameError("a frame that is not a JSON object")
    return value


def _refused(name: str) -> object:
    raise ValueError(name)


class SupervisorChannel:
    """The child's end. `send` may be called from several threads."""

    def __init__(self, receiving: IO[bytes], sending: IO[bytes]) -> None:
        self._receiving, self._sending = receiving, sending
        self._lock = threading.Lock()

    def receive(self) -> dict[str, object] | None:
        """Wait for the next frame; None if the supervisor has ended: stop the work and exit."""
        document = read_frame(self._receiving, max_bytes=MAX_DOCUMENT_BYTES)
        return None if document is None else parse(document)

    def send(self, frame: Mapping[str, object]) -> None:
        """Send a document to the supervisor. Values without a JSON form are written as text.

        Raises:
            OSError: the supervisor has ended.
        """
        document = json.dumps(frame, default=str, allow_nan=False, separators=(",", ":")).encode()
        with self._lock:
            write_frame(self._sending, document)


def take_over_stdio() -> SupervisorChannel:
    """The channel over this process's standard input and output, used by no other code after this.

    After the call, reading standard input finds its end, and printed text goes to standard error.
    Call once, before the start of processes that inherit them.
    """
    sys.stdout.flush()
    receiving, sending = os.dup(0), os.dup(1)  # not inherited by later processes
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return SupervisorChannel(os.fdopen(receiving, "rb"), os.fdopen(sending, "wb"))
