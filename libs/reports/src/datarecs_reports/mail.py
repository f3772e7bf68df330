"""Mails as bytes: headers, a text part and an HTML part that state the same facts.

Apart from the words because this is about MIME: which headers stand, how they are encoded, that
equal content gives equal bytes.
"""

from dataclasses import dataclass, field
from email.headerregistry import HeaderRegistry, MessageIDHeader
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from datarecs_core.notifications.address import wire_address
from datarecs_core.notifications.content import MailContent
from datarecs_reports.mail_words import MailWords, clean, mail_words

MAX_BYTES = 100 * 1024
FIRST_ROWS = 200
"""Rows of a table tried first; halved until the mail is small enough."""
_HEADERS = HeaderRegistry()
for _name in ("In-Reply-To", "References"):
    # As free text they would be folded into encoded words, and the thread would break.
    _HEADERS.map_to_type(_name, MessageIDHeader)  # type: ignore[arg-type]  # a mixin, as documented


def _environment(*, markup: bool) -> Environment:
    return Environment(
        loader=PackageLoader("datarecs_reports", "templates/mail"),
        autoescape=markup,  # noqa: S701  the text part is no markup; the HTML part escapes
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MailTemplates:
    """The renderer of outcome mails."""

    sender: str
    """The From header, constant per deployment."""
    mail_domain: str
    base_url: str
    """Without trailing slash; never taken from a request."""
    _text: Environment = field(default_factory=lambda: _environment(markup=False))
    _html: Environment = field(default_factory=lambda: _environment(markup=True))

    def render(self, content: MailContent) -> bytes:
        """A complete message with CRLF line ends, at most 100 KiB."""
        rows = FIRST_ROWS
        mime = self._message(content, rows)
        while len(mime) > MAX_BYTES and rows:
            rows //= 2
            mime = self._message(content, rows)
        return mime

    def _message(self, content: MailContent, most_rows: int) -> bytes:
        words = mail_words(content, base_url=self.base_url, most_rows=most_rows)
        policy = SMTP if content.recipient.isascii() else SMTPUTF8
        message = EmailMessage(policy=policy.clone(header_factory=_HEADERS))
        for name, value in self._headers(content, words):
            message[name] = value
        text = self._text.get_template("outcome.txt.j2").render(words=words)
        html = self._html.get_template("outcome.html.j2").render(words=words)
        message.set_content(text, cte="quoted-printable")
        message.add_alternative(html, subtype="html", cte="quoted-printable")
        # The default boundary is random; this one is a function of the mail.
        message.set_boundary(f"=_{content.message_id.split('.')[2].partition('@')[0]}")
        return message.as_bytes()

    def _headers(self, content: MailContent, words: MailWords) -> list[tuple[str, str]]:
        list_name = clean(content.job_name).replace('"', "").replace("\\", "")
        return [
            ("From", self.sender),
            ("To", wire_address(content.recipient)),
            ("Subject", words.subject),
            ("Date", format_datetime(content.finalised_at)),
            ("Message-ID", content.message_id),
            ("In-Reply-To", content.thread_root),
            ("References", content.thread_root),
            ("List-Id", f'"{list_name}" <{content.job_id}.jobs.{self.mail_domain}>'),
            *_unsubscribing(words),
            ("Auto-Submitted", "auto-generated"),
            ("X-Auto-Response-Suppress", "All"),
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
