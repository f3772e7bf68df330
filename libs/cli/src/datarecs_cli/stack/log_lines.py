"""The log of a supervisor in the background: its messages, one JSON object per line.

In the foreground the same text goes to a terminal; in the background the command that started the
supervisor reads it from the log.
"""

import io
import json
from datetime import datetime
from typing import TextIO

from datarecs_runtime.clock import SystemClock
from datarecs_runtime.redaction import redact

SERVICE = "supervisor"


class JsonLines(io.TextIOBase):
    """A text stream that writes each line as a record to another stream."""

    encoding = "utf-8"

    def __init__(self, log: TextIO) -> None:
        super().__init__()
        self._log, self._begun = log, ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        self._log.writelines(
            record(line, now=SystemClock().now()) for line in lines if line.strip()
        )
        return len(text)

    def flush(self) -> None:
        self._log.flush()


def record(line: str, *, now: datetime) -> str:
    """One line of the log; secrets are masked."""
    fields = {
        "timestamp": now.isoformat(),
        "level": "info",
        "service": SERVICE,
        "event": "message",
        "message": redact(line),
    }
    return json.dumps(fields, ensure_ascii=False) + "\n"


def message_of(line: str) -> str:
    """The message of a line of the log; a line in another format is returned unchanged."""
    try:
        fields = json.loads(line)
    except ValueError:
        return line
    return str(fields.get("message", line)) if isinstance(fields, dict) else line
