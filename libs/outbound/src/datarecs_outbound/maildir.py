"""Mail into a maildir: `datarecs up` uses it if no relay is set.

The same port as SMTP, with the same guarantee: a mail sent twice is one file, because its name is
made from the Message-ID.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

from datarecs_application.ports.delivery import (
    OutgoingMail,
    RelayLost,
    RelayReplied,
    SendOutcome,
    Withheld,
)
from datarecs_core.notifications.replies import Reply, Stage

_ACCEPTED = 250
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class MaildirMailer:
    """Implements the port Mailer. Creates its folders at the first mail."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def relay(self) -> str:
        return f"maildir {self._folder}"

    def send(self, mail: OutgoingMail, *, may_send_data: Callable[[], bool]) -> SendOutcome:
        name = file_name(mail.message_id)
        try:
            for part in ("tmp", "new", "cur"):
                (self._folder / part).mkdir(mode=0o700, parents=True, exist_ok=True)
            waiting = self._folder / "tmp" / name
            _write(waiting, mail.mime)
            if not may_send_data():
                waiting.unlink()
                return Withheld()
            waiting.replace(self._folder / "new" / name)
        except OSError as cause:
            return RelayLost(reason=f"the maildir cannot be written: {cause.strerror}")
        return RelayReplied(reply=Reply(stage=Stage.DATA, code=_ACCEPTED, text=f"new/{name}"))

    def close(self) -> None:
        """Do nothing, because no connection is open."""


def file_name(message_id: str) -> str:
    """A file name from the local part of the Message-ID; `.eml` so that mail readers open it."""
    return f"{_UNSAFE.sub('_', message_id.strip('<>').partition('@')[0])}.eml"


def _write(path: Path, data: bytes) -> None:
    """Write the file durably."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
