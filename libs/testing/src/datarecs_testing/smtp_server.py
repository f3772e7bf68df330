"""An SMTP relay of a test: a real server on the loopback that fails according to its script.

A separate module because the adapter, the notifier and the end-to-end tests all read the mails that
a relay has stored.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass(slots=True)
class Script:
    """What the relay answers; the empty script accepts everything.

    Lists are used up one answer per transaction; then everything is accepted again.
    """

    mail: list[str] = field(default_factory=list)
    rcpt: dict[str, list[str]] = field(default_factory=dict)
    """By recipient."""
    data: list[str] = field(default_factory=list)
    """`drop` stores the mail and closes the connection; `late` answers after `late_s`."""
    late_s: float = 5.0
    password: str | None = None
    """The only accepted password; None: any login is refused, none is needed."""
    stored: list[tuple[str, bytes]] = field(default_factory=list)
    """(recipient, content) of every stored mail, in order."""
    commands: list[str] = field(default_factory=list)
    """MAIL, RCPT and DATA commands, in order."""
    connections: int = 0


class _Handler:
    """Hooks of aiosmtpd: it defines their names, arguments are positional."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def handle_MAIL(  # noqa: N802  aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, *arguments: str
    ) -> str:
        self._script.commands.append("MAIL")
        if self._script.mail:
            return self._script.mail.pop(0)
        envelope.mail_from = arguments[0]
        return "250 ok"

    async def handle_RCPT(  # noqa: N802  aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, *arguments: str
    ) -> str:
        self._script.commands.append("RCPT")
        answers = self._script.rcpt.get(arguments[0], [])
        if answers:
            return answers.pop(0)
        envelope.rcpt_tos.append(arguments[0])
        return "250 ok"

    async def handle_DATA(  # noqa: N802  aiosmtpd's name
        self, server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        self._script.commands.append("DATA")
        answer = self._script.data.pop(0) if self._script.data else "250 2.0.0 stored"
        if answer in {"drop", "late"} or answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self._script.stored += [(one, envelope.content) for one in envelope.rcpt_tos]
        if answer == "drop" and isinstance(server.transport, asyncio.Transport):
            server.transport.abort()
        if answer == "late":
            await asyncio.sleep(self._script.late_s)
        return "250 late" if answer in {"drop", "late"} else answer


class _Connections(Controller):
    """Counts connections, for which there is no hook."""

    def __init__(self, script: Script, **options: Any) -> None:  # noqa: ANN401  aiosmtpd's options
        self._script = script
        super().__init__(_Handler(script), **options)

    def factory(self) -> SMTP:
        self._script.connections += 1
        made: SMTP = super().factory()  # type: ignore[no-untyped-call]  # aiosmtpd's own
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRelay:
    """A running relay."""

    __test__ = False  # pytest: no test class

    host: str
    port: int
    script: Script


@contextmanager
def smtp_relay(
    script: Script | None = None, *, tls: ssl.SSLContext | None = None, smtputf8: bool = False
) -> Iterator[TestRelay]:
    """A relay for as long as the block lasts; with a context it offers STARTTLS and AUTH."""
    chosen = script or Script()

    def authenticate(*arguments: object) -> AuthResult:
        login = arguments[-1]
        ok = isinstance(login, LoginPassword) and login.password.decode() == chosen.password
        return AuthResult(success=ok, handled=False)

    controller = _Connections(
        chosen,
        hostname="127.0.0.1",
        port=free_port(),
        tls_context=tls,
        require_starttls=tls is not None,
        auth_required=chosen.password is not None,
        authenticator=authenticate,
        enable_SMTPUTF8=smtputf8,
    )
    controller.start()
    chosen.connections = 0  # the controller has dialled itself to see that it works
    try:
        yield TestRelay(host="127.0.0.1", port=controller.port, script=chosen)
    finally:
        controller.stop()


def free_port() -> int:
    """A free port of the loopback (the server cannot start with port 0)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
