"""Writes the output of a child and its processes as records of this process's log.

Spark's Java process, its Python workers and native libraries print in different formats; each piece
becomes one record, redacted and cut like any other.
"""

import json
import os
import select
from typing import IO

import structlog

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
MAX_PIECE_BYTES = 64 * 1024
_SAME_PIECE_S = 0.05
"""Output without a longer pause is one piece, such as the lines of a traceback."""


def log_output(pipe: IO[bytes]) -> None:
    """Log all output until the pipe ends, and close the pipe."""
    with pipe:
        while piece := _next_piece(pipe.fileno()):
            for message in _messages(piece.decode(errors="replace")):
                log.warning("child_output", message=message)


def _next_piece(descriptor: int) -> bytes:
    """One piece of output; empty at the end."""
    piece = os.read(descriptor, MAX_PIECE_BYTES)
    while piece and len(piece) < MAX_PIECE_BYTES:
        readable, _, _ = select.select([descriptor], [], [], _SAME_PIECE_S)
        more = os.read(descriptor, MAX_PIECE_BYTES - len(piece)) if readable else b""
        if not more:
            break
        piece += more
    return piece


def _messages(text: str) -> list[str]:
    """Split a piece: each JSON object is one message, other consecutive lines are one message."""
    messages: list[str] = []
    plain: list[str] = []
    for line in text.splitlines():
        if _is_object(line):
            messages += ["\n".join(plain)] if plain else []
            messages.append(line)
            plain = []
        elif line.strip():
            plain.append(line)
    return [*messages, "\n".join(plain)] if plain else messages


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
