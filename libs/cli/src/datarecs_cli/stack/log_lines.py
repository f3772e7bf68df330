"""The log of a supervisor in the background: what it says to people, one JSON object a line.

Its own module because the same text goes to a terminal in the foreground and is read back by the
command that started it in the background.
"""

import io
import json
from datetime import datetime
from typing import TextIO

from datarecs_runtime.clock import SystemClock
from datarecs_runtime.redaction import redact

SERVICE = "supervisor"


class JsonLines(io.TextIOBase):
    """A text stream that writes each line as a record into another one."""

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
    """What a line of the log says; a line in another form says itself."""
    try:
        fields = json.loads(line)
    except ValueError:
        return line
    return str(fields.get("message", line)) if isinstance(fields, dict) else line
