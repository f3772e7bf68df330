"""What identifies a mail: its dedupe key, its Message-ID, its thread, the hash in events.

All depend only on tenant, run, job and recipient, so a row that is created again sends the
same Message-ID and mailboxes join the copies.
"""

import base64
import hashlib

from datarecs_core.hashing import sha256_hex
from datarecs_core.values import JobId, RunId, TenantId

_TAG_LENGTH = 26


def run_scope(run: RunId) -> str:
    return f"run:{run}"


def dedupe_key(run: RunId, recipient_key: str) -> str:
    """Unique per tenant: at most one mail per run and recipient."""
    return f"{run_scope(run)}:{recipient_key}"


def message_id(tenant: TenantId, run: RunId, recipient_key: str, *, mail_domain: str) -> str:
    """`<run.…@domain>`, the same for every copy of the mail."""
    return f"<run.{run}.{_tag(tenant, run_scope(run), recipient_key)}@{mail_domain}>"


def other_message_id(
    tenant: TenantId, dedupe_key: str, recipient_key: str, *, mail_domain: str
) -> str:
    """The Message-ID of a mail that is not about one run: a digest, a notice, a test."""
    return f"<mail.{_tag(tenant, dedupe_key, recipient_key)}@{mail_domain}>"


def thread_root(tenant: TenantId, job: JobId, recipient_key: str, *, mail_domain: str) -> str:
    """The `In-Reply-To` of the mails of one job to one recipient; never sent itself."""
    return f"<job.{job}.{_tag(tenant, f'job:{job}', recipient_key)}@{mail_domain}>"


def recipient_hash(tenant: TenantId, recipient_key: str) -> str:
    """The value in events instead of the address."""
    return sha256_hex(f"{tenant}\n{recipient_key}".encode())


def _tag(tenant: TenantId, scope: str, recipient_key: str) -> str:
    digest = hashlib.sha256(f"{tenant}\n{scope}\n{recipient_key}".encode()).digest()
    return base64.b32encode(digest).decode().lower()[:_TAG_LENGTH]
