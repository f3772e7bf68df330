"""`datarecs doctor --mail`: checks the mail settings, the relay, and headers of a received mail.

The dialogue with the relay ends after MAIL FROM; no mail is sent. The headers come from a received
mail, because only that has the relay's signature. They are read as raw text, because the library's
parser of structured headers fails on malformed ones.
"""

import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

from datarecs_cli.check_steps import STEP_LIMIT_S, CheckStep, Outcome, failed, skipped, warned
from datarecs_cli.invocation import UsageFault
from datarecs_runtime.sections import Links, Mail, MailSecurity, MailTransport
from datarecs_runtime.settings import ServiceSettings

SIGNED = ("list-unsubscribe", "list-unsubscribe-post")
"""Headers that the relay's DKIM signature has to cover for one-click (RFC 8058)."""
_ONE_CLICK = "List-Unsubscribe=One-Click"


class MailSettings(ServiceSettings):
    """The mail settings of the email-notifier."""

    mail: Mail
    """The relay."""
    links: Links = Links()
    """How links are signed."""


def mail_steps(settings: MailSettings | None, received: Path | None) -> Iterator[CheckStep]:
    """Steps of settings and relay, if there are settings, then those of a received mail."""
    if settings is not None:
        yield CheckStep("settings", "recipients", lambda: _recipients(settings))
        yield CheckStep("settings", "links", lambda: _links(settings))
        yield from _relay_steps(settings)
    if received is None:
        missing = "no received mail was named"
        fix = "save one as a file and name it: datarecs doctor --mail received.eml"
        yield CheckStep("received mail", "headers", lambda: skipped(missing, fix))
        return
    for name, check in _HEADERS.items():
        yield CheckStep(name, "header", lambda check=check: check(_message(received)))  # type: ignore[misc]  # the check of this turn


def _recipients(settings: MailSettings) -> Outcome:
    domains = settings.mail.recipient_domains
    count = sum(map(len, domains.values()))
    if not count:
        return warned(
            "no tenant may send mails to any address",
            "set DATARECS_MAIL__RECIPIENT_DOMAINS, for email-notifier and core-api",
        )
    return Outcome(seen=f"{count} domains of {len(domains)} tenants")


def _links(settings: MailSettings) -> Outcome:
    if settings.base_url is None:
        return failed("DATARECS_BASE_URL is missing", "set it: links in mails start with it")
    if urlsplit(settings.base_url).scheme != "https":
        return warned(
            "the base URL is not https, so one-click unsubscribing does not work",
            "set DATARECS_BASE_URL to the https address of the API",
        )
    if settings.links.key is None:
        return warned(
            "mails have no links that work without a sign-in",
            "set DATARECS_LINKS__KEY_FILE, for email-notifier and core-api",
        )
    return Outcome(seen="signed links below the base URL")


def _relay_steps(settings: MailSettings) -> Iterator[CheckStep]:
    mail = settings.mail
    if mail.transport is MailTransport.FILE:
        seen = f"mails are written to {mail.directory}"
        yield CheckStep("relay", "transport", lambda: Outcome(seen=seen))
        return
    host = mail.host or ""
    yield CheckStep("relay", "name", lambda: _resolved(host, mail.port))
    yield CheckStep("relay", "connection", lambda: _with_relay(settings, _offers))
    yield CheckStep("relay", "login", lambda: _with_relay(settings, _login))
    yield CheckStep("relay", "sender", lambda: _with_relay(settings, _sender))


def _resolved(host: str, port: int) -> Outcome:
    try:
        addresses = {str(one[4][0]) for one in socket.getaddrinfo(host, port)}
    except socket.gaierror as error:
        return failed(f"{host}: {error.strerror}", "correct DATARECS_MAIL__HOST")
    return Outcome(seen=f"{host} is {', '.join(sorted(addresses))}")


_Talk = Callable[[smtplib.SMTP, MailSettings], Outcome]


def _with_relay(settings: MailSettings, talk: _Talk) -> Outcome:
    """Open a connection, encrypted as in the settings, for one step."""
    mail = settings.mail
    host, port = mail.host or "", mail.port
    try:
        with _connected(mail, host) as relay:
            return talk(relay, settings)
    except ssl.SSLCertVerificationError as error:
        fix = "correct the relay's certificate, or name its authority in DATARECS_MAIL__CA_FILE"
        return failed(f"{host}:{port}: {error.verify_message}", fix)
    except smtplib.SMTPNotSupportedError:
        fix = "use the submission port of the relay, or DATARECS_MAIL__SECURITY=tls with port 465"
        return failed(f"{host}:{port} does not offer STARTTLS or AUTH", fix)
    except smtplib.SMTPResponseException as error:
        # A relay may repeat the login in its answer, so the code alone is shown.
        return failed(
            f"{host}:{port} answers {error.smtp_code}", "contact the operator of the relay"
        )
    except (OSError, smtplib.SMTPException) as error:
        seen = f"{host}:{port}: {type(error).__name__}: {getattr(error, 'strerror', None) or ''}"
        fix = "correct DATARECS_MAIL__HOST and __PORT, or allow the connection"
        return failed(seen.rstrip(": "), fix)


