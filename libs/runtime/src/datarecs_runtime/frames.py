"""Frames between a supervisor and its child: four bytes of length, then one JSON document.

Its own module because both ends read and write the same bytes. The child's end takes standard input
and output over, so that nothing a library prints can slip between two frames.
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
"""Longest document a supervisor may send: plans are its own, so this only stops a runaway."""


class BrokenFrameError(ValueError):
    """What the other end sent is no frame; reading cannot go on."""


def write_frame(stream: IO[bytes], document: bytes) -> None:
    """Write one document and flush it.

    Raises:
        OSError: the other end has closed the pipe.
    """
    stream.write(len(document).to_bytes(_HEADER_BYTES) + document)
    stream.flush()


def read_frame(stream: IO[bytes], *, max_bytes: int) -> bytes | None:
    """The next document; None when the stream ends between two frames.

    Raises:
        BrokenFrameError: longer than `max_bytes`, told before anything is read, or cut off.
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
        BrokenFrameError: no UTF-8, no JSON, no object, or NaN and Infinity.
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
        """Wait for the next frame; None when the supervisor is gone: stop the work and exit."""
        document = read_frame(self._receiving, max_bytes=MAX_DOCUMENT_BYTES)
        return None if document is None else parse(document)

    def send(self, frame: Mapping[str, object]) -> None:
        """Tell the supervisor something. Values JSON does not know are written as their text.

        Raises:
            OSError: the supervisor is gone.
        """
        document = json.dumps(frame, default=str, allow_nan=False, separators=(",", ":")).encode()
        with self._lock:
            write_frame(self._sending, document)


def take_over_stdio() -> SupervisorChannel:
    """The channel over this process's standard input and output, which are then nobody else's.

    From here on reading standard input finds its end, and whatever is printed goes to standard
    error. Call once, before anything is started that inherits them.
    """
    sys.stdout.flush()
    receiving, sending = os.dup(0), os.dup(1)  # not inherited by anything started later
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return SupervisorChannel(os.fdopen(receiving, "rb"), os.fdopen(sending, "wb"))
