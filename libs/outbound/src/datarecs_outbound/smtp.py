"""Mail to the relay over SMTP: one transaction per recipient, TLS before the login and the mail.

Commands are sent one by one, so that the phase can be committed between RCPT and DATA. Every kind
of end is a value; core decides the classes of replies.
"""

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import aiosmtplib

from datarecs_application.ports.delivery import (
    OutgoingMail,
    RelayLost,
    RelayReplied,
    SendOutcome,
    SmtpUtf8Missing,
    Withheld,
)
from datarecs_core.notifications.replies import Reply, Stage

MAX_TEXT = 500
_ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayAccess:
    """The address and login of the relay; only the operator sets them."""

    host: str
    port: int
    security: str
    """`starttls` (required, no fallback), `tls`, or `none` for a relay on loopback."""
    envelope_from: str
    ehlo_name: str | None = None
    username: str | None = None
    password: str | None = None
    """Sent only after TLS."""
    ca_file: Path | None = None
    """None: the system's store; the certificate is always checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpLimits:
    connect: timedelta = timedelta(seconds=10)
    command: timedelta = timedelta(seconds=30)
    data: timedelta = timedelta(seconds=120)
    total: timedelta = timedelta(seconds=180)
    """Time limit of one mail; below its lease."""
    mails_per_connection: int = 100
    idle: timedelta = timedelta(seconds=30)
    """After this a connection is not used again."""


DEFAULT_LIMITS = SmtpLimits()


class _Client(aiosmtplib.SMTP):
    AUTH_METHODS = ("plain", "login")


class SmtpMailer:
    """Implements the port Mailer. For one thread; keeps a connection open between mails."""

    def __init__(self, access: RelayAccess, *, limits: SmtpLimits = DEFAULT_LIMITS) -> None:
        self._access, self._limits = access, limits
        self._runner = asyncio.Runner()
        self._client: _Client | None = None
        self._said = 0
        self._last_used = 0.0

    @property
    def relay(self) -> str:
        return f"{self._access.host}:{self._access.port}"

    def send(self, mail: OutgoingMail, *, may_send_data: Callable[[], bool]) -> SendOutcome:
        return self._runner.run(self._send(mail, may_send_data))

    def close(self) -> None:
        with contextlib.suppress(aiosmtplib.SMTPException, OSError):
            self._runner.run(self._leave())
        self._runner.close()

    async def _send(self, mail: OutgoingMail, may_send_data: Callable[[], bool]) -> SendOutcome:
        try:
            async with asyncio.timeout(self._limits.total.total_seconds()):
                outcome = await self._said_once(mail, may_send_data)
        except (aiosmtplib.SMTPException, OSError, ValueError) as cause:
            await self._hang_up()
            return RelayLost(reason=_reason(cause))
        self._last_used = time.monotonic()
        return outcome

    async def _said_once(
        self, mail: OutgoingMail, may_send_data: Callable[[], bool]
    ) -> SendOutcome:
        try:
            client = await self._connected()
            international = not mail.recipient.isascii()
            if international and not client.supports_extension("smtputf8"):
                return SmtpUtf8Missing()
            await self._named(client, mail.recipient, international=international)
            if not may_send_data():
                await client.rset(timeout=self._limits.command.total_seconds())
                return Withheld()
            answer = await client.data(mail.mime, timeout=self._limits.data.total_seconds())
            self._said += 1
            reply = Reply(stage=Stage.DATA, code=answer.code, text=_shown(answer.message))
            return RelayReplied(reply=reply, tls_version=_tls_version(client))
        except aiosmtplib.SMTPResponseException as cause:
            stage = _stage(cause)
            version = _tls_version(self._client) if self._client else ""
            await self._after_refusal(stage)
            text = _enhanced(cause.message) if stage is Stage.AUTH else _shown(cause.message)
            reply = Reply(stage=stage, code=cause.code, text=text)
            return RelayReplied(reply=reply, tls_version=version)

    async def _named(self, client: _Client, recipient: str, *, international: bool) -> None:
        """Send MAIL and RCPT: the sender and the recipient."""
        timeout = self._limits.command.total_seconds()
        options = ["SMTPUTF8"] if international else []
        encoding = "utf-8" if international else "ascii"
        await client.mail(
            self._access.envelope_from, options=options, encoding=encoding, timeout=timeout
        )
        await client.rcpt(recipient, encoding=encoding, timeout=timeout)

    async def _connected(self) -> _Client:
        """The open connection if it still answers, else a new one."""
        client = self._client
        idle = time.monotonic() - self._last_used
        if client is not None and (
            self._said >= self._limits.mails_per_connection
            or idle > self._limits.idle.total_seconds()
        ):
            await self._leave()
        elif client is not None:
            try:
                await client.noop(timeout=self._limits.command.total_seconds())
            except (aiosmtplib.SMTPException, OSError):
                await self._hang_up()
            else:
                return client
        return await self._dialled()

    async def _dialled(self) -> _Client:
        access = self._access
        client = self._client = _Client(
            hostname=access.host,
            port=access.port,
            local_hostname=access.ehlo_name,
            use_tls=access.security == "tls",
            start_tls=access.security == "starttls",
            tls_context=_tls(access) if access.security != "none" else None,
            timeout=self._limits.connect.total_seconds(),
        )
        self._said = 0
        await client.connect()
        if client.is_ehlo_or_helo_needed:
            await client.ehlo(timeout=self._limits.command.total_seconds())
        if access.username is not None:
            if access.security == "none":
                raise ValueError("a login is never sent without TLS")
            timeout = self._limits.command.total_seconds()
            await client.login(access.username, access.password or "", timeout=timeout)
        return client

    async def _after_refusal(self, stage: Stage) -> None:
        """Handle a refusal: after a refused mail the connection stays usable, else it is closed."""
        if stage in {Stage.CONNECT, Stage.AUTH} or self._client is None:
            await self._hang_up()
            return
        try:
            await self._client.rset(timeout=self._limits.command.total_seconds())
        except (aiosmtplib.SMTPException, OSError):
            await self._hang_up()

    async def _leave(self) -> None:
        try:
            if self._client is not None:
                timeout = self._limits.connect.total_seconds()
                await self._client.execute_command(b"QUIT", timeout=timeout)
        finally:
            await self._hang_up()

    async def _hang_up(self) -> None:
        """Close the socket now, because the loop may not run again for a long time."""
        client, self._client = self._client, None
        if client is not None and isinstance(client.transport, asyncio.WriteTransport):
            client.transport.abort()
            client.close()
            await asyncio.sleep(0)


def _tls(access: RelayAccess) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=access.ca_file)


def _tls_version(client: _Client) -> str:
    tls = client.get_transport_info("ssl_object") if client.is_connected else None
    return str(tls.version()) if isinstance(tls, ssl.SSLObject) else ""


def _stage(cause: aiosmtplib.SMTPResponseException) -> Stage:
    match cause:
        case aiosmtplib.SMTPAuthenticationError():
            return Stage.AUTH
        case aiosmtplib.SMTPSenderRefused():
            return Stage.MAIL
        case aiosmtplib.SMTPRecipientRefused():
            return Stage.RCPT
        case aiosmtplib.SMTPDataError():
            return Stage.DATA
        case _:
            return Stage.CONNECT


def _shown(text: str) -> str:
    """The relay's reply for a log: one line, printable, cut."""
    line = " ".join(text.split())
    return "".join(one if one.isprintable() else "?" for one in line)[:MAX_TEXT]


def _enhanced(text: str) -> str:
    """Only the enhanced code, because other text of the reply to a login may repeat the login."""
    match = _ENHANCED.match(text)
    return match.group() if match else ""


def _reason(cause: Exception) -> str:
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    tls = cause if isinstance(cause, ssl.SSLError) else cause.__cause__
    if isinstance(tls, ssl.SSLCertVerificationError):
        return f"the relay's certificate is not valid: {tls.verify_message}"
    return _shown(f"{type(cause).__name__}: {cause}")
