"""The certificate with which core-api serves https: loaded once, and checked before the start."""

import ssl
from datetime import datetime
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer, HTTP/1.1 only.

    Raises:
        OSError: a file cannot be read, or key and certificate do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key, password=_no_password)
    return context


def certificate_fault(certificate: Path, key: Path, *, now: datetime) -> str | None:
    """Why no client can use the certificate; None if one can. Names of hosts are not checked."""
    try:
        server_context(certificate, key)
        first = load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        return f"the certificate {certificate} with the key {key} cannot be used ({reason})"
    if first.not_valid_after_utc <= now:
        return f"the certificate {certificate} expired on {first.not_valid_after_utc:%Y-%m-%d}"
    return None


def _no_password() -> str:
    """Without it OpenSSL asks on the terminal."""
    return ""