def _connected(mail: Mail, host: str) -> smtplib.SMTP:
    context = ssl.create_default_context(cafile=mail.ca_file)
    if mail.security is MailSecurity.TLS:
        return smtplib.SMTP_SSL(host, mail.port, timeout=STEP_LIMIT_S, context=context)
    relay = smtplib.SMTP(host, mail.port, timeout=STEP_LIMIT_S)
    try:
        if mail.security is MailSecurity.STARTTLS:
            relay.starttls(context=context)
        relay.ehlo()
    except BaseException:
        relay.close()
        raise
    return relay


def _offers(relay: smtplib.SMTP, _settings: MailSettings) -> Outcome:
    tls = relay.sock.version() if isinstance(relay.sock, ssl.SSLSocket) else "no encryption"
    if not relay.has_extn("smtputf8"):
        return warned(
            f"{tls}; no SMTPUTF8",
            "addresses with letters outside ASCII before the @ get no mail from this relay",
        )
    return Outcome(seen=str(tls))


def _login(relay: smtplib.SMTP, settings: MailSettings) -> Outcome:
    mail = settings.mail
    if mail.username is None:
        return skipped("no login is set")
    if mail.security is MailSecurity.NONE:
        return failed("a login is never sent without TLS", "set DATARECS_MAIL__SECURITY")
    password = mail.password.get_secret_value() if mail.password else ""
    try:
        relay.login(mail.username, password)
    except smtplib.SMTPAuthenticationError as error:
        fix = "correct DATARECS_MAIL__USERNAME and DATARECS_MAIL__PASSWORD_FILE"
        return failed(f"the relay refuses the login ({error.smtp_code})", fix)
    return Outcome(seen="accepted")


def _sender(relay: smtplib.SMTP, settings: MailSettings) -> Outcome:
    mail = settings.mail
    sender = mail.envelope_from or mail.sender or ""
    if mail.username is not None and (refusal := _login(relay, settings)).fix is not None:
        return refusal
    code, _ = relay.mail(sender)
    relay.rset()
    if code != 250:  # noqa: PLR2004  accepted
        fix = "allow the address at the relay, or correct DATARECS_MAIL__ENVELOPE_FROM"
        return failed(f"the relay refuses the sender {sender} ({code})", fix)
    return Outcome(seen=f"{sender} may send")


def _message(path: Path) -> Message:
    message = message_from_bytes(path.read_bytes())
    if not message.keys():
        raise UsageFault(f"{path} is not a mail; save the source of a received mail")
    return message


def _unsubscribe(message: Message) -> Outcome:
    fix = "use a relay that does not change these headers"
    values = ["".join(str(one).split()) for one in message.get_all("List-Unsubscribe", [])]
    if not values:
        fix = "set DATARECS_LINKS__KEY_FILE and an https base URL; notices have no such header"
        return failed("the mail has no List-Unsubscribe", fix)
    if len(values) > 1 or not values[0].startswith("<https://") or "," in values[0]:
        return failed("List-Unsubscribe is not exactly one https address", fix)
    if str(message.get("List-Unsubscribe-Post", "")).strip() != _ONE_CLICK:
        return failed(f"List-Unsubscribe-Post is not {_ONE_CLICK}", fix)
    return Outcome(seen="one https address, one click")


def _signature(message: Message) -> Outcome:
    signatures = [_tags(str(one)) for one in message.get_all("DKIM-Signature", [])]
    if not signatures:
        return failed("the mail has no DKIM signature", "switch on DKIM at the relay")
    covers = [set(one.get("h", "").lower().split(":")) for one in signatures]
    if not any(covered.issuperset(SIGNED) for covered in covers):
        missing = [name for name in SIGNED if not any(name in covered for covered in covers)]
        fix = "add both headers to the signed ones of the relay (RFC 8058)"
        return failed(f"the signature does not cover {', '.join(missing) or 'both'}", fix)
    return Outcome(seen=f"signed by {', '.join(one.get('d', '?') for one in signatures)}")


def _tags(signature: str) -> dict[str, str]:
    parts = (part.partition("=") for part in "".join(signature.split()).split(";"))
    return {name: value for name, _, value in parts if name}


def _identity(message: Message) -> Outcome:
    ids = message.get_all("Message-ID", [])
    if len(ids) != 1:
        return failed(f"{len(ids)} Message-IDs", "use a relay that does not add one")
    automatic = str(message.get("Auto-Submitted", "")).strip()
    if automatic != "auto-generated":
        fix = "use a relay that does not change Auto-Submitted"
        return warned("Auto-Submitted is not auto-generated", fix)
    return Outcome(seen=str(ids[0]).strip())


_HEADERS: dict[str, Callable[[Message], Outcome]] = {
    "List-Unsubscribe": _unsubscribe,
    "DKIM-Signature": _signature,
    "Message-ID": _identity,
}
