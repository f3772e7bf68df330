"""Mails as bytes: headers, a text part and an HTML part with the same facts.

This module decides the MIME structure: the headers, their encoding, and equal bytes for equal
content. `mail_words` decides the texts.
"""

from dataclasses import dataclass, field
from email.headerregistry import HeaderRegistry, MessageIDHeader
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime
from typing import assert_never

from jinja2 import Environment, PackageLoader, StrictUndefined

from datarecs_core.notifications.address import wire_address
from datarecs_core.notifications.content import (
    Content,
    DigestContent,
    MailContent,
    NoticeContent,
)
from datarecs_reports.mail_digest import digest_words, notice_words
from datarecs_reports.mail_tables import clean
from datarecs_reports.mail_words import MailWords, mail_words

MAX_BYTES = 100 * 1024
FIRST_ROWS = 200
"""Most rows of a table at first; halved until the mail is small enough."""
_HEADERS = HeaderRegistry()
for _name in ("In-Reply-To", "References"):
    # As free text they would be folded into encoded words, and the thread would break.
    _HEADERS.map_to_type(_name, MessageIDHeader)  # type: ignore[arg-type]  # a mixin, as documented


def _environment(*, markup: bool) -> Environment:
    return Environment(
        loader=PackageLoader("datarecs_reports", "templates/mail"),
        autoescape=markup,  # noqa: S701  the text part is not markup; the HTML part escapes
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MailTemplates:
    """Renders every mail."""

    sender: str
    """The From header, constant per deployment."""
    mail_domain: str
    base_url: str
    """Without trailing slash; never taken from a request."""
    _text: Environment = field(default_factory=lambda: _environment(markup=False))
    _html: Environment = field(default_factory=lambda: _environment(markup=True))

    def render(self, content: Content) -> bytes:
        """A complete message with CRLF line ends, at most 100 KiB."""
        rows = FIRST_ROWS
        mime = self._message(content, rows)
        while len(mime) > MAX_BYTES and rows:
            rows //= 2
            mime = self._message(content, rows)
        return mime

    def text(self, content: Content) -> tuple[str, str, str]:
        """Subject, text part and HTML part, as a preview shows them."""
        words = self._words(content, FIRST_ROWS)
        return (words.subject, *self._parts(words))

    def _words(self, content: Content, most_rows: int) -> MailWords:
        match content:
            case MailContent():
                return mail_words(content, base_url=self.base_url, most_rows=most_rows)
            case DigestContent():
                return digest_words(content, base_url=self.base_url, most_rows=most_rows)
            case NoticeContent():
                return notice_words(content.notice)
        assert_never(content)

    def _parts(self, words: MailWords) -> tuple[str, str]:
        return (
            self._text.get_template("outcome.txt.j2").render(words=words),
            self._html.get_template("outcome.html.j2").render(words=words),
        )

    def _message(self, content: Content, most_rows: int) -> bytes:
        words = self._words(content, most_rows)
        policy = SMTP if content.recipient.isascii() else SMTPUTF8
        message = EmailMessage(policy=policy.clone(header_factory=_HEADERS))
        for name, value in self._headers(content, words):
            message[name] = value
        text, html = self._parts(words)
        message.set_content(text, cte="quoted-printable")
        message.add_alternative(html, subtype="html", cte="quoted-printable")
        # The default boundary is random; this one is a function of the mail.
        tag = content.message_id.partition("@")[0].rpartition(".")[2]
        message.set_boundary(f"=_{tag}")
        return message.as_bytes()

    def _headers(self, content: Content, words: MailWords) -> list[tuple[str, str]]:
        about = self._of_run(content) if isinstance(content, MailContent) else []
        return [
            ("From", self.sender),
            ("To", wire_address(content.recipient)),
            ("Subject", words.subject),
            ("Date", format_datetime(content.finalised_at)),
            ("Message-ID", content.message_id),
            *_unsubscribing(words),
            ("Auto-Submitted", "auto-generated"),
            ("X-Auto-Response-Suppress", "All"),
            *about,
        ]

    def _of_run(self, content: MailContent) -> list[tuple[str, str]]:
        list_name = clean(content.job_name).replace('"', "").replace("\\", "")
        return [
            ("In-Reply-To", content.thread_root),
            ("References", content.thread_root),
            ("List-Id", f'"{list_name}" <{content.job_id}.jobs.{self.mail_domain}>'),
            ("X-Datarecs-Run", str(content.run_id)),
            ("X-Datarecs-Job", str(content.job_id)),
            ("X-Datarecs-Outcome", content.outcome),
            ("X-Datarecs-Reason", f"{content.kind}; {', '.join(map(clean, content.rules))}"),
        ]


def _unsubscribing(words: MailWords) -> list[tuple[str, str]]:
    """RFC 8058: one HTTPS URI that takes a POST."""
    if not words.unsubscribe.startswith("https://"):
        return []
    return [
        ("List-Unsubscribe", f"<{words.unsubscribe}>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    ]
