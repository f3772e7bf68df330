"""Catches mails as Mailpit does: STARTTLS is required, and every mail becomes a file."""

import os
import ssl
from pathlib import Path
from threading import Event

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

FOLDER = Path("/tmp/mails")  # noqa: S108  a tmpfs of the container


class Catcher:
    """Stores each mail under its number."""

    def __init__(self) -> None:
        self.count = 0

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802  the name is the library's
        self.count += 1
        content = envelope.original_content or b""
        (FOLDER / f"{self.count}.eml").write_bytes(content)
        return "250 OK"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    files = os.environ["MP_SMTP_TLS_CERT"], os.environ["MP_SMTP_TLS_KEY"]  # noqa: TID251  a separate program
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    server = Controller(
        Catcher(), hostname="", port=1025, tls_context=context, require_starttls=True
    )
    server.start()
    Event().wait()


if __name__ == "__main__":
    main()
